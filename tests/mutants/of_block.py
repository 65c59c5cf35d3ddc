"""Bugs of block drafts that leave the text exact: only what blocks are made of, and so their worth, is wrong."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GROUPS, _RIDING = "glimpse.attention.groups", "glimpse.engine.riding"

MUTANTS = (
    Mutant(
        "masks that see later text", "a group reads drafts beyond the one it stands behind",
        f"{_GROUPS}:group_mask", "<= torch.tensor(masks.behind)[group][:, None]", "<= count + 0 * group[:, None]",
        "engine/test_block_drafts.py::test_a_group_is_what_it_would_be_alone",
    ),
    Mutant(
        "masks that see other groups", "all groups of a row read one another",
        f"{_GROUPS}:group_mask", "group[:, None] == group", "group[:, None] > -1 + 0 * group",
        "engine/test_block_drafts.py::test_a_group_is_what_it_would_be_alone",
    ),
    Mutant(
        "masks one place early", "the first mask stands in the place of the token that its group stands behind",
        f"{_GROUPS}:places_behind", "torch.arange(1, size + 1)", "torch.arange(size)",
        "training/test_training.py::test_what_is_trained_is_what_the_engine_runs[llama]",
    ),
    Mutant(
        "block of another ending", "the next block is the first group's, however many drafts were accepted",
        f"{_RIDING}:Riders.alight", "spec.masks.behind.index(last)", "0",
        "engine/test_block_drafts.py::test_the_next_block_is_that_of_the_group_that_came_true",
    ),
    Mutant(
        "blocks drawn with one noise", "all places of a block are drawn with the noise of the first",
        f"{_RIDING}:BlockDraws.__call__", "[lengths[row] + place for row, place in places],",
        "[lengths[row] for row, place in places],",
        "engine/test_block_drafts.py::test_a_block_is_drawn_with_the_noise_and_the_options_of_its_places",
    ),
    Mutant(
        "a block that does not go on", "a block made for another text is offered",
        "glimpse.drafting.block.drafter:BlockDrafter._block", "block is not None and block.at == length",
        "block is not None",
        "engine/test_block_drafts.py::test_a_block_that_does_not_go_on_from_the_text_is_not_offered",
    ),
)  # fmt: skip
