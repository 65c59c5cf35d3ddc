"""Bugs of the device engine and its kernels, which run under Triton's interpreter here."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ROWS, _TREES = "glimpse.attention.triton.rows", "glimpse.attention.triton.trees"

MUTANTS = (
    Mutant(
        "device: a rejected token kept", "the commit kernel keeps one token more than the picks allow",
        f"{_ROWS}:_commit_kernel", "count = (accepted + 1) * alive", "count = (accepted + 2) * alive",
        "attention/kernels/test_row_kernels.py::test_picks_are_kept_up_to_the_first_that_differs",
    ),
    Mutant(
        "device: no rollback", "a row's length moves on by its whole draft",
        f"{_ROWS}:_commit_kernel", "tl.store(length + row, old + count)", "tl.store(length + row, old + fed)",
        "attention/kernels/test_row_kernels.py::test_picks_are_kept_up_to_the_first_that_differs",
    ),
    Mutant(
        "device: padding attended", "a row with a short draft reads the padding behind it",
        f"{_ROWS}:_feed_kernel", "(first + count) * alive", "(first + queries) * alive",
        "attention/kernels/test_row_kernels.py::test_rows_feed_their_own_drafts_and_no_more",
    ),
    Mutant(
        "device: idle rows write", "rows that are idle write into pages that may be another's",
        f"{_ROWS}:_feed_kernel", "tl.where((alive > 0) & (query < count), ",
        "tl.where((alive > -1) & (query < count), ",
        "attention/kernels/test_row_kernels.py::test_a_row_without_room_for_a_draft_and_the_targets_token_feeds_none",
    ),
    Mutant(
        "device: noise of the position before", "kernels key their noise one position early",
        "glimpse.attention.triton.noise:noise_key", "position.to(tl.uint64)", "(position - 1).to(tl.uint64)",
        "attention/kernels/test_kernel_noise.py::test_keys_are_equal_and_noise_is_but_for_last_bits",
    ),
    Mutant(
        "device: sibling visible", "a node of a tree sees what the node before it sees",
        f"{_TREES}:_branch_kernel", "bits | _at(bits, place, parent)", "bits | _at(bits, place, query - 1)",
        "attention/kernels/test_tree_kernels.py::test_a_node_sees_its_ancestors_and_stands_at_its_depth[sizes1-9]",
    ),
    Mutant(
        "device: path through a stranger", "a node that holds the pick is accepted, whoever its parent is",
        f"{_TREES}:_commit_kernel", "agrees & (_at(above, place, query) == at)", "agrees",
        "attention/kernels/test_tree_kernels.py::test_the_path_that_agrees_is_committed[0-sizes1-9]",
    ),
    Mutant(
        "device: path compaction skipped", "the keys and values of an accepted path stay where the nodes lay",
        f"{_TREES}:_compact_kernel", "(d < DIM) & (node != place)", "(d < DIM) & (node == place)",
        "attention/kernels/test_tree_kernels.py::test_keys_and_values_follow_the_path",
    ),
    Mutant(
        "device: rows that draft move on", "in a mixed step rows that verified nothing are committed too",
        f"{_ROWS}:_commit_kernel", "alive = alive * (fed > 0).to(tl.int32)", "alive = alive * 1",
        "attention/kernels/test_mixed.py::test_only_rows_that_verify_move_on",
    ),
    Mutant(
        "device: wrong GQA map", "query heads read the key and value heads in turn",
        "glimpse.attention.triton.paged:paged_kernel", "head * GROUP + in_group",
        "in_group * KV_HEADS + head",
        "attention/kernels/test_paged.py::test_verify_sees_causally[float32-6-2]",
    ),
    Mutant(
        "device: seeds left behind", "a row that moves to another place draws with that place's seed",
        "glimpse.engine.device.state:DeviceRows.move", "self.table, self.seeds, self.drafted,",
        "self.table, self.drafted,",
        "engine/device/test_seats.py::test_a_row_that_moves_takes_all_of_itself_along",
    ),
    Mutant(
        "device: pages not told", "pages taken for a row that grows are not put into its table",
        "glimpse.engine.device.seats:Seats.extend", "if len(sequence.pages) > have:", "if len(sequence.pages) < have:",
        "engine/device/test_seats.py::test_pages_that_a_row_grows_by_are_in_its_table[40]",
    ),
    Mutant(
        "device: letters of other rows", "the host takes a row's tokens from the row before it",
        "glimpse.engine.device.settle:DeviceSettler._commit", "committed[row][: counts[row]]",
        "committed[row - 1][: counts[row]]",
        "engine/device/test_letters.py::test_every_request_gets_its_own_rows_tokens",
    ),
)  # fmt: skip
"""In the order of the table."""
