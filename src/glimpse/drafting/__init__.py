"""Drafters by name. Others are found through the entry-point group `glimpse.drafters`."""

from glimpse.registry import Registry

DRAFTERS = Registry(
    "glimpse.drafters",
    {
        "none": "glimpse.drafting.none:NoDrafter",
        "sparse": "glimpse.drafting.sparse:SparseDrafter",
        "refresh": "glimpse.drafting.refresh:RefreshDrafter",
        "lookup": "glimpse.drafting.lookup:LookupDrafter",
    },
)
