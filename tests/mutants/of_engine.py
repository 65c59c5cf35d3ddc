"""Bugs of the engine: where an output ends, what a row keeps, who gets what back."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COMMITTER, _RESIDENTS = "glimpse.engine.commit:Committer", "glimpse.engine.residents:Residents"

MUTANTS = (
    Mutant(
        "end of text inside a block ignored", "what stands behind an end in the same block is kept",
        f"{_COMMITTER}.take", "break", "continue",
        "engine/test_commit.py::test_eos_inside_a_round_ends_there[4-1]",
    ),
    Mutant(
        "stop checked before trimming", "stop strings are looked for in a block that has not been cut to the limit",
        f"{_COMMITTER}._judge", 'self._finish_reason = "length"', "pass",
        "engine/test_commit.py::test_exactly_max_tokens[4-3]",
    ),
    Mutant(
        "max_tokens overrun", "the limit is noticed one token late",
        f"{_COMMITTER}._judge", "len(self._token_ids) == self._limit", "len(self._token_ids) == self._limit + 1",
        "engine/test_endings.py::test_max_tokens_is_exact[4-3]",
    ),
    Mutant(
        "finish reason wrong", "a stop on the last token allowed is called the length",
        f"{_COMMITTER}._read", "if match:", "if match and end != 'length':",
        "engine/test_commit.py::test_stop_exactly_at_the_cap_says_stop[options0-c]",
    ),
    Mutant(
        "min_tokens off by one", "a stop counts one token too late",
        f"{_COMMITTER}._judge", ">= self._min_tokens", "> self._min_tokens",
        "engine/test_commit.py::test_min_tokens_come_before_any_stop[3]",
    ),
    Mutant(
        "stop strings forgotten between blocks", "a stop string that spans two blocks is missed",
        f"{_COMMITTER}.take", "count, pieces = 0, list[str]()", "count, pieces = 0, []; self._stops._state = 0",
        "engine/test_commit.py::test_stop_at_every_offset_of_a_long_round[5-4]",
    ),
    Mutant(
        "batch rows swapped", "the rows of a batch are judged by one another's logits",
        "glimpse.engine.settle:Settler._judge", "torch.cat(judged)", "torch.cat(judged[::-1])",
        "engine/test_batches.py::test_more_requests_than_rows",
    ),
    Mutant(
        "penalties forgotten when put back", "a request that was put back is read again without its counts",
        f"{_RESIDENTS}.open", "parts.sampler.commit(slot, written)", "parts.sampler.commit(slot, [])",
        "engine/test_preemption.py::test_states_of_processors_logprobs_and_text[5]",
    ),
    Mutant(
        "noise begins anew when put back", "after it was put back a request draws other numbers",
        f"{_RESIDENTS}.open", "parts.sampler.commit(slot, written)",
        "parts.sampler.commit(slot, written); parts.sampler.seeds[slot] += request.preempted",
        "engine/test_preemption.py::test_in_any_phase[True-6]",
    ),
    Mutant(
        "output counted as prompt when put back", "what it had written is taken for a part of the prompt",
        "glimpse.cache.rows:Rows.open", "self.committed_len[slot] = len(prompt), length",
        "self.committed_len[slot] = length, length",
        "engine/test_preemption.py::test_states_of_processors_logprobs_and_text[5]",
    ),
    Mutant(
        "numbers behind a rejected token end a row", "logits that plain decoding would not have met are judged too",
        "glimpse.engine.sampling_step:verify", "if broken:", "if not nodes:",
        "engine/test_batches.py::test_what_was_drafted_in_vain_may_be_no_number",
    ),
    Mutant(
        "pages of a cancelled request lost", "a row that leaves keeps its pages",
        f"{_RESIDENTS}.retire", "parts.rows.close", "parts.rows.clear",
        "engine/test_batches.py::test_cancelling_at_any_step[0]",
    ),
    Mutant(
        "a token between parts skipped", "the parts of a long prompt begin one token late",
        "glimpse.engine.phases:PhasePlanner._spec", "int(self._rows.verified_len[slot])",
        "int(self._rows.verified_len[slot]) + (outputs == 0)",
        "engine/test_equality.py::test_prefill_in_chunks_changes_nothing[noisy]",
    ),
    Mutant(
        "laws left to the next row", "what a cancelled draft was drawn from stays for who gets the row",
        "glimpse.engine.engine:Engine._retire", "everyone.callback(self._settler.forget, slot)", "pass",
        "engine/test_batches.py::test_who_leaves_while_drafting_takes_the_draft_along[rejection]",
    ),
    Mutant(
        "halts left to the next row", "whoever gets the row of a cancelled draft that had halted does not draft",
        "glimpse.engine.engine:Engine._retire", "everyone.callback(self._planner.halted.discard, slot)", "pass",
        "engine/test_batches.py::test_who_leaves_while_drafting_takes_the_draft_along[coupled]",
    ),
    Mutant(
        "trusted tokens not told", "penalties and bad words do not see what fast steps wrote",
        "glimpse.engine.settle:Settler._trust", "parts.sampler.commit(slot, kept)", "pass",
        "engine/test_slowfast.py::test_where_fast_steps_read_everything_the_text_is_plain[stateful]",
    ),
    Mutant(
        "room behind the prompt ignored", "an output goes on beyond the context where max_tokens allows it",
        f"{_COMMITTER}.__init__", "else min(max_tokens, context_room)", "else max_tokens",
        "engine/test_commit.py::test_context_end_is_length",
    ),
)  # fmt: skip
"""In the order of the table."""
