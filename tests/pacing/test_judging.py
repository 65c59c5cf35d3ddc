"""Drafts of a batch that are judged in one loop leave what judging them one by one does."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pacing.test_priced_cut import batch

from glimpse.pacing.judging import learn
from glimpse.pacing.proposals import Proposal, Proposals, Trust


def laid(found: Proposals) -> list[tuple[Proposal, int, int]]:
    """Each row's part of the nodes of all."""
    ends = found.ends.tolist()
    return [(found.nodes, begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_all_rows_in_one_loop(seed):
    """Also where drafts are empty, nothing came, or the text ran through several nodes; and of several batches."""
    draw = np.random.default_rng(seed)
    (view, ours), (_, theirs) = batch(seed), batch(seed)
    other, more = batch(seed + 100)
    ours, theirs = ours + more[:2], theirs + [copied(trust) for trust in more[:2]]
    drafts = laid(Proposals.of(view)) + (laid(Proposals.of(other))[:2] if seed % 3 == 0 else [])
    texts = [through(draw, draft) for draft in drafts]
    pairs = list(zip(ours, theirs, drafts, texts, strict=False))
    learn([ours[at] for at in range(len(pairs))], drafts, texts)
    for _, trust, draft, text in pairs:
        trust.learn_part(*draft, text)
    for mine, right, *_ in pairs:
        np.testing.assert_array_equal(mine.seen, right.seen)
    assert any(trust.seen.any() for trust in ours)


def copied(trust: Trust) -> Trust:
    """Another that has seen the same."""
    other = Trust()
    other.seen[:] = trust.seen
    return other


def through(draw: np.random.Generator, draft: tuple[Proposal, int, int]) -> list[int]:
    """A text that runs through some of a draft's nodes, and then on; or nothing."""
    nodes, begin, end = draft
    text, at = [], -1
    for _ in range(draw.integers(0, 5)):
        children = [node for node in range(end - begin) if nodes.parents[begin + node] == at]
        if not children:
            break
        at = int(draw.choice(children))
        text.append(int(nodes.tokens[begin + at]))
    return text + draw.integers(0, 50, draw.integers(0, 2)).tolist()
