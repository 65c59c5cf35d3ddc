"""Everything hostile that is tried, by name."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.hostile import checkpoints, kept_files, options, prompts
from tests.hostile.attempts import Tally, Target, try_out

TARGETS: dict[str, Target] = {
    "gguf-head": checkpoints.gguf_head,
    "gguf-values": checkpoints.gguf_values,
    "safetensors-head": checkpoints.safetensors_head,
    "configuration": checkpoints.configuration,
    "rotary": checkpoints.rotary,
    "tokenizer-files": checkpoints.tokenizer_files,
    "bench-results": kept_files.bench_results,
    "calibrations": kept_files.calibrations,
    "sampling-options": options.sampling,
    "engine-options": options.engine,
    "machine-options": options.machine,
    "prompt-types": options.prompt_types,
    "command-line": options.command_line,
    "prompts": prompts.prompts,
}


def try_target(tally: Tally, name: str, seed: int) -> None:
    """One attempt of a target, in a folder of its own; the same for the same seed."""
    with tempfile.TemporaryDirectory(prefix="hostile") as folder:
        target = TARGETS[name]
        try_out(tally, f"{name} {seed}", lambda: target(random.Random(f"{name} {seed}"), Path(folder)))
