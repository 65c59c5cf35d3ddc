"""Drafters by name. Others, which inherit `Drafter`, are found through the entry-point group `glimpse.drafters`."""

from glimpse.registry import Registry

DRAFTERS = Registry(
    "glimpse.drafters",
    {
        "block": "glimpse.drafting.block.drafter:FlexDrafter",
        "auto": "glimpse.drafting.auto:AutoDrafter",
        "none": "glimpse.drafting.none:NoDrafter",
        "sparse": "glimpse.drafting.sparse:SparseDrafter",
        "refresh": "glimpse.drafting.refresh:RefreshDrafter",
        "sparse+racer": "glimpse.drafting.spine.drafter:SparseRacerDrafter",
        "slowfast": "glimpse.drafting.slowfast:SlowFastDrafter",
        "lookup": "glimpse.drafting.lookup:LookupDrafter",
        "suffix": "glimpse.drafting.suffix.drafter:SuffixDrafter",
        "racer": "glimpse.drafting.racer.drafter:RacerDrafter",
        "racer+suffix": "glimpse.drafting.racer.drafter:RacerSuffixDrafter",
    },
    base="glimpse.drafting.drafter:Drafter",
)
