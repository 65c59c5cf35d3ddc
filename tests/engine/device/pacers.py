"""Pacers for tests: what they say does not depend on what pays."""

from __future__ import annotations

import random

from glimpse.pacing.pacer import Action, Decisions


class Whim:
    """Decides at random, row by row and step by step."""

    name, most = "whim", 3

    def __init__(self, seed: int, actions=tuple(Action)):
        self._random, self._actions = random.Random(seed), actions

    def admit(self, rows):
        pass

    def decide(self, rows, room):
        return Decisions([self._random.choice(self._actions) for _ in room], room)

    def trim(self, rows):
        return rows.column(rows.rows.draft_len)

    def observe(self, rows, outcomes):
        pass

    def retire(self, rows):
        pass
