"""Result files: what a suite measured, on what, with which code, and which targets it met.

A file is one JSON object, `benchmarks/results/<device>-<suite>.json`; `Result` is its form. A target is a word and a
number (">= 1.8", "<= 1.6", "== 0"), so whether a value meets it can be checked, and is, when a file is read.
"""

from __future__ import annotations

import json
import math
import operator
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from glimpse.errors import GlimpseError

FORMAT = 1
UNKNOWN_COMMIT = "0" * 40
"""Of code that git knows nothing of."""
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that had to be shown. Raises GlimpseError for a target that is not a comparison with a number."""

    what: str
    target: str
    """">= 1.8" and the like."""
    value: float
    note: str = ""
    """By how much and why the value falls short."""

    def __post_init__(self) -> None:
        self._parts()

    @property
    def ok(self) -> bool:
        """Whether the value meets the target; a value that is no number never does."""
        sign, limit = self._parts()
        return _COMPARISONS[sign](self.value, limit)

    @property
    def shortfall(self) -> str:
        """By how much the value misses the target, in percent of it (as it is where that is 0); "" if it is met."""
        if self.ok:
            return ""
        _, limit = self._parts()
        away = abs(self.value - limit)
        return f"{away / abs(limit):.1%}" if limit else f"{away:g}"

    def noted(self, reason: str | None) -> Target:
        """With the note that belongs to it: none when the target is met, else by how much and the reason, if known."""
        if self.ok:
            return replace(self, note="")
        why = reason or "the cause is not written down in benchmarks/notes.toml yet"
        return replace(self, note=f"falls short by {self.shortfall}: {why}")

    def to_json(self) -> dict[str, object]:
        """The entry of `targets`; a value that is not finite is null."""
        value = self.value if math.isfinite(self.value) else None
        entry: dict[str, object] = {"what": self.what, "target": self.target, "value": value, "ok": self.ok}
        return entry | ({"note": self.note} if self.note else {})

    def _parts(self) -> tuple[str, float]:
        sign, _, number = self.target.partition(" ")
        try:
            if sign in _COMPARISONS:
                return sign, float(number)
        except ValueError:
            pass
        raise GlimpseError(f"target {self.target!r} of {self.what!r} is not '>= N', '<= N' or '== N'")


@dataclass(frozen=True, slots=True)
class Table:
    """A table for the README; every row has one cell a column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one suite measured."""

    suite: str
    device: Mapping[str, Any]
    """`kind` ("cpu"), `name`, `cores`, `threads`, ..."""
    versions: Mapping[str, str]
    """python, torch, transformers, glimpse."""
    commit: str
    """What `git rev-parse HEAD` said, or `UNKNOWN_COMMIT`."""
    dirty: bool
    """The code differed from that commit."""
    quick: bool
    """A smoke run: its values mean nothing."""
    settings: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    """Every single measurement, raw."""
    targets: Sequence[Target]
    floors: Mapping[str, float] = field(default_factory=dict)
    """What the hardware allows, measured in the same run, where the suite measures speed."""
    tables: Sequence[Table] = ()

    @property
    def file_name(self) -> str:
        """`<device>-<suite>.json`."""
        return f"{self.device['kind']}-{self.suite}.json"

    def to_json(self) -> dict[str, object]:
        """The object in the file."""
        own = {name: getattr(self, name) for name in _FIELDS if name not in ("targets", "tables")}
        return {
            "format": FORMAT,
            **own,
            "targets": [target.to_json() for target in self.targets],
            "tables": [asdict(table) for table in self.tables],
        }


_FIELDS: Mapping[str, type] = {
    "suite": str,
    "device": dict,
    "versions": dict,
    "commit": str,
    "dirty": bool,
    "quick": bool,
    "settings": dict,
    "floors": dict,
    "runs": list,
    "targets": list,
    "tables": list,
}
_DEVICE: Mapping[str, type] = {"kind": str, "name": str, "cores": int, "threads": int}
_VERSIONS = dict.fromkeys(("python", "torch", "transformers", "glimpse"), str)
_TARGET: Mapping[str, type | tuple[type, ...]] = {
    "what": str,
    "target": str,
    "value": (int, float, type(None)),
    "ok": bool,
}
_TABLE: Mapping[str, type] = {"title": str, "columns": list, "rows": list}


def write_result(result: Result, folder: Path) -> Path:
    """Writes the file whole or not at all; returns its path. Raises GlimpseError where it cannot be written."""
    path = folder / result.file_name
    text = json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, text)
    return path


def write_whole(path: Path, text: str) -> None:
    """Puts `text` in place in one step, so that a reader never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(part, 0o644)
            os.replace(part, path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise GlimpseError(f"cannot write {path}: {error.strerror or error}") from error


def read_result(path: Path) -> Result:
    """The checked content of a result file. Raises GlimpseError: one line naming the file and what is wrong in it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GlimpseError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise GlimpseError(f"{path}: not JSON: {error}") from error
    try:
        return parse_result(value)
    except GlimpseError as error:
        raise GlimpseError(f"{path}: {error}") from error


def parse_result(value: object) -> Result:
    """A Result from parsed JSON. Raises GlimpseError naming the first thing that has the wrong form."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise GlimpseError(f"not a result file of format {FORMAT} (found {found!r})")
    _check(value, _FIELDS, "the result")
    _check(value["device"], _DEVICE, "device")
    _check(value["versions"], _VERSIONS, "versions")
    if len(value["commit"]) != 40 or set(value["commit"]) - set("0123456789abcdef"):
        raise GlimpseError(f"commit {value['commit']!r} is not 40 hexadecimal digits")
    if not value["runs"] or not all(isinstance(run, dict) for run in value["runs"]):
        raise GlimpseError("runs must be a list of objects, at least one")
    fields = {name: value[name] for name in _FIELDS}
    fields["targets"] = [_target(entry) for entry in value["targets"]]
    fields["tables"] = [_table(entry) for entry in value["tables"]]
    return Result(**fields)


def _target(entry: object) -> Target:
    _check(entry, _TARGET, "a target")
    assert isinstance(entry, dict)
    value = math.nan if entry["value"] is None else _float(entry["value"], entry["what"])
    target = Target(entry["what"], entry["target"], value, str(entry.get("note", "")))
    if target.ok != entry["ok"]:
        raise GlimpseError(f"target {target.what!r}: {value:g} {target.target} is {target.ok}, not {entry['ok']}")
    if not target.ok and not target.note:
        raise GlimpseError(f"target {target.what!r} falls short but has no note saying by how much and why")
    return target


def _table(entry: object) -> Table:
    _check(entry, _TABLE, "a table")
    assert isinstance(entry, dict)
    if any(not isinstance(row, list) or len(row) != len(entry["columns"]) for row in entry["rows"]):
        raise GlimpseError(f"table {entry['title']!r}: a row has not one cell a column ({len(entry['columns'])})")
    words = [*entry["columns"], *(cell for row in entry["rows"] for cell in row)]
    for word in words:
        if not isinstance(word, str):
            raise GlimpseError(f"table {entry['title']!r}: {word!r} is a {type(word).__name__}, not a string")
    return Table(**{name: entry[name] for name in _TABLE})


def _float(value: float, what: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise GlimpseError(f"target {what!r}: its value is a number of {len(str(value))} digits") from None


def _check(value: object, form: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, dict):
        raise GlimpseError(f"{where} must be an object, not {type(value).__name__}")
    for name, kind in form.items():
        if name not in value:
            raise GlimpseError(f"{where} has no {name!r}")
        if not isinstance(value[name], kind) or (kind is int and isinstance(value[name], bool)):
            raise GlimpseError(f"{where}: {name!r} is a {type(value[name]).__name__}")
