"""Bugs of the cache and of attention: keys, values, pages, masks, positions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PLAN, _SETTLE = "glimpse.attention.plan", "glimpse.engine.settle"

MUTANTS = (
    Mutant(
        "no rollback", "a row goes on behind the rejected tokens' keys and values",
        f"{_SETTLE}:Settler._learn", "committed + outcome.accepted", "committed + outcome.drafted",
        "engine/test_endings.py::test_counts_of_a_known_run",
    ),
    Mutant(
        "draft keys and values kept", "verification computes no keys and values where drafting wrote some",
        "glimpse.engine.forward:forward", "pool.write(layer, plan.slots, k, v)",
        "own = torch.cat([torch.arange(row.begin, row.begin + 1 if row.spec.outputs == row.spec.count else row.end) "
        "for row in plan.rows]); pool.write(layer, plan.slots[own], k[own], v[own])",
        "engine/test_equality.py::test_coupled_equals_plain[sparse-fixed-8]",
    ),
    Mutant(
        "keys and values below the committed length trusted", "a draft cut short leaves its last token as verified",
        f"{_SETTLE}:Settler._learn", "sequence.truncate(verified)",
        "sequence.truncate(verified); parts.rows.verified_len[outcome.slot] += outcome.accepted < outcome.drafted",
        "engine/test_endings.py::test_counts_of_a_known_run",
    ),
    Mutant(
        "path compaction skipped", "an accepted path stays where the tree's nodes lay",
        f"{_SETTLE}:Settler._learn", "if outcome.path is not None:",
        "if outcome.path is not None and not outcome.path:",
        "engine/test_trees.py::test_cache_and_importance_are_the_accepted_paths",
    ),
    Mutant(
        "sibling visible", "the nodes of a tree see all nodes before them",
        f"{_PLAN}:_own", "mask[first:, first:] = seen = ancestors", "seen = ancestors",
        "attention/test_reference.py::test_tree_rows_see_prefix_and_ancestors",
    ),
    Mutant(
        "tree positions by place", "a node stands where it lies in the cache, not at its depth",
        f"{_PLAN}:_own", "positions[first:] = spec.start + first - 1 + seen.sum(-1)",
        "positions[first:] = positions[first:]",
        "engine/test_trees.py::test_cache_and_importance_are_the_accepted_paths",
    ),
    Mutant(
        "position off by one", "the tokens of a verification stand one position late",
        f"{_PLAN}:_own", "torch.arange(spec.start, spec.stop)",
        "torch.arange(spec.start, spec.stop) + (spec.outputs == spec.count > 1)",
        "engine/test_endings.py::test_counts_of_a_known_run",
    ),
    Mutant(
        "block not causal", "the tokens of a verification see the ones behind them",
        f"{_PLAN}:_own", "dtype=torch.bool).tril()", "dtype=torch.bool)",
        "engine/test_endings.py::test_counts_of_a_known_run",
    ),
    Mutant(
        "wrong GQA map", "query heads take key and value heads in turn, not in groups",
        "glimpse.attention.reference:attend_row", ".unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)",
        ".unflatten(1, (-1, kv_heads)).permute(2, 1, 0, 3)",
        "attention/test_reference.py::test_every_head_ratio[6-2]",
    ),
    Mutant(
        "window off by a block", "rows of many pages do not read their first one",
        "glimpse.cache.sequence:Sequence.extents", "self.pages[first:", "self.pages[first + (stop > 3 * size) :",
        "engine/test_equality.py::test_plain_greedy_equals_transformers",
    ),
    Mutant(
        "set off by a page", "a draft row does not read from where its set ends, but from the next page on",
        "glimpse.cache.sequence:Sequence.extents", "start // self.pool.page_size, ",
        "-(-start // self.pool.page_size), ",
        "engine/test_equality.py::test_a_budget_of_the_whole_context_is_always_right[1]",
    ),
    Mutant(
        "page freed too early", "the page that the text ends in is given back",
        "glimpse.cache.sequence:Sequence.truncate", "max(self.pool.pages_for(length), ",
        "max(length // self.pool.page_size, ",
        "property/test_pages.py::test_nothing_is_read_of_pages_that_are_free_or_anothers",
    ),
    Mutant(
        "shared page not held", "a page of a prefix is free for others while a row reads it",
        "glimpse.cache.sequence:Sequence.__init__", "pool.retain(self.pages)", "pool.retain([])",
        "cache/test_pool.py::test_shared_pages_are_freed_by_their_last_holder",
    ),
    Mutant(
        "shared page written", "a row begins to write inside the prefix that it shares",
        "glimpse.cache.rows:Rows.open", "self.verified_len[slot], self.draft_len[slot] = sequence.shared_len, 0",
        "self.verified_len[slot], self.draft_len[slot] = max(0, sequence.shared_len - 1), 0",
        "engine/test_prefix_reuse.py::test_a_beginning_is_read_once[none]",
    ),
    Mutant(
        "half a page shared", "a page that is still being filled is shared",
        "glimpse.cache.prefix:PrefixStore.publish", "verified // self._pool.page_size",
        "-(-verified // self._pool.page_size)",
        "engine/test_prefix_reuse.py::test_a_running_request_shares_what_it_has_read",
    ),
    Mutant(
        "a taken page remembered", "pages that were taken for other texts are still found under the old one",
        "glimpse.cache.pool:PagePool.allocate", "if self._used[taken].any():", "if not count:",
        "engine/test_prefix_reuse.py::test_a_cache_that_is_full_forgets_and_stays_right",
    ),
    Mutant(
        "keys of another length shared", "under dynamic scaling, prompts of other lengths share their keys",
        "glimpse.cache.prefix:PrefixStore._root", "len(prompt) if self._by_length else 0", "0",
        "engine/test_prefix_reuse.py::test_prompts_of_other_lengths_under_dynamic_rope",
    ),
    Mutant(
        "importance from rejected nodes", "queries of rejected draft tokens count for the next recall set",
        f"{_SETTLE}:_kept_importance",
        "weights[:, :, : weights.shape[2] - rejected, : weights.shape[3] - rejected]", "weights",
        "drafting/test_sparse.py::test_importance_is_that_of_kept_queries_alone",
    ),
    Mutant(
        "queries from before the slow step", "slow-fast: a set is of all queries verified together, not of the last 16",
        "glimpse.drafting.slowfast:SelectorSets.verified", "weights[:, :, -WINDOW:]", "weights",
        "engine/test_slowfast.py::test_a_set_is_of_the_last_queries_alone",
    ),
)  # fmt: skip
"""In the order of the table."""
