"""What the pacer `auto` keeps of one row."""

from __future__ import annotations

from dataclasses import dataclass, field

from glimpse.pacing.auto_block import Blocks
from glimpse.pacing.auto_choice import Chooser
from glimpse.pacing.auto_shadow import Market, Shadow

TRIAL = 768
"""Tokens after which who cannot be shadowed is thought well of again; twice as many each time that it fails."""


@dataclass(slots=True)
class AutoRow:
    """A row's choice, the shadows beside it, and what they may cost."""

    chooser: Chooser
    shadows: dict[str, Shadow]
    blocks: Blocks = field(default_factory=Blocks)
    market: Market | None = None
    next_look: int = 0
    told: bool = False
    """Its first choice has been made in sight of the batch, and explained."""
    awake: int = 0
    """Tokens that its shadows still follow."""
    stretches: int = 0
    """How often its shadows have followed so far."""
    alone: bool = False
    """Only the sentinel is awake."""
    cost: float = 0.0
    """What this stretch has taken so far."""
    anchor: float = 0.0
    """Speed of who drafts when the others were last compared with it."""
    trial: int = TRIAL
    """Position from which on those without a shadow may be tried again."""
    wait: int = TRIAL

    def compare(self) -> None:
        """Carries the sleeping shadows' speeds along with that of who drafts.

        They were measured on another part of the text, where all may have been slower or faster: what is known is how
        they compared there.
        """
        own = self.shadows.get(self.chooser.current)
        if own is None:
            self.anchor = 0.0
            return
        if self.anchor and not self.awake:
            for shadow in self.shadows.values():
                if shadow is not own:
                    shadow.score.scale(own.score.speed / self.anchor)
        self.anchor = own.score.speed
