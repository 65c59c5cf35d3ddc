"""Adapters that come with Glimpse: `adapters/`, with the log of each and the command that made it."""

from __future__ import annotations

from pathlib import Path

from glimpse.drafting.block.adapter import config_of
from glimpse.errors import ArgumentError

FOLDER = Path(__file__).with_name("adapters")
DEMO = FOLDER / "demo.safetensors"
"""For the demo model, as its GGUF file has it."""


def adapter_file(name: str) -> Path:
    """The file that a user means: "demo" is the demo model's own, as it is for a model."""
    return DEMO if name == "demo" else Path(name)


def shipped_for(fingerprint: str) -> Path:
    """The file of the adapter that was made for the checkpoint with this `Checkpoint.fingerprint`.

    Raises ArgumentError where there is none.
    """
    files = sorted(FOLDER.glob("*.safetensors"))
    found = next((path for path in files if config_of(path).fingerprint == fingerprint), None)
    if found is None:
        names = ", ".join(path.stem for path in files) or "no model"
        raise ArgumentError(
            f"drafter 'block' needs an adapter, and Glimpse brings one for {names} only: name the file that glimpse "
            "train block made for this model (--adapter)"
        )
    return found
