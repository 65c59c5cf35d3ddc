"""The successors of a prompt's tokens, for drafters that recycle them: the head runs at every position that is read.

That is not free: a head of 49,152 ids is as large as one of 32 layers of an 8B model, but as a quarter of all layers of
the demo model. Only where the drafter `wants_prompt_topk`.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple, cast

import torch
from torch import Tensor

from glimpse.attention.triton.likely import LIKELY, chances_of, likeliest
from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.drafting.drafter import PromptReader, Successors
from glimpse.engine.device.asking import NEW, UNLIKE, Asking
from glimpse.engine.device.mail import Mark
from glimpse.engine.parts import Parts

SEEN = 8
"""Prompts whose times are remembered; the first one's has kernels that were compiled for it."""
ANYWAY, RARELY = 16, 256
"""Parts of prompts after which one is heard of though that does not look worth it: what drafts bring without it says
little of what they bring with it. Twice as many each time, at most so many, as long as none looks worth it."""
PIECE = 256
"""Positions whose logits are there at once, and of which the drafter is told at once."""


class _Found(NamedTuple):
    """What comes after some tokens of a prompt, on its way to the host."""

    tokens: Tensor
    likely: Tensor
    """[n, 16] int32, as `likeliest` writes them; there once the mark has been waited for."""
    arrived: Mark


class PromptTopK:
    """Tells the drafter of what was read of prompts, before the rows' first drafts: until then nobody waits for it."""

    def __init__(self, parts: Parts) -> None:
        device = parts.decoder.device
        self._decoder, self._drafter = parts.decoder, cast(PromptReader, parts.drafter)
        # The kernel looks at what picking left behind, so a token is picked, for nobody: the likeliest, which is cheap.
        self._sample, self._greedy = Sample(PIECE, parts.sampler.vocab, device), RowSettings.greedy(PIECE, device)
        self._nothing = torch.zeros(PIECE, dtype=torch.int64, device=device)
        self._late: defaultdict[int, deque[_Found]] = defaultdict(deque)
        """By slot, what the drafter has not been told of."""
        self._found, self._told = (deque[float](maxlen=SEEN) for _ in range(2))
        """Seconds a token that noting and telling took."""

    def seconds(self, tokens: int) -> float:
        """What hearing of a prompt of so many takes, while all rows wait; 0 before two were seen."""
        return sum(median_low(times) for times in (self._found, self._told) if len(times) > 1) * tokens

    def note(self, slots: Sequence[int], texts: Sequence[Tensor], hidden: Tensor) -> None:
        """Of each row's prompt its tokens in `texts`, [n] int64 on the host, were read, with `hidden` [all, hidden]
        after the final norm, row after row; what is noted of a row before is kept."""
        begun = time.perf_counter()
        found = torch.cat([self._likeliest(piece) for piece in torch.split(hidden, PIECE)])
        likely = torch.empty(found.shape, dtype=found.dtype, pin_memory=found.is_cuda)
        likely.copy_(found, non_blocking=True)
        arrived, end = Mark(found.device), 0
        self._found.append(_each(begun, len(hidden)))
        for slot, text in zip(slots, texts, strict=True):
            begin, end = end, end + len(text)
            pieces = zip(torch.split(text, PIECE), torch.split(likely[begin:end], PIECE), strict=True)
            self._late[slot] += [_Found(*piece, arrived) for piece in pieces]

    def forget(self, slot: int) -> None:
        """Another request has the row now."""
        self._late.pop(slot, None)

    def tell(self, slots: Sequence[int]) -> None:
        """Tells the drafter, which is about to draft for these rows, of what was noted of them."""
        for slot in slots:
            begun, tokens = time.perf_counter(), 0
            for found in self._late.pop(slot, ()):
                found.arrived.wait()
                self._recycle(slot, found)
                tokens += len(found.tokens)
            if tokens:
                self._told.append(_each(begun, tokens))

    def tell_piece(self, slot: int) -> bool:
        """Tells the drafter of the next piece of what was noted of a row, if it has arrived; waits for nothing. Returns
        whether there was one."""
        if slot not in self._late:
            return False
        pieces = self._late[slot]
        if pieces[0].arrived.reached:
            self._recycle(slot, pieces.popleft())
        if not pieces:
            self.forget(slot)
        return True

    def _recycle(self, slot: int, found: _Found) -> None:
        self._drafter.recycle(slot, Successors(found.tokens, *chances_of(found.likely)))

    def _likeliest(self, hidden: Tensor) -> Tensor:
        """[n, 16] int32, as `likeliest` writes them, after the positions of `hidden` [n, hidden], at most `PIECE`."""
        count = len(hidden)
        if count < PIECE:
            hidden = hidden[torch.arange(PIECE, device=hidden.device).clamp_max(count - 1)]
        logits, out = self._decoder.head(hidden), hidden.new_empty(PIECE, 2 * LIKELY, dtype=torch.int32)
        self._sample(logits, self._greedy, self._nothing, self._nothing)
        likeliest(self._sample, logits, out)
        return out[:count]


def prompt_topk(parts: Parts) -> PromptTopK | None:
    """For a drafter that wants it."""
    return PromptTopK(parts) if parts.drafter.wants_prompt_topk else None


class Hearing:
    """Which parts of prompts are heard of, by whether that looks worth it."""

    def __init__(self) -> None:
        self._unheard, self._patience = 0, ANYWAY
        """Parts that were not heard of, one after the other, and how many that may be."""

    def hears(self, *, worth: bool) -> bool:
        """Of the next part."""
        if worth:
            self._unheard, self._patience = 0, ANYWAY
            return True
        self._unheard += 1
        if self._unheard <= self._patience:
            return False
        self._unheard, self._patience = 0, min(2 * self._patience, RARELY)
        return True


def _each(begun: float, tokens: int) -> float:
    """Seconds since `begun`, of each of so many tokens."""
    return (time.perf_counter() - begun) / tokens


def worth_hearing(asking: Asking | None, rows: tuple[int, ...], wanted: int, seconds: float) -> bool:
    """Whether the host's drafts for these requests and a new one are worth what they need to hear of its prompt, as far
    as anybody knows: it makes them, and they may well save more than that.

    `wanted`: tokens that the new one may write; `seconds`: what hearing of its prompt takes, in which all rows wait.
    While it writes each other row begins anew once, too, if all are like it. Unheard prompts bring less, which would
    speak against hearing for ever: so drafts may bring an error more than expected, unless each row's caller waits.
    """
    if asking is None:
        return True
    speed = asking.speed((*rows, NEW), asking.doubts if asking.fair else UNLIKE)
    if speed is None:
        return True
    count = len(rows) + 1
    saved = (1 - 1 / max(speed, 1.0)) * wanted * (asking.plain_seconds(count) or 0.0)
    return speed >= 1 and saved >= count * seconds
