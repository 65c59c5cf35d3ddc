"""Tasks that a small model can do, each with its own score: needle, lookup, copy, and the format of GSM8K answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random

from glimpse.model import Tokenizer

DEPTHS = (0.1, 0.5, 0.9)
_PAIRS = 12
_COPIED = 48
_QUESTIONS = (
    "A baker sells 12 loaves in the morning and 7 in the afternoon, at 3 dollars each. How much does she earn?",
    "Tom reads 15 pages a day. How many pages does he read in 2 weeks?",
    "A box holds 6 eggs. How many boxes are needed for 54 eggs?",
)
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jasper", "kelp", "lotus")


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt, and how good an answer to it is."""

    kind: str
    prompt: list[int]
    score: Callable[[str], float]
    """From the answer's text, in [0, 1]."""


def tasks_of(tokenizer: Tokenizer, passages: Sequence[list[int]], context: int, *, seed: int = 0) -> list[Task]:
    """One needle a depth, a lookup, a copy and a question for each passage, the passages filling up to `context`."""
    random, made = Random(seed), list[Task]()
    for index, passage in enumerate(passages):
        text = tokenizer.decode(passage[: max(32, context - 160)])
        made += [_needle(tokenizer, text, depth, random) for depth in DEPTHS]
        made.append(_lookup(tokenizer, text, random))
        made.append(_copy(tokenizer, tokenizer.decode(passage[:_COPIED])))
        made.append(_question(tokenizer, _QUESTIONS[index % len(_QUESTIONS)]))
    return made


def _ask(tokenizer: Tokenizer, text: str) -> list[int]:
    """By the chat template where there is one."""
    if tokenizer.has_chat_template:
        return tokenizer.chat([{"role": "user", "content": text}])
    return tokenizer.encode(text)


def _needle(tokenizer: Tokenizer, text: str, depth: float, random: Random) -> Task:
    word, number = random.choice(_WORDS), str(random.randrange(1000, 9999))
    place = text.find(" ", int(depth * len(text)))
    place = len(text) if place < 0 else place
    hidden = f"{text[:place]} The secret number of {word} is {number}. {text[place:]}"
    prompt = _ask(tokenizer, f"{hidden}\n\nWhat is the secret number of {word}? Answer with the number.")
    return Task(f"needle {depth:g}", prompt, lambda answer: float(number in answer))


def _lookup(tokenizer: Tokenizer, text: str, random: Random) -> Task:
    pairs = [(word, str(random.randrange(100, 999))) for word in _WORDS[:_PAIRS]]
    asked, value = random.choice(pairs)
    lines = "\n".join(f"{word}: {number}" for word, number in pairs)
    prompt = _ask(tokenizer, f"{text}\n\n{lines}\n\nWhich number stands beside {asked}? Answer with the number.")
    return Task("lookup", prompt, lambda answer: float(value in answer))


def _copy(tokenizer: Tokenizer, text: str) -> Task:
    prompt = _ask(tokenizer, f"Repeat this text exactly, and write nothing else:\n\n{text}")
    return Task("copy", prompt, lambda answer: SequenceMatcher(None, text, answer[: len(text)], False).ratio())


def _question(tokenizer: Tokenizer, question: str) -> Task:
    """Whether the answer ends as it is told to, right or wrong: a model of this size cannot calculate."""
    prompt = _ask(tokenizer, f"{question} Think step by step, and end with a line '#### NUMBER'.")
    return Task("format", prompt, lambda answer: float(re.search(r"#### *\$?-?\d", answer) is not None))
