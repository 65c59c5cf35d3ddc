"""What a GGUF file's model is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_QUANTISED = re.compile(r"[.-](I?Q\d\w*|B?F16|F32)$", re.IGNORECASE)


def gguf_name(metadata: Mapping[str, Any], path: Path) -> str:
    """The file's own name without its quantisation where it says what the metadata do, else `general.name`.

    Converters make `general.name` out of a folder's name, in title case and with whatever else stood there.
    """
    stem, base = _QUANTISED.sub("", path.stem), metadata.get("general.basename")
    if isinstance(base, str) and base and stem.lower().startswith(base.lower()):
        return stem
    name = metadata.get("general.name")
    return name if isinstance(name, str) and name else stem
