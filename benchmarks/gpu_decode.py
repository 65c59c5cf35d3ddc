"""Decode, draft, verify and whole rounds of synchronous batches on a GPU, on real text; results in $OUT.

    PYTHONPATH=src python3 benchmarks/gpu_decode.py --model demo.gguf --ids ids.npz --cells demo:8000x1,llama-3.1-8b:8000x8

`ids.npz` holds token ids of long texts (made beforehand, as there may be no tokenizer's text on the GPU machine).
Times are of graph replays, by events; floors are bytes over the bandwidth of a large copy in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from pathlib import Path

import numpy as np
import torch
from gpu_clock import copy_bandwidth

from glimpse.bench.grow import grow_checkpoint
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.model import load_checkpoint
from glimpse.sampling.params import SamplingParams
from glimpse.sampling.resolve import resolve

GAMMAS = (4, 8)
ROUNDS = 8
SAMPLED = {"temperature": 0.7, "top_k": 50, "top_p": 0.9}


def timed(function, repeat=20):
    """Median seconds of a function that only enqueues work."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeat)]
    for begin, end in events:
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return float(np.median([begin.elapsed_time(end) for begin, end in events])) / 1e3


def step_bytes(spec, dtype=torch.bfloat16):
    """Bytes of weights a step reads: all but the embedding table of an untied model."""
    embedding = 0 if spec.tied else spec.vocab_size * spec.hidden_size * dtype.itemsize
    return spec.weight_bytes(dtype) - embedding


class Cell:
    """One model, context and batch."""

    def __init__(self, checkpoint, ids, context, batch, budget):
        self.spec = checkpoint.spec
        self.context, self.size = context, batch
        limits = Limits(batch, context + 160 + 2 * max(GAMMAS), max(GAMMAS))
        settings = RoundSettings(RecallBudget(share=0.001, floor=budget))
        self.batch = DeviceBatch(checkpoint.decoder, checkpoint.tokenizer.vocab_size, limits, settings)
        starts = np.linspace(0, len(ids) - context - 1, batch).astype(int)
        prompts = [ids[start : start + context].tolist() for start in starts]
        begun = time.perf_counter()
        with torch.inference_mode():
            self.batch.fill(prompts, [resolve(SamplingParams(**SAMPLED, seed=row)) for row in range(batch)], 150)
        torch.cuda.synchronize()
        self.prefill = time.perf_counter() - begun

    def plain(self):
        rounds = self.batch.rounds
        rounds.plain()
        self.batch.rewind()
        seconds = timed(rounds.plain, 40)
        text = self.batch.written()
        return seconds, text

    def speculative(self, gamma, text):
        rounds = self.batch.rounds
        self.batch.rewind()
        rounds.draft(gamma)
        rounds.verify(gamma)
        self.batch.rewind()
        counts, parts = [], []
        for _ in range(ROUNDS):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            marks[0].record()
            rounds.draft(gamma)
            marks[1].record()
            rounds.verify(gamma)
            marks[2].record()
            counts.append(self.batch.rows.counts.clone())
            parts.append(marks)
        torch.cuda.synchronize()
        drafts = [a.elapsed_time(b) / 1e3 for a, b, _ in parts]
        verifies = [b.elapsed_time(c) / 1e3 for _, b, c in parts]
        tokens = torch.stack(counts).float()
        same = [first_difference(a, b) for a, b in zip(text, self.batch.written(), strict=True)]
        accepted = (tokens - 1).flatten()
        depth = [float((accepted > i).float().sum() / max(1.0, float((accepted >= i).float().sum()))) for i in range(gamma)]
        return {
            "gamma": gamma,
            "draft_s": float(np.median(drafts)) / gamma,
            "verify_s": float(np.median(verifies)),
            "accepted": float(accepted.mean()),
            "conditional": depth,
            "tokens_per_s": float(tokens.sum()) / (sum(drafts) + sum(verifies)),
            "equal_until": same,
        }

    def run(self, bandwidth):
        weights = step_bytes(self.spec)
        cache = self.spec.kv_bytes_per_token(torch.bfloat16) * self.context * self.size
        seconds, text = self.plain()
        result = {
            "floor_s": (weights + cache) / bandwidth,
            "plain_s": seconds,
            "plain_tokens_per_s": self.size / seconds,
            "prefill_s": self.prefill,
            "weights": weights,
            "cache": cache,
            "gammas": [self.speculative(gamma, text) for gamma in GAMMAS],
        }
        for row in result["gammas"]:
            row["speedup"] = row["tokens_per_s"] / result["plain_tokens_per_s"]
        return result


def first_difference(left, right):
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return -1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", required=True)
    parser.add_argument("--budget", type=int, default=512)
    options = parser.parse_args()
    texts = np.load(options.ids)
    ids = np.concatenate([texts[name] for name in texts.files]).astype(np.int64)
    bandwidth = copy_bandwidth()
    big = torch.randn(1 << 30, device='cuda', dtype=torch.bfloat16)
    other = torch.empty_like(big)
    bandwidth = max(bandwidth, 4 * big.numel() / timed(lambda: other.copy_(big), 10))
    del big, other
    print(f'copy {bandwidth / 1e12:.2f} TB/s', flush=True)
    out = Path(os.environ.get("OUT", "."))
    results = {"device": torch.cuda.get_device_name(), "bandwidth": bandwidth, "cells": {}}
    loaded = ("", None)
    for cell in options.cells.split(","):
        name, shape = cell.split(":")
        context, batch = map(int, shape.split("x"))
        try:
            if loaded[0] != name:
                loaded = (name, None)
                torch.cuda.empty_cache()
                begun = time.perf_counter()
                if name == "demo":
                    checkpoint = load_checkpoint(options.model, dtype=torch.bfloat16, device="cuda")
                else:
                    theta = None if context <= 8192 else 1e6
                    checkpoint = grow_checkpoint(
                        options.model, name, dtype=torch.bfloat16, device="cuda", rope_theta=theta, context_length=65536
                    )
                torch.cuda.synchronize()
                print(f"{name} loaded in {time.perf_counter() - begun:.1f} s", flush=True)
                loaded = (name, checkpoint)
            with torch.inference_mode():
                result = Cell(loaded[1], ids, context, batch, options.budget).run(bandwidth)
        except Exception:
            traceback.print_exc()
            continue
        results["cells"][cell] = result
        line = f"{cell}: plain {result['plain_s'] * 1e3:.2f} ms = {result['plain_s'] / result['floor_s']:.2f} x floor, "
        line += f"prefill {result['prefill_s']:.1f} s"
        for row in result["gammas"]:
            equal = [place for place in row["equal_until"] if place >= 0]
            line += f"\n   gamma {row['gamma']}: draft {row['draft_s'] * 1e3:.2f} verify {row['verify_s'] * 1e3:.2f} ms, "
            line += f"accepted {row['accepted']:.2f}, speedup {row['speedup']:.2f}, parted {len(equal)}/{batch} {equal[:6]}"
            line += f" | {' '.join(f'{p:.2f}' for p in row['conditional'])}"
        print(line, flush=True)
        (out / "decode.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
