"""Options that look at how much has been written, wherever in a block a token falls."""

from __future__ import annotations

import pytest
from tests.doubles import Oracle, with_parts
from tests.small_llm import IDS

from glimpse.sampling import SamplingParams

MOST = 16


@pytest.fixture(scope="module")
def text(tiny):
    return tiny.generate([IDS[:30]], SamplingParams(max_tokens=MOST, temperature=0.0))[0].token_ids


@pytest.mark.parametrize("draft_tokens", [1, 4, 9])
def test_no_end_before_min_tokens_in_any_place_of_a_block(tiny, text, draft_tokens):
    """The drafts go over a stop token that plain decoding may not write yet: it is put off, and then ends the text."""
    place = next(place for place in range(3, MOST) if text.index(text[place]) == place)
    for least in (place, place + 1, place + 5):
        params = SamplingParams(max_tokens=MOST, temperature=0.0, min_tokens=least, stop_token_ids=[text[place]])
        right = tiny.generate([IDS[:30]], params)[0]
        assert (right.token_ids == text[: place + 1]) == (least == place)
        fast = with_parts(tiny, Oracle([(IDS[:30], text)]), draft_tokens=draft_tokens)
        found = fast.generate([IDS[:30]], params)[0]
        assert (found.token_ids, found.stop_reason) == (right.token_ids, right.stop_reason)
        assert found.speculation.accepted > 0
