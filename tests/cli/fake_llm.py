"""A stand-in for `LLM` with the contract of `glimpse.cli.contract.Model`, for tests in and out of this process.

Run as a program it is `glimpse` on the stand-in: `python fake_llm.py generate ...`. FAKE_SLEEP names the stage that
takes until the user interrupts it: "weights", "prefill", "decode" or "baseline".
"""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace

from glimpse.outputs import Comparison, GenerationOutput, Piece, StreamChunk, TextStream, Timing, Usage
from glimpse.speculation import Choice, Speculation

WORDS = ("The", " cat", " sat", " on", " the", " mat", ".")
DRAFTED = (False, True, True, False, True, True, False)


def _linger(stage: str) -> None:
    if os.environ.get("FAKE_SLEEP") == stage:
        print(f"{stage} begins", file=sys.stderr, flush=True)
        time.sleep(60)


class FakeTokenizer:
    has_chat_template = True

    def encode(self, text, **_):
        return [ord(character) % 97 for character in text]

    def chat(self, messages, **_):
        return [1, *(token for message in messages for token in self.encode(message["content"])), 2]


class FakeLLM:
    opened: FakeLLM | None = None

    def __init__(self, options, progress):
        FakeLLM.opened = self
        self.options, self.closed, self.prompts, self.params = options, False, [], []
        self.tokenizer = FakeTokenizer()
        self.spec = SimpleNamespace(step_weight_bytes=lambda _: 538_000_000, kv_bytes_per_token=lambda _: 46_080)
        self.settings = {
            "model": options.model, "drafter": options.drafter or "auto", "budget": options.budget or 0.1,
            "budget_floor": 256, "context_length": options.max_context or 8192, "dtype": "float32", "temperature": 0.0,
        }  # fmt: skip
        print("a library that prints on stdout")
        progress("weights", 0, 100)
        _linger("weights")
        progress("weights", 100, 100)

    def _output(self, count=7, drafter=None, finish_reason="stop", decode_s=0.5):
        speculation = Speculation(drafter=drafter or self.settings["drafter"], pacer="entropy")
        if speculation.drafter == "auto":
            speculation.choices.append(Choice(1, "suffix", {"none": 1.0, "suffix": 1.11}, 0.02, "because of the GPU"))
            speculation.choices.append(Choice(27, "none", {"none": 1.0, "suffix": 0.93}, 0.02, "because of the GPU"))
        if speculation.drafter != "none":
            for accepted in (4, 0, 2):
                speculation.record(4, accepted)
        return GenerationOutput(
            text="".join(WORDS[:count]), token_ids=tuple(range(count)), finish_reason=finish_reason,
            usage=Usage(len(self.prompts[-1]), count), speculation=speculation, timing=Timing(0.25, decode_s, count),
            settings=self.settings,
        )  # fmt: skip

    def stream(self, prompt, params=None):
        self.prompts.append(prompt)
        self.params.append(params)
        written = []

        def so_far():
            return self._output(len(written), finish_reason="stop" if len(written) == len(WORDS) else "abort")

        return TextStream(self._chunks(written), so_far)

    def _chunks(self, written):
        _linger("prefill")
        for index, (word, drafted) in enumerate(zip(WORDS, DRAFTED, strict=True)):
            if index == 3:
                _linger("decode")
            last = index == len(WORDS) - 1
            written.append(word)
            yield StreamChunk(word, (index,), (Piece(word, index, drafted),), self._output() if last else None)

    def generate(self, prompts, params=None):
        self.prompts.append(prompts)
        return [self._output() for _ in range(params.n or 1)]

    def compare(self, prompt, params=None, *, on_chunk):
        for chunk in self.stream(prompt, params):
            on_chunk(chunk)
        _linger("baseline")
        return Comparison(
            baseline=self._output(drafter="none"),
            speculative=self._output(decode_s=0.49),
            speedup=1.02,
            predicted_speedup=1.01,
        )

    def close(self):
        self.closed = True


if __name__ == "__main__":
    from glimpse.cli import _session, main

    _session.open_llm = FakeLLM
    main()
