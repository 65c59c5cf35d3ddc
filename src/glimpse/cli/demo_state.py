"""Where the demo model lies or would lie, and whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from glimpse.errors import ModelError

NAME = "SmolLM2-135M-Instruct"
LICENCE = "Apache-2.0"


@dataclass(frozen=True, slots=True)
class DemoState:
    """The demo model on this machine. `ok` is False only when using it would fail."""

    folder: Path
    file_name: str
    size: int
    """Bytes of the file."""
    cached: bool
    ok: bool
    said: str
    """The same for people."""

    def to_json(self) -> dict[str, object]:
        """The object of `models --json`."""
        return {
            "name": "demo",
            "model": NAME,
            "licence": LICENCE,
            "size_bytes": self.size,
            "path": str(self.folder / self.file_name),
            "cached": self.cached,
            "ok": self.ok,
        }


def demo_state() -> DemoState:
    """Look, and check the file's checksum; nothing is fetched."""
    from glimpse.model.demo import DEMO, cache_folder, verify

    path = cache_folder() / DEMO.file_name
    cached, ok, size = path.exists(), True, f"{DEMO.size / 1e6:.0f} MB"
    said = f"in the cache, {size}, checksum good: {path}"
    if cached:
        try:
            verify(path, DEMO)
        except (ModelError, OSError) as error:
            ok, said = False, str(error)
    elif find_spec("pip") is None:
        ok, said = False, f"not in the cache, and pip, which would take it out of {DEMO.requirement}, is missing"
    else:
        said = f"not in the cache yet: the first use takes {size} out of the package {DEMO.requirement}"
    return DemoState(path.parent, DEMO.file_name, DEMO.size, cached, ok, said)
