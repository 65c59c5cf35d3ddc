"""Known bugs put in one at a time: which test of the suite catches each? Prints the table of docs/exactness.md.

    python -m benchmarks.mutants              # all of them; `--docs` writes the table into docs/exactness.md
    python -m benchmarks.mutants "no rollback" "device: padding attended"

A mutant counts as caught by a test that passes without it. 0: all are caught; 1: one survives.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import DEVICE, EVERY, HOST, SERVE

from glimpse.bench.results import write_whole

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- mutants: python -m benchmarks.mutants --docs -->", "<!-- end of mutants -->"


def verdicts(names: Sequence[str]) -> list[dict]:
    """What became of each, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "verdicts.json"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
        command = [sys.executable, "-m", "tests.mutants.run", str(out), *names]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())


def table(found: Sequence[dict]) -> str:
    """Mutant, what is wrong, the test that caught it."""
    lines = ["| bug | what is wrong with it | caught by |", "|---|---|---|"]
    for verdict in found:
        mutant = EVERY[verdict["name"]]
        caught = f"`{mutant.caught_by}`" if verdict["caught"] else f"**nothing** ({verdict['how']})"
        lines.append(f"| {mutant.name} | {mutant.mistake} | {caught} |".replace("\n", " "))
    return "\n".join(lines)


def into_docs(text: str, path: Path) -> None:
    """Puts the table between its marks. Raises SystemExit where they are not there."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path} has no lines {BEGIN!r} and {END!r} to put the table between")
    write_whole(path, f"{before}{begin}\n{text}\n{end}{after}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/exactness.md")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in EVERY]
    if unknown:
        parser.error(f"no mutant is called {unknown[0]!r}; there are: {', '.join(EVERY)}")
    groups = [given.names] if given.names else [[mutant.name for mutant in group] for group in (HOST, SERVE, DEVICE)]
    found = [verdict for names in groups for verdict in verdicts(names)]
    text = table(found)
    survivors = [verdict["name"] for verdict in found if not verdict["caught"]]
    print(f"{text}\n\n{len(found) - len(survivors)} of {len(found)} caught")
    if given.docs:
        into_docs(text, ROOT / "docs" / "exactness.md")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
