"""The one place where accepted tokens become output: what is kept, what it reads as, and why it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from glimpse.engine.byte_text import Stream
from glimpse.engine.stops import StopMatch, StopMatcher

FinishReason = Literal["stop", "length", "abort"]


class Commit(NamedTuple):
    """What came of one round's accepted tokens. Cache, logprobs, usage, stream and text are all cut to `token_ids`."""

    token_ids: tuple[int, ...]
    """The tokens kept: a beginning of those handed in, the one that ended the output included."""
    pieces: tuple[str, ...]
    """For every kept token the text that may be shown with it, possibly "". Text is held back while it may be half a
    character or the beginning of a stop string, and comes with a later token, at the latest with the last."""
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    """The stop token or stop string that ended the output; None for the model's own EOS, as in vLLM."""
    tail: str = ""
    """Text without a token of its own: what was still held back when the output was aborted."""

    @property
    def text(self) -> str:
        """All text of this commit."""
        return "".join(self.pieces) + self.tail


@dataclass(slots=True)
class Taken:
    """Tokens that are output now, though their text may not have been read yet."""

    token_ids: tuple[int, ...]
    """As in `Commit`."""
    finish_reason: FinishReason | None
    stop_reason: int | str | None
    commit: Commit | None = None
    """With their text, once that has been read."""


class Committer:
    """One request's output, cut where plain decoding would end it, however many tokens arrive at a time.

    Every token is judged in the order of plain decoding: EOS or stop token, then stop string, then length; so a stop
    that falls on the last token allowed is a "stop". None of the stops counts for the first `min_tokens` tokens, so
    that many always precede it (a stop string has to *end* after them), as in vLLM.

    The id of the token that ended the output stays in `token_ids`; its text is shown only with
    `include_stop_str_in_output` (and is empty for a special token that the text stream skips). vLLM's engine does the
    same for EOS and stop tokens alike, though its documentation of `stop_token_ids` has ordinary ones shown.
    """

    def __init__(
        self,
        text_stream: Stream,
        *,
        max_tokens: int | None,
        context_room: int,
        min_tokens: int = 0,
        eos_token_ids: Collection[int] = (),
        stop_token_ids: Collection[int] = (),
        stop_strings: Sequence[str] = (),
        ignore_eos: bool = False,
        include_stop_str_in_output: bool = False,
    ) -> None:
        """`max_tokens=None` is no limit of its own; `context_room` is how many tokens fit behind the prompt.

        With no room for a single token the output is finished ("length") from the start. Raises ArgumentError for an
        empty stop string.
        """
        self._stream = text_stream
        self._limit = context_room if max_tokens is None else min(max_tokens, context_room)
        self._min_tokens = min_tokens
        self._eos = frozenset() if ignore_eos else frozenset(eos_token_ids)
        self._stop_tokens = frozenset(stop_token_ids)
        self._stops = StopMatcher(stop_strings)
        self._include_stop = include_stop_str_in_output
        self._token_ids: list[int] = []
        self._unread: deque[Taken] = deque()
        self._shown: list[str] = []
        self._shown_length = 0
        self._held = ""
        self._finish_reason: FinishReason | None = "length" if self._limit <= 0 else None
        self._stop_reason: int | str | None = None

    @property
    def token_ids(self) -> Sequence[int]:
        """All tokens kept so far."""
        return self._token_ids

    @property
    def text(self) -> str:
        """All text shown so far; only ever appended to, and the final text once finished."""
        return "".join(self._shown)

    @property
    def finish_reason(self) -> FinishReason | None:
        """None while the output may go on."""
        return self._finish_reason

    @property
    def stop_reason(self) -> int | str | None:
        """As in `Commit`."""
        return self._stop_reason

    @property
    def room(self) -> int:
        """How many more tokens can be kept; drafting further is of no use."""
        return 0 if self._finish_reason else self._limit - len(self._token_ids)

    def commit(self, tokens: Sequence[int]) -> Commit:
        """Keep `tokens` up to and including the one that ends the output. Raises RuntimeError once finished."""
        return self.show(self.take(tokens))

    def take(self, tokens: Sequence[int]) -> Taken:
        """As `commit`, but the text may be read later (`show`): a device that waits for the next step is not kept.

        Only where there are stop strings does text decide what is kept, and is read at once.
        """
        if self._finish_reason:
            raise RuntimeError(f"the output has ended already ({self._finish_reason})")
        text = bool(self._stops)
        count, pieces = 0, list[str]()
        for token in tokens:
            count += 1
            armed, end = self._judge(token)
            if text:
                pieces.append(self._read(token, end, armed=armed))
            if self._finish_reason:
                break
        taken = Taken(tuple(tokens[:count]), self._finish_reason, self._stop_reason)
        if text:
            taken.commit = _commit_of(taken, pieces)
        else:
            self._unread.append(taken)
        return taken

    def show(self, taken: Taken) -> Commit:
        """What was taken, with its text; that of all that was taken before it is read first."""
        while taken.commit is None:
            self._show_next()
        return taken.commit

    def abort(self) -> Commit:
        """End here (Ctrl-C, a closed stream), showing what was held back; without effect once finished."""
        while self._unread:
            self._show_next()
        tail = ""
        if self._finish_reason is None:
            self._held += self._stream.flush()
            self._finish_reason = "abort"
            tail = self._show(0)
        return Commit((), (), self._finish_reason, self._stop_reason, tail)

    def _show_next(self) -> None:
        """Reads the text of what was taken first of all that has none. There are no stop strings: nothing is held."""
        taken = self._unread.popleft()
        pieces = [self._stream.push(token) for token in taken.token_ids[:-1]]
        self._shown += pieces
        pieces += [self._read(token, taken.finish_reason, armed=True) for token in taken.token_ids[-1:]]
        taken.commit = _commit_of(taken, pieces)

    def _judge(self, token: int) -> tuple[bool, FinishReason | None]:
        """Takes a token; whether stops count for it, and why it is the last as far as ids say."""
        armed = len(self._token_ids) >= self._min_tokens
        self._token_ids.append(token)
        if armed and (token in self._eos or token in self._stop_tokens):
            self._finish_reason, self._stop_reason = "stop", None if token in self._eos else token
        elif len(self._token_ids) == self._limit:
            self._finish_reason = "length"
        return armed, self._finish_reason

    def _read(self, token: int, end: FinishReason | None, *, armed: bool) -> str:
        """The text that may be shown with a token, which is the last one where there is an `end`."""
        stops = end == "stop"
        text = self._stream.push(token) if self._include_stop or not stops else ""
        if end:
            text += self._stream.flush()
        self._held += text
        # Half a character is text only now, and a stop string that it completes came before a stop token.
        match = None if stops and self._include_stop else self._stops.feed(text, armed=armed)
        if match:
            return self._end_at_string(match)
        return self._show(0 if end or self._include_stop else self._stops.held)

    def _end_at_string(self, match: StopMatch) -> str:
        end = match.end if self._include_stop else match.start
        self._held = self._held[: end - self._shown_length]
        self._finish_reason, self._stop_reason = "stop", match.stop
        return self._show(0)

    def _show(self, held: int) -> str:
        """All text but the last `held` characters."""
        end = len(self._held) - held
        piece, self._held = self._held[:end], self._held[end:]
        self._shown.append(piece)
        self._shown_length += len(piece)
        return piece


def _commit_of(taken: Taken, pieces: Sequence[str]) -> Commit:
    return Commit(taken.token_ids, tuple(pieces), taken.finish_reason, taken.stop_reason)
