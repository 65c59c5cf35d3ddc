"""Every effective setting of an engine, as outputs report them."""

from __future__ import annotations

import torch

from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded


def settings_of(loaded: Loaded, engine: EngineFace) -> dict[str, object]:
    """What `engine` over `loaded` decodes with; what means nothing to its drafter is None."""
    parts, options = engine.parts, engine.options
    recalls = parts.drafter.needs_forward or parts.drafter.recalls
    adapter = options.adapter if parts.drafter.takes_adapter else None
    return {
        "model": loaded.checkpoint.name,
        "drafter": options.drafter,
        "pacer": options.paced_by,
        "acceptance": parts.acceptance.name,
        "lossy": options.lossy,
        "draft_tokens": parts.pacer.most,
        "budget": parts.budget.share if recalls else None,
        "budget_floor": parts.budget.floor if recalls else None,
        "suffix_store": options.suffix_store,
        "adapter": adapter,
        "block_mode": (options.block_mode or "auto") if adapter else None,
        "exact": options.exact,
        "reserve": options.reserve,
        "prefix_reuse": options.prefix_reuse,
        "dtype": str(parts.decoder.dtype).removeprefix("torch."),
        "device": str(parts.decoder.device),
        "context_length": loaded.context,
        "max_batch_size": loaded.slots,
        "cache_tokens": loaded.pool.pages * loaded.pool.page_size,
        "threads": torch.get_num_threads(),
        "lossless": parts.drafter.lossless and parts.acceptance.lossless,
        **parts.drafter.settings,
        **engine.facts,
    }
