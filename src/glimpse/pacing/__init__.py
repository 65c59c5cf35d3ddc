"""Pacers by name. Others, which inherit `Pacer`, are found through the entry-point group `glimpse.pacers`."""

from glimpse.registry import Registry

PACERS = Registry(
    "glimpse.pacers",
    {
        "auto": "glimpse.pacing.auto:AutoPacer",
        "fixed": "glimpse.pacing.fixed:FixedPacer",
        "entropy": "glimpse.pacing.entropy:EntropyPacer",
        "fleet": "glimpse.pacing.fleet:FleetPacer",
        "synchronised": "glimpse.pacing.synchronised:SynchronisedPacer",
        "feedback": "glimpse.pacing.feedback:FeedbackPacer",
        "libraspec": "glimpse.pacing.libraspec:LibraSpecPacer",
        "boundary": "glimpse.pacing.boundary:BoundaryPacer",
        "marginal": "glimpse.pacing.marginal:MarginalPacer",
    },
    base="glimpse.pacing.pacer:Pacer",
)
