"""Runs all suites in order, then renders the table. An interrupted run goes on where it stopped."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from glimpse.bench import environment
from glimpse.bench.report import read_results
from glimpse.bench.runner import add_options
from glimpse.errors import GlimpseError

ROOT = Path(__file__).resolve().parents[1]
SUITES = (
    "cpu_speed", "laws", "end_to_end", "auto_cells", "suffix_store", "pacer", "sparse_acceptance", "refresh", "fleet",
    "equality", "crossover",
)  # fmt: skip


def finished(folder: Path) -> set[str]:
    """Suites whose result is of exactly this code, be it of an earlier commit."""
    whole = [result for result in read_results(folder) if not result.dirty and not result.quick]
    return {result.suite for result in whole if environment.is_code_of(ROOT, result.commit)}


def command(suite: str, options: argparse.Namespace) -> list[str]:
    """A suite's command line."""
    flags = [flag for flag, on in (("--quick", options.quick), ("--fresh", options.fresh)) if on]
    where = ["--text", str(options.text), "--threads", str(options.threads), "--model", options.model]
    where += ["--out", str(options.out)] if options.out else []
    return [sys.executable, "-m", f"benchmarks.{suite}", *flags, *where]


def run(options: argparse.Namespace) -> int:
    folder = options.out or ROOT / "benchmarks" / "results"
    done = set() if options.fresh or options.quick else finished(folder)
    failed = []
    for suite in options.only or SUITES:
        if suite in done:
            print(f"{suite}: already measured with this code (--fresh measures again)", file=sys.stderr)
            continue
        code = subprocess.run(command(suite, options), cwd=ROOT, check=False).returncode
        if code == 130:
            return code
        failed += [suite] * bool(code)
    if not options.quick and read_results(folder):
        subprocess.run([sys.executable, "-m", "benchmarks.table", "--out", str(folder)], cwd=ROOT, check=True)
    if failed:
        print(f"did not run through: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.prove", description=__doc__)
    add_options(parser, ROOT)
    parser.add_argument("--only", type=_suites, default=None, metavar="A,B", help=f"some of {', '.join(SUITES)}")
    options = parser.parse_args()
    options.text = options.text.resolve()
    options.out = options.out and options.out.resolve()
    try:
        return run(options)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except GlimpseError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _suites(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SUITES:
            raise argparse.ArgumentTypeError(f"unknown suite {name!r}; known: {', '.join(SUITES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
