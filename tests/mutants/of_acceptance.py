"""Bugs of the acceptance rules and of the noise they use."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_EXACT, _REJECTION = "glimpse.acceptance.exact", "glimpse.acceptance.rejection"
_SELF_DRAFTS = "acceptance/test_exact_rules.py::test_coupled_with_self_drafts[4]"
_OWN_LAW = "statistics/test_emitted_laws.py::test_emitted_law[plain-own law-rejection]"

MUTANTS = (
    Mutant(
        "first draft unverified", "the first token of a draft is accepted whatever the target picks",
        f"{_EXACT}:walk", "token == picks[at + 1]", "(at < 0 or token == picks[at + 1])",
        "engine/test_endings.py::test_one_wrong_token_is_never_accepted",
    ),
    Mutant(
        "correction from the wrong row", "the target's own token comes from the row behind the last draft token",
        f"{_EXACT}:_accept", "[own[node + 1] for node in (-1, *path)]",
        "[*[own[node + 1] for node in (-1, *path)][:-1], own[-1]]",
        "engine/test_endings.py::test_counts_of_a_known_run",
    ),
    Mutant(
        "second pick after a mismatch", "where no child holds the pick, another is drawn: 2p - p^2 for a drafted token",
        f"{_EXACT}:_accept", "own = picks[first : first + end - start + 1]",
        "kids = set(zip(parents[start:end], tokens[start:end])); part = slice(first, first + end - start + 1); "
        "own = [b if (n - 1, a) not in kids and (n - 1, b) in kids else a "
        "for n, (a, b) in enumerate(zip(picks[part], again[part]))]",
        "statistics/test_tree_laws.py::test_first_and_joint_law[tokens1-parents1-matched]",
        also=(("picked = pick(", "again = pick(laws, noise.seeds, noise.positions, Role.TARGET, 1).tolist()\n    "
               "picked = pick("),),
    ),
    Mutant(
        "noise reused in a block", "all tokens of a block are picked with the noise of the first",
        f"{_EXACT}:_accept", "noise.positions, Role.TARGET", "noise.positions * 0 + noise.positions[0], Role.TARGET",
        _SELF_DRAFTS,
    ),
    Mutant(
        "noise one position late", "draft nodes have the noise of the position before",
        "glimpse.sampling.nodes:Nodes.verifying", "lengths[index] + depth for",
        "lengths[index] + max(0, depth - 1) for",
        _SELF_DRAFTS,
    ),
    Mutant(
        "residual from the wrong law", "after a rejection the token comes from the target's law, not the residual",
        f"{_REJECTION}:_residual", "rest = (p - proposal.probs()).clamp_min_(0.0)", "rest = p.clone()",
        _OWN_LAW,
    ),
    Mutant(
        "residual of another node", "the residual subtracts the law that the first draft token was drawn from",
        f"{_REJECTION}:_own_tokens", "(starts[:-1] + accepted)[refused]", "starts[:-1][refused]",
        "statistics/test_joint_laws.py::test_joint_law[rejection-own law-all]",
    ),
    Mutant(
        "accepted without the draft's law", "a draft token is accepted with p, not with min(1, p/q)",
        f"{_REJECTION}:_passed", "u * q < p", "u < p",
        _OWN_LAW,
    ),
    Mutant(
        "judged by the next row", "a draft token is judged by the law after it",
        "glimpse.acceptance.chains:judges", "[node + row for row", "[node + row + 1 for row",
        _OWN_LAW,
    ),
    Mutant(
        "noise reused for the residual", "the residual is drawn with the number that rejected",
        f"{_REJECTION}:_own_tokens", "Role.RESIDUAL", "Role.ACCEPT",
        "statistics/test_emitted_laws.py::test_emitted_law[plain-deterministic-rejection]",
    ),
    Mutant(
        "noise reused for a second draft", "a position that is drafted again is drafted with the same noise",
        "glimpse.sampling.noise:draft_salt", "return committed if role is Role.DRAFT else 0", "return 0",
        "statistics/test_whole_sequences.py::test_joint_law_of_three_tokens[rejection]",
    ),
    Mutant(
        "laws of the round before", "draft laws are not dropped when they have been used",
        "glimpse.engine.sampling_step:DraftBook.draft", "self._laws.pop(slot, [])", "self._laws.get(slot, [])",
        "statistics/test_two_samples.py::test_speculative_texts_are_plain_texts[rejection-sparse]",
    ),
    Mutant(
        "one seed for all outputs", "the n outputs of a prompt share their noise",
        "glimpse.sampling.noise:child_seed", "if child == 0:", "if child >= 0:",
        "test_llm.py::test_n_outputs_with_seeds_of_their_own",
    ),
    Mutant(
        "an id without a law takes a share", "a drafted id beyond the laws is subtracted as if it were their last",
        f"{_REJECTION}:_certain", "laws.logp.masked_fill(~inside.unsqueeze(1), -torch.inf)", "laws.logp",
        "acceptance/test_rejection_rule.py::test_a_drafted_id_that_the_laws_do_not_know_takes_nothing_from_them[3]",
    ),
    Mutant(
        "lossy: judged by the law behind", "the first draft token passes by the law after it",
        "glimpse.acceptance.relaxed.walks:WalkRule._judged", "+ draft.parents + 1)",
        "+ draft.parents.clamp_min(0) + 1)",
        "acceptance/relaxed/test_walk_rules.py::"
        "test_every_token_is_judged_by_the_law_it_would_be_drawn_from[entropy-gated-tokens0]",
    ),
)  # fmt: skip
"""In the order of the table."""
