"""`LLM`: load a checkpoint, generate, chat, stream, compare. A thin face over the engine."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from glimpse.compare import comparison, divergence_margin, in_turn, with_prefill
from glimpse.drafting import DRAFTERS
from glimpse.engine.build import build_engine, check_names, refuse_bitwise, refuse_unused
from glimpse.engine.closed import Closed
from glimpse.engine.face import EngineFace
from glimpse.engine.finish import output_of
from glimpse.engine.loaded import Loaded, open_loaded
from glimpse.engine.lossy import usual_drafter
from glimpse.engine.machine import MachineOptions
from glimpse.engine.memory import free_unused, within_memory
from glimpse.engine.options import EngineOptions
from glimpse.engine.place import DeviceWarning, place
from glimpse.engine.prompts import as_params, as_prompt, as_prompts, single_output
from glimpse.engine.request import Request
from glimpse.engine.settings import settings_of
from glimpse.engine.stream import chunks, run_all
from glimpse.engine.submit import make_requests
from glimpse.engine.warming import Warmed, warm_up
from glimpse.errors import ArgumentError
from glimpse.outputs import BrokenOff, Comparison, GenerationOutput, StreamChunk, TextStream
from glimpse.sampling.noise import child_seed
from glimpse.sampling.params import SamplingParams

Prompt = str | Sequence[int]
Progress = Callable[[str, int, int], None]
_LESS = "a lower max_batch_size or max_context needs less"


def _silent(stage: str, done: int, total: int) -> None:
    """Hears of progress, and says nothing."""


class LLM:
    """A loaded checkpoint with a drafter, a pacer and an acceptance rule.

        llm = LLM("demo", drafter="sparse", pacer="entropy")
        print(llm.generate("Once upon a time", SamplingParams(max_tokens=32))[0].text)

    `model` is "demo", a Hugging Face folder or a GGUF file. `drafter` left out is "auto", or "lookup" with a pacer or a
    rule ("rejection") that it does not go with; `acceptance` left out is "coupled".
    `lossy` is off: only with it ("slowfast", or a rule such as "typical:0.3", which bring a drafter of their own where
    none is named) may the text be another than the model's own. `draft_tokens` is the draft length of the pacer `fixed`
    and the longest of others (None: the pacer's own). `budget` is the share of the context that a sparse draft reads
    (0.1), `budget_floor` the least number of positions (256). `refresh_sets` ("heads" or "pages") and `refresh_layer`
    are for the drafter "refresh". `pacer` left out is the drafter's own ("entropy", but for "auto"). `suffix_store`
    names a store, private to this LLM and its variants, where requests leave what they wrote for later ones to draft
    from, at most `suffix_store_tokens` (200,000); without it nothing outlives a request. `adapter` is the file of the
    drafter "block" (`glimpse train block` makes it; the demo model's comes with Glimpse and is "demo"), `block_mode`
    when that drafts ("auto", "parallel", "sequential").
    `max_context` lowers the checkpoint's context limit, `max_batch_size` is how many requests run at once;
    `reserve="next"` lets more of them share a cache too small for all (see `EngineOptions`). Prompts that begin alike
    share the cache unless `prefix_reuse` is off. `seed` makes requests that set none repeatable.
    `progress(stage, done, total)` hears of "weights" and "prefill".
    Raises ArgumentError for wrong options, ModelError for a checkpoint that cannot be used.
    """

    def __init__(
        self,
        model: str | Path = "demo",
        *,
        drafter: str | None = None,
        pacer: str | None = None,
        acceptance: str | None = None,
        draft_tokens: int | None = None,
        budget: float | None = None,
        budget_floor: int | None = None,
        refresh_sets: str | None = None,
        refresh_layer: int | None = None,
        exact: str = "tokens",
        suffix_store: str | None = None,
        suffix_store_tokens: int | None = None,
        adapter: str | Path | None = None,
        block_mode: str | None = None,
        lossy: str | None = None,
        reserve: str = "full",
        prefix_reuse: bool = True,
        dtype: str = "auto",
        device: str = "auto",
        max_context: int | None = None,
        max_batch_size: int = 8,
        threads: int | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        options = EngineOptions(
            usual_drafter(lossy, pacer, acceptance) if drafter is None else drafter, pacer, acceptance, draft_tokens,
            budget, budget_floor, refresh_sets, refresh_layer, exact, reserve, prefix_reuse, suffix_store,
            suffix_store_tokens, None if adapter is None else str(adapter), block_mode, lossy,
        )  # fmt: skip
        check_names(options)
        refuse_unused(options)
        machine = MachineOptions(
            dtype=dtype,
            device=device,
            max_context=max_context,
            max_batch_size=max_batch_size,
            threads=threads,
            seed=seed,
        )
        if machine.threads is not None:
            torch.set_num_threads(machine.threads)
        hear = progress or _silent
        where = place(machine.device)
        refuse_bitwise(options, where.device)
        if where.warn:
            warnings.warn(f"running on the CPU: {where.reason}", DeviceWarning, stacklevel=2)
        scores = DRAFTERS.get(options.drafter).scores
        loaded = open_loaded(model, machine, where.device, lambda done, total: hear("weights", done, total), scores)
        self._set_up(loaded, options, machine.seed, hear)

    def _set_up(self, loaded: Loaded, options: EngineOptions, seed: int | None, progress: Progress) -> None:
        self._loaded, self._seed, self._progress = loaded, seed, progress
        self._device = loaded.checkpoint.decoder.device
        self._engine = within_memory(lambda: build_engine(loaded, options), self._device, _LESS)
        self._asked = 0

    @classmethod
    def over(cls, loaded: Loaded, options: EngineOptions, seed: int | None = None, progress: Progress = _silent) -> LLM:
        """An LLM over a checkpoint that is in memory already. Raises as the constructor does."""
        made = cls.__new__(cls)
        made._set_up(loaded, options, seed, progress)
        return made

    def variant(self, **options: Any) -> LLM:
        """Another LLM over the same weights, cache and kept prompts, with other `EngineOptions` (drafter, ...).

        Raises ArgumentError for another `exact`: what the cache holds was computed in this one's way.
        """
        asked = self.options.changed(**options)
        if asked.exact != self.options.exact:
            raise ArgumentError(
                f"exact {asked.exact!r} over a cache of exact {self.options.exact!r}; open an LLM of its own"
            )
        return LLM.over(self._loaded, asked, self._seed, self._progress)

    @property
    def options(self) -> EngineOptions:
        """How it decodes."""
        return self._engine.options

    @property
    def context_length(self) -> int:
        """Tokens of prompt and output together, at most."""
        return self._loaded.context

    @property
    def loaded(self) -> Loaded:
        """The checkpoint in memory with its cache, for tools that build engines of their own."""
        return self._loaded

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        return self._loaded.checkpoint.tokenizer

    @property
    def spec(self) -> Any:
        """The decoder's dimensions (`glimpse.model.DecoderSpec`)."""
        return self._loaded.checkpoint.spec

    @property
    def settings(self) -> dict[str, object]:
        """Every effective setting of the engine."""
        return settings_of(self._loaded, self._engine)

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None = None
    ) -> list[GenerationOutput]:
        """Outputs of all prompts, in order; `n` in a row for each. One SamplingParams for all, or one a prompt.

        A prompt is text or token ids. Raises ArgumentError for a prompt that is empty or too long, BrokenOff, which
        has the other outputs, where the model's numbers overflow for some of several.
        """
        requests = self._requests(prompts, params)
        run_all(self._engine, requests)
        errors = [request.error for request in requests if request.error]
        if errors and len(errors) < len(requests):
            raise BrokenOff([None if request.error else self._finish(request) for request in requests], errors[0])
        return [self._finish(request) for request in requests]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> TextStream:
        """Text as it is committed; the last chunk has the whole output. Closing the iterator cancels the request."""
        (request,) = self._requests([self._ids(prompt)], single_output(params))
        return TextStream(self._stream(request), lambda: output_of(request, self.settings))

    def chat(self, messages: Sequence[Mapping[str, str]], params: SamplingParams | None = None) -> GenerationOutput:
        """The answer to a conversation, by the checkpoint's chat template."""
        return self.generate([self.tokenizer.chat(messages, most=self.context_length)], single_output(params))[0]

    def compare(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        pairs: int = 1,
        on_chunk: Callable[[StreamChunk], None] | None = None,
    ) -> Comparison:
        """Speculative and plain decoding of one prompt on the same weights with the same seed; the prompt is read once.

        `pairs` of runs, one after the other; the speedup is the median of their ratios. `on_chunk` hears the first
        speculative run as it is written.
        """
        plain = self.variant(
            drafter="none", pacer="fixed", acceptance=None, draft_tokens=None, suffix_store=None,
            suffix_store_tokens=None, lossy=None,
        )  # fmt: skip
        settled = self._settled(single_output(params))
        begun = time.perf_counter()
        with self.pinned(prompt) as ids:
            shared = time.perf_counter() - begun
            runs = [partial(llm._follow, ids, settled) for llm in (self, plain)]
            outputs = [with_prefill(output, shared) for output in in_turn(runs, pairs, on_chunk)]
            margin = divergence_margin(plain._engine.parts, outputs[1], outputs[0], plain._requests([ids], settled)[0])
        return comparison(self._engine.parts, outputs, margin)

    @contextmanager
    def pinned(self, prompt: Prompt) -> Iterator[list[int]]:
        """Keeps a prompt in the cache while the block runs, so that requests that begin with it read only its tail.

        Yields its token ids.
        """
        ids = self._ids(prompt)
        (request,) = self._requests([ids], SamplingParams(max_tokens=1, temperature=0.0))
        key = self._engine.keep_prompt(request, self._prefill_progress(request))
        try:
            yield ids
        finally:
            if key is not None:
                self._engine.drop_prompt(key)

    def warm_up(self) -> Warmed:
        """Makes ready what decoding will need, so that no request waits for it: on a GPU, graphs and kernels."""
        return warm_up(self._loaded, self._engine)

    def close(self) -> None:
        """Drops weights and cache, and gives their memory back. Using the LLM afterwards raises GlimpseError.

        Closing it again does nothing. What variants of it still use stays until they are closed too.
        """
        self._engine, self._loaded = cast(EngineFace, Closed()), cast(Loaded, Closed())
        free_unused(self._device)

    def _ids(self, prompt: object) -> list[int]:
        plain = as_prompt(prompt)
        return self.tokenizer.encode(plain, most=self.context_length) if isinstance(plain, str) else plain

    def _settled(self, params: SamplingParams) -> SamplingParams:
        """With a seed, so that several runs draw alike."""
        if params.seed is not None:
            return params
        base = int.from_bytes(os.urandom(7), "big") if self._seed is None else child_seed(self._seed, self._asked)
        return replace(params, seed=base)

    def _requests(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
    ) -> list[Request]:
        listed = as_prompts(prompts)
        requests = []
        for prompt, own in zip(listed, as_params(params, len(listed)), strict=True):
            settled = self._settled(own)
            self._asked += 1
            requests += make_requests(self._loaded, self._engine, self._ids(prompt), settled)
        return requests

    def _follow(self, prompt: Prompt, params: SamplingParams) -> Generator[StreamChunk, None, None]:
        (request,) = self._requests([self._ids(prompt)], params)
        return self._stream(request)

    def _stream(self, request: Request) -> Generator[StreamChunk, None, None]:
        return chunks(self._engine, request, self._prefill_progress(request), self._finish)

    def _prefill_progress(self, request: Request) -> Callable[[EngineFace], None]:
        total = len(request.prompt)

        def report(engine: EngineFace) -> None:
            if not request.committer.token_ids:
                self._progress("prefill", total - engine.prefill_left(request), total)

        return report

    def _finish(self, request: Request) -> GenerationOutput:
        if request.error is not None:
            raise request.error
        return output_of(request, self.settings)
