"""Writing text as it comes: drafted and accepted tokens marked on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from glimpse.outputs import StreamChunk

DRAFTED = "green underline"
"""The style of tokens that were drafted and accepted."""

_VISIBLE_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
_VISIBLE_CONTROLS |= dict.fromkeys(range(128, 160), 0xFFFD)


class Writer:
    """What was written so far, and where it is shown.

    `show=False` keeps it for JSON, `at_once=True` for the end; either way `text` and `token_ids` grow with every chunk.
    """

    def __init__(self, *, show: bool = True, at_once: bool = False) -> None:
        self._texts: list[str] = []
        self._waiting: list[tuple[str, bool]] = []
        self._show = show
        self._at_once = at_once
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.token_ids: list[int] = []

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._texts)

    @property
    def marks(self) -> bool:
        """Whether drafted tokens can be told apart where the text goes."""
        return self._show and self._console.is_terminal

    def write(self, chunk: StreamChunk) -> None:
        """Take a chunk, and show its text now unless it waits for the end."""
        self.token_ids.extend(chunk.token_ids)
        self._waiting += [(piece.text, piece.drafted) for piece in chunk.pieces]
        # What an abort lets go last belongs to no token.
        self.put(chunk.text, chunk.text[sum(len(piece.text) for piece in chunk.pieces) :])

    def put(self, text: str, unmarked: str | None = None) -> None:
        """Take `text`, of which all, or only the end `unmarked`, is not yet waiting to be shown."""
        self._texts.append(text)
        self._waiting.append((text if unmarked is None else unmarked, False))
        if not self._at_once:
            self._flush()

    def finish(self) -> None:
        """Show what waited, and end the line, so that what follows starts on one of its own."""
        self._flush()
        text = self.text
        if self._show and text and not text.endswith("\n"):
            self._put([("\n", False)])

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._show:
            self._put(waiting)

    def _put(self, pieces: Iterable[tuple[str, bool]]) -> None:
        if self._console.is_terminal:
            self._console.print(marked(pieces), end="")
        else:
            sys.stdout.write("".join(text for text, _ in pieces))
        sys.stdout.flush()


def marked(pieces: Iterable[tuple[str, bool]]) -> Text:
    """Text for a terminal. Control characters become visible signs: a model's text must not steer the terminal."""
    shown = Text()
    for text, drafted in pieces:
        shown.append(text.translate(_VISIBLE_CONTROLS), DRAFTED if drafted else None)
    return shown
