"""What is left of an engine and its checkpoint when they are closed."""

from __future__ import annotations

from typing import NoReturn

from glimpse.errors import GlimpseError


class Closed:
    """Stands where they were: whatever it is asked for, it raises GlimpseError saying that they are gone."""

    def __getattr__(self, name: str) -> NoReturn:
        raise GlimpseError("this LLM has been closed; make another one to go on")
