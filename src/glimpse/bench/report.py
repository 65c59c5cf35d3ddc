"""From result files to tables: on the terminal, and between two markers in a document."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from glimpse.bench.results import Result, read_result
from glimpse.errors import GlimpseError

BEGIN = "<!-- benchmarks: begin (made by python -m benchmarks.table) -->"
END = "<!-- benchmarks: end -->"
Rows = Sequence[Sequence[str]]


def plain_table(columns: Sequence[str], rows: Rows) -> str:
    """Columns padded with spaces."""
    lines = [list(columns), *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown_table(columns: Sequence[str], rows: Rows) -> str:
    """A Markdown table; `|` in a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def read_results(folder: Path) -> list[Result]:
    """All result files of a folder by name, checked; [] where there are none."""
    return [read_result(path) for path in sorted(folder.glob("*.json"))]


def reasons(path: Path) -> dict[str, dict[str, str]]:
    """Why targets fall short: a TOML file with a table a suite, `"what" = "why"`; {} without the file."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise GlimpseError(f"{path}: {error}") from error


def shown(result: Result) -> str:
    """A result on the terminal: its tables, then its targets with pass or short."""
    parts = [f"\n{table.title}\n{plain_table(table.columns, table.rows)}" for table in result.tables]
    rows = [
        [target.what, target.target, f"{target.value:.4g}", "pass" if target.ok else f"short by {target.shortfall}"]
        for target in result.targets
    ]
    if rows:
        parts.append(f"\n{plain_table(['what', 'target', 'value', ''], rows)}")
    return "\n".join([*parts, f"\nMeasured on: {_where(result)}"])


def summary(results: Sequence[Result], details: str) -> str:
    """A table with a line for each result file; `details` is the document that `render` goes to."""
    rows = [
        [
            f"[{result.suite}]({details}#{_heading(result)})",
            result.device["name"],
            f"{sum(target.ok for target in result.targets)} of {len(result.targets)}",
        ]
        for result in results
    ]
    return markdown_table(("suite", "measured on", "targets met"), rows)


def render(results: Sequence[Result]) -> str:
    """Each result under a heading: its targets, its tables, where and with what it was measured."""
    return "\n\n".join(part for result in results for part in _section(result))


def _section(result: Result) -> list[str]:
    rows = [
        [target.what, target.target, _number(target.value), "yes" if target.ok else f"no: {target.note}"]
        for target in result.targets
    ]
    return [
        f"## {_heading(result)}",
        f"Measured on {_where(result)}.",
        *([markdown_table(("what", "target", "value", "met"), rows)] if rows else []),
        *(f"{table.title}:\n\n{markdown_table(table.columns, table.rows)}" for table in result.tables),
    ]


def _heading(result: Result) -> str:
    return result.file_name.removesuffix(".json")


def with_block(text: str, block: str) -> str:
    """`text` with what is between the markers replaced. Raises GlimpseError unless both markers are there once."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise GlimpseError(f"the text must hold, once each and in this order, the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.3g}"


def _where(result: Result) -> str:
    device, versions = result.device, result.versions
    changed = ", with changes" if result.dirty else ""
    return (
        f"{device['name']}, {device['cores']} cores, {device['threads']} threads, Python {versions['python']}, "
        f"torch {versions['torch']}, transformers {versions['transformers']} (commit {result.commit[:10]}{changed})"
    )
