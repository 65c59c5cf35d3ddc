"""Stop strings in a growing text: which one ends it, and how much of the text may still be the start of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from glimpse.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string found; `start` and `end` count the characters fed since the matcher was made."""

    stop: str
    start: int
    end: int


class StopMatcher:
    """Looks for several stop strings at once, one step a character (Aho and Corasick, CACM 18(6), 1975).

    A node of the automaton is a beginning of some stop string; the state is the longest such beginning that the text
    ends with, so its depth is also what has to be held back. Whatever pieces the text comes in, every match is found,
    those that span pieces included.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """Raises ArgumentError for an empty stop string, which would end every text before it begins."""
        if "" in stops:
            raise ArgumentError("stop: a stop string must not be empty")
        self._next: list[dict[str, int]] = [{}]
        self._fallback = [0]
        self._hit: list[str | None] = [None]
        """The longest stop string that ends at each node."""
        self._held = [0]
        """The longest *unfinished* stop string at each node."""
        for stop in stops:
            self._add(stop)
        self._link()
        self._state = 0
        self._fed = 0

    def __bool__(self) -> bool:
        """Whether there are any stop strings."""
        return len(self._next) > 1

    @property
    def held(self) -> int:
        """How many characters at the end of the text may be the beginning of a stop string."""
        return self._held[self._state]

    def feed(self, text: str, *, armed: bool = True) -> StopMatch | None:
        """Add the text of one token. The match that *starts* first, then the longest, of all that end in it, or None.

        `armed=False` reads on without looking: stop strings that end here do not count (`min_tokens`).
        """
        if not self:
            return None
        best: StopMatch | None = None
        for character in text:
            self._fed += 1
            self._state = self._step(self._state, character)
            stop = self._hit[self._state]
            # Ends only grow, so of two matches with one start the later is the longer.
            if stop is not None and armed and (best is None or self._fed - len(stop) <= best.start):
                best = StopMatch(stop, self._fed - len(stop), self._fed)
        return best

    def _add(self, stop: str) -> None:
        node = 0
        for character in stop:
            if character not in self._next[node]:
                self._next[node][character] = len(self._next)
                self._next.append({})
                self._fallback.append(0)
                self._hit.append(None)
                self._held.append(self._held[node] + 1)
            node = self._next[node][character]
        self._hit[node] = stop

    def _link(self) -> None:
        """Give every node the longest other beginning that it ends with; nearer nodes first, as they are built upon."""
        queue = deque(self._next[0].values())
        while queue:
            node = queue.popleft()
            back = self._fallback[node]
            if self._hit[node] is None:
                self._hit[node] = self._hit[back]
            if not self._next[node]:
                self._held[node] = self._held[back]
            for character, child in self._next[node].items():
                self._fallback[child] = self._step(back, character)
                queue.append(child)

    def _step(self, node: int, character: str) -> int:
        while node and character not in self._next[node]:
            node = self._fallback[node]
        return self._next[node].get(character, 0)
