"""Where an adapter is written to, looked at before the first step and not after the first hundred."""

from __future__ import annotations

from pathlib import Path

from glimpse.errors import ArgumentError


def check_out(out: Path, texts: Path) -> None:
    """Raises ArgumentError for a place where no file can be written, or that lies among the texts: what is written
    there, the log and the state beside it, would be text of the next run."""
    try:
        if not out.name or out.is_dir():
            raise ArgumentError(f"{str(out)!r} is a folder; name a file for the adapter")
        if out.resolve().is_relative_to(texts.resolve()):
            raise ArgumentError(f"{out} lies in the folder of texts, and would be trained on; put it elsewhere")
        # Folders that are not there yet are made when the training begins: what is refused leaves none behind.
        there = next(folder for folder in out.absolute().parents if folder.exists())
        longest = there / f".{out.name}.state.part"
        longest.touch()
        longest.unlink()
    except OSError as error:
        raise ArgumentError(f"cannot write {str(out)[:80]}: {error.strerror or error}") from error
