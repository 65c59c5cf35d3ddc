"""Renders docs/results.md and the README's table from the result files, and puts the reasons of notes.toml into their
notes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from glimpse.bench.report import read_results, reasons, render, summary, with_block
from glimpse.bench.results import Result, write_result, write_whole
from glimpse.errors import GlimpseError

ROOT = Path(__file__).resolve().parents[1]
DETAILS = "docs/results.md"


def annotate(folder: Path, why: dict[str, dict[str, str]]) -> list[Result]:
    """The results of a folder, with notes as notes.toml now has them, also in their files."""
    results = []
    for result in read_results(folder):
        own = why.get(result.suite, {})
        noted = replace(result, targets=[target.noted(own.get(target.what)) for target in result.targets])
        if noted != result:
            write_result(noted, folder)
        results.append(noted)
    return results


def blocks(results: list[Result]) -> dict[Path, str]:
    """What stands between the markers of each document."""
    return {ROOT / "README.md": summary(results, DETAILS), ROOT / DETAILS: render(results)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.table", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    folder = parser.parse_args().out
    try:
        results = annotate(folder, reasons(ROOT / "benchmarks" / "notes.toml"))
        if not results:
            raise GlimpseError(f"no result files in {folder}; run python -m benchmarks.prove first")
        for path, block in blocks(results).items():
            write_whole(path, with_block(path.read_text(encoding="utf-8"), block))
    except GlimpseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
