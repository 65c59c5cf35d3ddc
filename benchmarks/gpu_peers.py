"""Plain decoding at batch 1 beside public engines on the same GPU, shape and context; `h200-peers.json` in $OUT.

    PYTHONPATH=src:benchmarks python3 benchmarks/gpu_peers.py --gpt-fast FOLDER --commit HASH

Glimpse, gpt-fast (compiled as its generate.py does) and transformers' generate with a static cache, one after another
in one process. Weights are random: what dense decoding costs does not depend on them, and no checkpoint is needed.
Times are of whole runs of 100 tokens by the host's clock, sampling included, the medians of five; compilation stands
apart. A part that fails is named and passed over; the file is written after each.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from noise_decoder import spec_named
from peer_timing import Timed

from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.planning import roofs
from glimpse.planning.work import step_work

LARGE = "llama-3.1-8b"
CONTEXT = 8000
"""Where transformers and the demo shape are measured."""
VLLM_MS = {512: 4.92, 8000: 5.18, 32000: 5.95}
"""vLLM 0.26.0, dummy weights of the 8B shape, bf16, graphs on, on another H200: DESIGN section 7."""
FLOORS = {8000: 1.35, 32000: 1.35}
"""Decode step over its floor, 8B shape (DESIGN section 8)."""


class Bench:
    """What was measured so far, and the file it goes to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._begun = options, time.perf_counter()
        self._device = torch.device("cuda")
        self._bandwidth, self._rate = roofs.bandwidth(self._device), roofs.rate(self._device, torch.bfloat16)
        self.found: list[Timed] = []
        print(f"copy {self._bandwidth / 1e12:.2f} TB/s, product {self._rate / 1e12:.0f} TFLOP/s", flush=True)

    def floor(self, shape: str, context: int) -> float:
        """Seconds that a plain step takes at least."""
        return step_work(spec_named(shape), torch.bfloat16, 1, 1, context).seconds(self._bandwidth, self._rate)

    def part(self, name: str, measure: Callable[[], Timed]) -> None:
        """Measures one cell if there is time left for it."""
        if time.perf_counter() - self._begun > self._options.seconds:
            print(f"no time left for {name}", flush=True)
            return
        try:
            timed = measure()
            self.found.append(timed)
            over = timed.median / self.floor(timed.shape, timed.context)
            print(f"{name}: {timed.median * 1e3:.3f} ms ({over:.2f} floors), before {timed.compile_s:.1f} s")
            print("   runs", [round(value * 1e3, 3) for value in timed.seconds], flush=True)
            self.write()
        except Exception:
            traceback.print_exc(limit=6)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"   after {time.perf_counter() - self._begun:.0f} s", flush=True)

    def write(self) -> None:
        """The result file as it stands."""
        import transformers

        versions = {"python": platform.python_version(), "torch": torch.__version__,
                    "transformers": transformers.__version__, "glimpse": "0.1.0",
                    "gpt-fast": self._options.gpt_fast_commit}  # fmt: skip
        device = {"kind": "h200", "name": torch.cuda.get_device_name(), "cores": os.cpu_count() or 0, "threads": 1}
        write_result(Result(
            suite="peers", device=device, versions=versions, commit=self._options.commit, dirty=False, quick=False,
            settings={"dtype": "bfloat16", "batch": 1, "weights": "random"},
            runs=[timed.run(self.floor(timed.shape, timed.context)) for timed in self.found],
            floors={"bandwidth": self._bandwidth, "rate": self._rate},
            targets=list(targets(self.found, self.floor)), tables=[table(self.found, self.floor)],
        ), Path(os.environ.get("OUT", ".")))  # fmt: skip


Floor = Callable[[str, int], float]


def targets(found: list[Timed], floor: Floor) -> Iterator[Target]:
    """Ours against each peer measured beside it, against vLLM's published figure, and against the floor."""
    ours = {(timed.shape, timed.context): timed for timed in found if timed.engine == "glimpse"}
    for timed in found:
        own = ours.get((timed.shape, timed.context))
        if timed is not own and own is not None:
            what = f"{timed.shape} {timed.context}x1: time of a token over {timed.engine}'s"
            yield Target(what, "<= 1.0", own.median / timed.median).noted("see docs/performance-gpu.md")
    for (shape, context), own in ours.items():
        if shape != LARGE:
            continue
        if context in VLLM_MS:
            what = f"{shape} {context}x1: ms a token (vLLM 0.26.0 elsewhere: {VLLM_MS[context]})"
            yield Target(what, f"<= {VLLM_MS[context]}", own.median * 1e3).noted("see docs/performance-gpu.md")
        if context in FLOORS:
            what, limit = f"{shape} {context}x1: time of a token over the floor of its step", f"<= {FLOORS[context]}"
            yield Target(what, limit, own.median / floor(shape, context)).noted("see docs/performance-gpu.md")


def table(found: list[Timed], floor: Floor) -> Table:
    """A row for each engine and cell."""
    columns = ["shape and context", "engine", "ms a token", "/ floor", "tokens/s", "compilation and first run, s"]
    rows = [
        [f"{timed.shape} {timed.context}", timed.engine, f"{timed.median * 1e3:.2f}",
         f"{timed.median / floor(timed.shape, timed.context):.2f}", f"{1 / timed.median:.0f}", f"{timed.compile_s:.0f}"]
        for timed in sorted(found, key=lambda timed: (timed.shape, timed.context, timed.median))
    ]  # fmt: skip
    return Table("Plain decoding at batch 1 on one H200 (bf16, random weights)", columns, rows)


def glimpse(bench: Bench, options: argparse.Namespace) -> None:
    """Our own cells: the 8B shape, then the demo model's."""
    import peer_glimpse

    for shape, contexts in ((LARGE, options.contexts), ("demo", [CONTEXT])):
        with torch.inference_mode():
            decoder = peer_glimpse.decoder_of(shape, torch.device("cuda"))
        for context in contexts:
            bench.part(f"glimpse {shape} {context}", partial(peer_glimpse.measure, decoder, shape, context))


def gpt_fast(bench: Bench, options: argparse.Namespace) -> None:
    """gpt-fast's cells of the 8B shape."""
    import peer_gpt_fast

    with peer_gpt_fast.opened(options.gpt_fast) as (generate, model):
        net = peer_gpt_fast.network(model, model.ModelArgs.from_name(LARGE), torch.device("cuda"))
        for context in options.contexts:
            bench.part(f"gpt-fast {LARGE} {context}", partial(peer_gpt_fast.measure, generate, net, LARGE, context))


def transformers(bench: Bench, options: argparse.Namespace) -> None:
    """transformers' cell of each shape."""
    import peer_transformers

    for shape in (LARGE, "demo"):
        net = peer_transformers.network(shape, torch.device("cuda"))
        bench.part(f"transformers {shape} {CONTEXT}", partial(peer_transformers.measure, net, shape, CONTEXT))


PARTS = {"glimpse": glimpse, "gpt-fast": gpt_fast, "transformers": transformers}


def contexts_of(text: str) -> list[int]:
    """The numbers in `8000,32000`."""
    return [int(context) for context in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpt-fast", type=Path, required=True, help="folder with its generate.py and model.py")
    parser.add_argument("--gpt-fast-commit", default="6ecad9b5b6b987d17ac4303965545873d0192086")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--contexts", type=contexts_of, default="8000,32000,512", help="of the 8B shape, in this order")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=500, help="begin no cell after this")
    options = parser.parse_args()
    bench = Bench(options)
    for name in options.parts.split(","):
        try:
            PARTS[name](bench, options)
        except Exception:
            traceback.print_exc(limit=6)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
