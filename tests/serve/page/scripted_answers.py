"""Answers for the fake server: chunks as `glimpse serve` streams them, of a list of rounds."""

from __future__ import annotations

from typing import Any

from fake_server import Reply

DONE = b"data: [DONE]\n\n"
TARGET = "target"

ROUNDS = [
    [("Light", TARGET)],
    [(" from", "lookup"), (" the", "lookup"), (" sun", TARGET)],
    [(" is", "sparse"), (" scattered", "sparse"), (" by", "sparse"), (" the", TARGET)],
    [(" air", "block"), (".", TARGET)],
]
TEXT = "Light from the sun is scattered by the air."
RECALLED = [0.5 if place == 0 else 0.5 / 63 for place in range(64)]
SPECULATION = {
    "drafter": "sparse",
    "pacer": "entropy",
    "acceptance": "coupled",
    "drafted": 12,
    "accepted": 6,
    "drafted_by_depth": [4, 4, 4],
    "accepted_by_depth": [3, 2, 1],
    "mean_accepted": 2.5,
    "tokens_per_second": 40.0,
    "ttft_ms": 250.0,
    "recalled": RECALLED,
}


def chunk(tokens: list[tuple[str, str]], *, chat: bool, first_id: int = 0) -> dict[str, Any]:
    """One round's chunk: (text, source) of each token."""
    text = "".join(piece for piece, _ in tokens)
    choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
    marked = [
        {"text": piece, "id": first_id + place, "from": source, "depth": 0 if source == TARGET else place + 1}
        for place, (piece, source) in enumerate(tokens)
    ]
    drafted = len(tokens) - 1
    return {"choices": [choice | {"finish_reason": None}], "glimpse": {"tokens": marked, "gamma": drafted or None}}


def last(speculation: dict[str, Any], finish_reason: str = "stop") -> list[Any]:
    """The chunk that ends the text, the one with the usage, and the end of the stream."""
    usage = {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15, "speculation": speculation}
    return [
        {"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": finish_reason}]},
        {"choices": [], "usage": usage},
        DONE,
    ]


def answer(path: str, body: dict[str, Any], *, rounds: Any = None, pause: float = 0.0, **speculation: Any) -> Reply:
    """`ROUNDS`, or others; without drafts where the body names drafter "none"."""
    rounds = ROUNDS if rounds is None else rounds
    told = SPECULATION | speculation
    if body.get("drafter") == "none":
        rounds = [[(text, TARGET)] for tokens in rounds for text, _ in tokens]
        told |= {"drafter": "none", "drafted": 0, "accepted": 0, "drafted_by_depth": [], "accepted_by_depth": []}
        told |= {"recalled": None, "tokens_per_second": 25.0, "mean_accepted": 1.0}
    events = [chunk(tokens, chat=path.endswith("/chat/completions"), first_id=100) for tokens in rounds]
    return Reply(events=[*events, *last(told)], pause=pause)


def endless(path: str, body: dict[str, Any]) -> Reply:
    """Far more than a test waits for: it has to be stopped."""
    return answer(path, body, rounds=[[(f" w{number}", "lookup"), (",", TARGET)] for number in range(600)], pause=0.05)
