"""Hostile options: values as they come out of a JSON request or a command line."""

from __future__ import annotations

import random
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.hostile.mutations import NUMBERS, TEXTS, odd_value
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM, SamplingParams
from glimpse.cli.app import run
from glimpse.engine.options import EngineOptions

SENSIBLE: dict[str, tuple[Any, ...]] = {
    "max_tokens": (1, 5),
    "temperature": (0, 0.7, 1e-6, 1e6),
    "top_p": (0.5, 1e-9),
    "top_k": (1, 50),
    "min_p": (0.1, 1.0),
    "repetition_penalty": (1.1, 1e3, 1e-3),
    "logit_bias": ({"5": 2.0}, {5: -1e9, 6: 1e9}),
    "stop": ("a", ["b", "cd"]),
    "stop_token_ids": ([5, 6],),
    "bad_words": (["x"], [[5, 6]]),
    "n": (1, 2),
    "logprobs": (0, 5, 300, 10**9),
    "prompt_logprobs": (0, 5, 10**9),
    "seed": (1, -1),
    "grammar": ({"regex": "[a-z]+"}, {"json_schema": {"type": "object"}}, {"regex": "("}),
}
"""Values that work, beside the odd ones, so that what comes behind the checks is reached too."""
_SAMPLING = [field.name for field in fields(SamplingParams)]
_ENGINE = [field.name for field in fields(EngineOptions)]
_SCRATCH = TemporaryDirectory(prefix="hostile")
"""Removed when the process ends."""
_MACHINE = ["dtype", "device", "max_context", "max_batch_size", "threads", "seed"]


@cache
def tiny() -> LLM:
    """A tiny model for all attempts."""
    return LLM(folder(), drafter="lookup", pacer="fixed", draft_tokens=2, max_batch_size=2, max_context=128)


@cache
def folder() -> Path:
    """Its folder."""
    return write_tiny_checkpoint(Path(_SCRATCH.name))


def _value(draw: random.Random, name: str) -> Any:
    return draw.choice(SENSIBLE[name]) if name in SENSIBLE and draw.random() < 0.6 else odd_value(draw)


def sampling(draw: random.Random, _: Path) -> None:
    """SamplingParams of a few options, then a short text with them."""
    names = draw.sample(_SAMPLING, draw.randint(1, 4))
    params = SamplingParams(**{"max_tokens": 4, "seed": 1, **{name: _value(draw, name) for name in names}})
    if (params.n or 1) < 9:  # many are no fault, but take their time
        tiny().generate([[5, 6, 7, 5, 6]], params)


def engine(draw: random.Random, _: Path) -> None:
    """Options of how to decode."""
    words = ("none", "lookup", "sparse", "refresh", "fixed", "entropy", "coupled", "rejection", "heads", 4, 0.5)
    names = draw.sample(_ENGINE, draw.randint(1, 3))
    options = {name: draw.choice(words) if draw.random() < 0.6 else odd_value(draw) for name in names}
    tiny().variant(**options).generate([[5, 6, 7, 5, 6]], SamplingParams(max_tokens=3, seed=1))


def machine(draw: random.Random, _: Path) -> None:
    """Options of where to decode, and names of models."""
    options = {name: odd_value(draw) for name in draw.sample(_MACHINE, draw.randint(1, 2))}
    threads = options.pop("threads", None)
    if not isinstance(threads, int):  # a legal number would change the whole process
        options["threads"] = threads
    model = draw.choice((*TEXTS, odd_value(draw))) if draw.random() < 0.3 else folder()
    LLM(model, **{"max_batch_size": 1, **options})


def prompt_types(draw: random.Random, _: Path) -> None:
    """Prompts and messages of any type."""
    value = odd_value(draw)
    few = SamplingParams(max_tokens=2, seed=1)
    if draw.random() < 0.5:
        tiny().generate(value, few)
    else:
        tiny().chat([{"role": draw.choice(("user", value)), "content": value}] if draw.random() < 0.7 else value, few)


def command_line(draw: random.Random, _: Path) -> None:
    """Odd arguments; it must end with an exit code and never a traceback."""
    flags = ("--max-tokens", "--temperature", "--logit-bias", "--stop", "--stop-token-ids", "--bad-words", "--seed",
             "--drafter", "--draft-tokens", "--budget", "--max-context", "--dtype", "--device", "--prompt", "--system",
             "--prompt-file", "--top-k")  # fmt: skip
    words = [text for text in (*TEXTS, *map(_decimal, NUMBERS), "5=1", "1,2", "5=") if text and "\0" not in text]
    chosen = [part for flag in draw.sample(flags, draw.randint(1, 3)) for part in (flag, draw.choice(words))]
    code = run(["generate", "-m", str(folder()), "--prompt", "hi", "--json", "--max-tokens", "3", *chosen])
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code} of {chosen}")


def _decimal(number: float) -> str:
    return "1" + "0" * 400 if number == 10**400 else str(number)
