"""Bugs of the sampling options: right for plain decoding or not, wrong for a block."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PROCESSORS, _PIPELINE = "glimpse.sampling.processors", "glimpse.sampling.pipeline"

MUTANTS = (
    Mutant(
        "frozen penalties", "penalties count what was committed before the block, not the block's own tokens",
        f"{_PROCESSORS}.penalties:Penalties._count_ancestors", "if inside:", "if not nodes:",
        "engine/test_endings.py::test_penalties_see_accepted_tokens_of_their_own_block",
    ),
    Mutant(
        "penalties for siblings", "a node of a tree is penalised for the node before it, on its path or not",
        "glimpse.sampling.nodes:Nodes.verifying", "trie.append(parent + start if parent >= 0 else -1)",
        "trie.append(len(trie) - 1)",
        "sampling/test_processors.py::test_penalties_see_the_ancestors_of_a_tree_not_its_siblings",
    ),
    Mutant(
        "penalties count rejected tokens", "the processors are told of one more token where a draft was rejected",
        "glimpse.engine.settle:Settler._learn", "parts.sampler.commit(outcome.slot, outcome.tokens)",
        "parts.sampler.commit(outcome.slot, outcome.tokens + outcome.tokens[-1:] "
        "* (outcome.accepted < outcome.drafted))",
        "engine/test_endings.py::test_penalties_see_accepted_tokens_of_their_own_block",
    ),
    Mutant(
        "prompt not penalised", "the repetition penalty forgets the prompt",
        f"{_PROCESSORS}.penalties:Penalties._apply", "written | prompted", "written",
        "sampling/test_processors.py::test_repetition_penalty_as_in_transformers",
    ),
    Mutant(
        "top-p before the temperature", "the nucleus is that of temperature 1",
        "glimpse.sampling.truncation:_kept", "weights = exponents.exp() * keep",
        "weights = (exponents * cuts.temperature.unsqueeze(1)).exp() * keep",
        "sampling/test_truncation.py::test_equal_to_a_naive_sort",
    ),
    Mutant(
        "min-p lost on verified tokens", "only the first law of a block is cut by min_p",
        f"{_PIPELINE}:Sampler._cuts", "self._log_min_p[row]",
        "self._log_min_p[row].where(torch.arange(len(row)) == 0, -torch.inf)",
        "statistics/test_emitted_laws.py::test_emitted_law[min_p-deterministic-matched]",
    ),
    Mutant(
        "bad words blind within a block", "a bad word is looked for in what was committed before the block",
        f"{_PROCESSORS}.masks:BadWords.apply", "chain(nodes.ancestors(node), reversed(state.tail))",
        "reversed(state.tail)",
        "engine/test_endings.py::test_a_bad_word_in_any_place_of_a_block",
    ),
    Mutant(
        "suppressed only at first", "suppressed tokens are masked in the first law of a block",
        f"{_PROCESSORS}.masks:Suppress.apply", "served, [self.states[nodes.rows[node]] for node in served]",
        "served[:1], [self.states[nodes.rows[node]] for node in served[:1]]",
        "statistics/test_emitted_laws.py::test_emitted_law[bias-deterministic-matched]",
    ),
    Mutant(
        "min_tokens counted by block", "every node of a block counts as many output tokens as its first",
        "glimpse.sampling.nodes:Nodes.verifying", "[generated[index] + depth for depth in depths]",
        "[generated[index]] * len(depths)",
        "property/test_random_blocks.py::test_no_end_before_min_tokens_in_any_place_of_a_block[4]",
    ),
    Mutant(
        "padding has weight", "where laws of unequal width are joined, the padding is given probability",
        "glimpse.sampling.law:Laws.cat", "_stack([part.logp for part in parts], -torch.inf)",
        "_stack([part.logp for part in parts], 0.0)",
        "sampling/test_joined_laws.py::test_joined_laws_keep_their_probabilities[0]",
    ),
    Mutant(
        "seeds of other rows", "the rows of a batch draw with one another's seeds",
        f"{_PIPELINE}:Sampler.seeds_of", "self.seeds[nodes.row]", "self.seeds[nodes.row.flip(0)]",
        "engine/test_batches.py::test_more_requests_than_rows",
    ),
    Mutant(
        "logprobs of the wrong law", "accepted tokens get the logprobs of the block's first law",
        "glimpse.engine.settle:_cut", "[0, *[node + 1 for node in path]]", "[0] * len(tokens)",
        "engine/test_engine_logprobs.py::test_equal_to_plain_and_counted[greedy-512-noisy]",
    ),
)  # fmt: skip
"""In the order of the table."""
