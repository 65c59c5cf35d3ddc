"""The plain path fed a given text, one token a step, in rows: what would it have written at every position?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

import torch
from torch import Tensor

from glimpse.attention import RowSpec
from glimpse.bench.judge import distance
from glimpse.cache.recall import RecallBudget
from glimpse.cache.sequence import Sequence as CachedSequence
from glimpse.engine.forward import forward
from glimpse.llm import LLM
from glimpse.sampling import Laws, Nodes, ResolvedParams, Role, Sampler, SamplingParams, pick

CHUNK = 512


@dataclass(frozen=True, slots=True)
class Text:
    """What speculation wrote."""

    prompt: list[int]
    output: list[int]
    params: ResolvedParams


@dataclass(frozen=True, slots=True)
class Difference:
    """A position at which the plain path, after the same text, picks another token than was written."""

    row: int
    position: int
    """Of the output, from 0."""
    margin: float
    """How far the plain path was from writing what was written (`glimpse.bench.judge.distance`)."""


class Plain(Protocol):
    """Plain decoding over given texts."""

    def step(self, index: int) -> tuple[Tensor, list[int]]:
        """(logits [rows, vocab], picks) after the prompt and the first `index` output tokens of every row."""
        ...


def judged(plain: Plain, texts: Sequence[Text], vocab: int) -> tuple[int, list[Difference]]:
    """(positions judged, those that differ): every position of every text."""
    found, count = [], 0
    for index in range(max(len(text.output) for text in texts)):
        logits, picks = plain.step(index)
        for row, text in enumerate(texts):
            if index >= len(text.output):
                continue
            count += 1
            if picks[row] != text.output[index]:
                own = logits[row : row + 1].float().cpu()
                margin = distance(
                    own, text.prompt, text.output[:index], picks[row], text.output[index], text.params, vocab=vocab
                )
                found.append(Difference(row, index, margin))
    return count, found


def outright(llm: LLM, texts: Sequence[Text], params: Sequence[SamplingParams]) -> tuple[int, list[Difference]]:
    """(tokens, those that differ) from what `llm` writes of the same prompts by itself, in the opposite order.

    For the bitwise mode, in which no difference is a tie: all that differs in a text counts, without a margin.
    """
    order = range(len(texts) - 1, -1, -1)
    outputs = llm.generate([texts[row].prompt for row in order], [params[row] for row in order])
    found = []
    for row, out in zip(order, outputs, strict=True):
        mine, other = texts[row].output, list(out.token_ids)
        wrong = [at for at, pair in enumerate(zip_longest(mine, other)) if pair[0] != pair[1]]
        found += [Difference(row, at, torch.inf) for at in wrong]
    return sum(len(text.output) for text in texts), found


class HostPlain:
    """Rows of an eager engine, each read up to its prompt's end and then fed one token a step."""

    def __init__(self, llm: LLM, texts: Sequence[Text]) -> None:
        self._parts, self._texts = llm._engine.parts, texts
        self._slots = self._parts.rows.free_slots()[: len(texts)]
        self._sampler = Sampler(len(texts), self._parts.sampler.vocab_size, tokens=self._parts.sampler.vocab)
        for row, (slot, text) in enumerate(zip(self._slots, texts, strict=True)):
            self._open(row, slot, text)

    def _open(self, row: int, slot: int, text: Text) -> None:
        rows, ids = self._parts.rows, [*text.prompt, *text.output]
        rows.open(slot, ids, CachedSequence(self._parts.pool, expected=len(ids)), len(ids))
        rows.prompt_len[slot] = len(text.prompt)
        rows.sequence(slot).reserve(len(ids))
        self._sampler.admit(row, text.params, text.prompt, self._parts.eos_token_ids)
        for start in range(0, len(text.prompt) - 1, CHUNK):
            self._read([self._spec(slot, start, min(CHUNK, len(text.prompt) - 1 - start), 0)])

    def step(self, index: int) -> tuple[Tensor, list[int]]:
        """See `Plain.step`. Rows that have no such token are read no further."""
        alive = [row for row, text in enumerate(self._texts) if index < len(text.output)]
        lengths = [len(self._texts[row].prompt) + index for row in alive]
        specs = [self._spec(self._slots[row], at - 1, 1, 1) for row, at in zip(alive, lengths, strict=True)]
        logits, nodes = torch.cat(self._read(specs)), Nodes.plain(alive, lengths, [index] * len(alive))
        laws: Laws = self._sampler.laws(logits, nodes)
        picks = pick(laws, self._sampler.seeds_of(nodes), nodes.position, Role.TARGET).tolist()
        for row in alive:
            self._sampler.commit(row, [self._texts[row].output[index]])
        every, chosen = logits.new_zeros(len(self._texts), logits.shape[1]), [-1] * len(self._texts)
        every[alive] = logits
        for row, own in zip(alive, picks, strict=True):
            chosen[row] = own
        return every, chosen

    def close(self) -> None:
        """Gives rows and pages back."""
        for slot in self._slots:
            self._parts.rows.close(slot)

    def _spec(self, slot: int, start: int, count: int, outputs: int) -> RowSpec:
        return RowSpec(slot, self._parts.rows.sequence(slot), start, count, outputs=outputs)

    def _read(self, specs: list[RowSpec]) -> list[Tensor]:
        with torch.inference_mode():
            return forward(self._parts.decoder, self._parts.pool, self._parts.rows, specs).logits


class DevicePlain:
    """Rows of a device batch, fed the texts by the kernels of plain device steps. Texts of equal prompt length."""

    def __init__(self, llm: LLM, texts: Sequence[Text]) -> None:
        from glimpse.bench.decode.on_device.forced import ForcedBatch
        from glimpse.engine.device.batch import DeviceBatch, Limits
        from glimpse.engine.device.rounds import RoundSettings

        decoder, vocab = llm.loaded.checkpoint.decoder, llm.tokenizer.vocab_size
        longest = max(len(text.output) for text in texts)
        width = max(len(text.prompt) for text in texts) + longest + 8
        batch = DeviceBatch(
            decoder, vocab, Limits(len(texts), width, 1), RoundSettings(RecallBudget(share=0.001, floor=16, recent=8))
        )
        with torch.inference_mode():
            batch.fill([text.prompt for text in texts], [text.params for text in texts], longest)
            self._text = batch.rows.tokens.clone()
            for row, text in enumerate(texts):
                begin = len(text.prompt)
                self._text[row, begin : begin + len(text.output)] = torch.tensor(text.output, device=decoder.device)
            self._begin = batch.rows.length.clone()
        self._forced = ForcedBatch(batch, vocab)

    def step(self, index: int) -> tuple[Tensor, list[int]]:
        """See `Plain.step`."""
        with torch.inference_mode():
            logits, picks = self._forced.step(1, self._text, self._begin + index)
            return logits[:, 0], picks[:, 0].tolist()

    def close(self) -> None:
        """Gives the memory back."""
        del self._forced, self._text
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextmanager
def plain_path(llm: LLM, texts: Sequence[Text]) -> Iterator[Plain]:
    """The plain path of the device that the model is on, for these texts, while the block runs."""
    kind = DevicePlain if llm.loaded.checkpoint.decoder.device.type == "cuda" else HostPlain
    made = kind(llm, texts)
    try:
        yield made
    finally:
        made.close()
