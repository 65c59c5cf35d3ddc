"""Does the GPU write what the CPU writes? Five kinds of prompts, greedy and sampled, with every drafter.

    PYTHONPATH=src python3 benchmarks/gpu_texts.py write --model demo.gguf --commit HASH --out FOLDER
    PYTHONPATH=src python3 benchmarks/gpu_texts.py judge --model demo.gguf --out FOLDER

The first runs on the GPU and keeps its texts and some logits in FOLDER; the second may run elsewhere. In float32 the
texts should be equal; in bfloat16 rounding parts them. Where two texts part, the CPU's own plain path says by how much
it preferred its token (`glimpse.bench.judge`). Limits are fixed before any text is judged: in bfloat16 what logits were
seen to move by on other text (`MOVES`); in float32 what the logits of one forward differ by between the two devices, on
the first prompt, times `SLACK`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glimpse import LLM, SamplingParams
from glimpse.bench.decode.ties import MOVES
from glimpse.bench.held import held
from glimpse.bench.judge import SLACK, margin
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.bench.stats import distinct_share
from glimpse.bench.texts import everyday_prompts
from glimpse.outputs import first_difference

LAWS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "T=0.7": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3},
}
ARMS: dict[str, dict[str, Any]] = {
    "plain": {"drafter": "none", "pacer": "fixed"},
    "sparse 8": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 8},
    "sparse entropy": {"drafter": "sparse", "pacer": "entropy"},
    "lookup 8": {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 8},
}
CONTEXT, KEPT = 4608, "texts.json"
WINDOW = 32
"""Last tokens of the first prompt whose logits both devices are compared by."""


def texts(llm: LLM, prompts: dict[str, list[int]], law: str, tokens: int) -> dict[str, list[int]]:
    """What one arm writes for every prompt, all of them in one batch."""
    params = SamplingParams(**LAWS[law], max_tokens=tokens, ignore_eos=True)
    outs = llm.generate(list(prompts.values()), params)
    return {kind: list(out.token_ids) for kind, out in zip(prompts, outs, strict=True)}


def last_logits(llm: LLM, ids: Sequence[int]) -> np.ndarray:
    """[WINDOW, vocab] float32: the logits of a text's last tokens, from one forward."""
    with held(llm, ids) as text:
        return np.asarray(text.last(WINDOW).logits[0].float().cpu().numpy())


def verdict(cpu: LLM, ids: list[int], right: list[int], found: list[int], law: str, move: float) -> dict[str, Any]:
    """Equal, or where not and by which margin; a near tie where both tokens' logits may have moved by `move`."""
    at = first_difference(right, found)
    if at is None:
        return {"identical": True, "judged": len(right)}
    settings = SamplingParams(**LAWS[law], max_tokens=len(right), ignore_eos=True)
    away = margin(cpu, ids, right, at, found[at], settings)
    limit = 2 * move / (LAWS[law]["temperature"] or 1.0)
    return {"identical": False, "judged": at + 1, "margin": away, "limit": limit, "tie": away <= limit}


def write_texts(options: argparse.Namespace, dtype: str) -> dict[str, Any]:
    """The GPU's texts in one dtype, and beside them what it read; its logits go to a file of their own."""
    gpu = LLM(options.model, device=options.device, dtype=dtype, drafter="none", pacer="fixed", max_context=CONTEXT)
    prompts = everyday_prompts(gpu.tokenizer, options.document)
    np.save(options.out / f"texts-{dtype}.npy", last_logits(gpu, next(iter(prompts.values()))))
    found: dict[str, Any] = {law: {} for law in LAWS}
    for name, arm in ARMS.items():
        llm = gpu if name == "plain" else gpu.variant(**arm)
        for law, by_arm in found.items():
            by_arm[name] = texts(llm, prompts, law, options.tokens)
        print(f"{dtype}, {name}: written", flush=True)
    gpu.close()
    return {"prompts": prompts, "texts": found}


def judge_texts(options: argparse.Namespace, dtype: str, written: dict[str, Any]) -> list[dict[str, Any]]:
    """All arms and laws of one dtype against the plain CPU texts of the same dtype."""
    cpu = LLM(options.model, device="cpu", dtype=dtype, drafter="none", pacer="fixed", max_context=CONTEXT)
    prompts, runs = written["prompts"], []
    there = np.load(options.out / f"texts-{dtype}.npy", allow_pickle=False)
    seen = float(np.abs(there - last_logits(cpu, next(iter(prompts.values())))).max())
    move = MOVES.get(getattr(torch, dtype), SLACK * seen)
    print(f"{dtype}: logits of the two devices differ by at most {seen:.2g}; limit {move:.2g}", flush=True)
    for law, by_arm in written["texts"].items():
        right = texts(cpu, prompts, law, len(next(iter(by_arm["plain"].values()))))
        distinct = {kind: distinct_share(text) for kind, text in right.items()}
        for name, found in by_arm.items():
            kinds = {kind: verdict(cpu, ids, right[kind], found[kind], law, move) for kind, ids in prompts.items()}
            runs.append({"dtype": dtype, "law": law, "arm": name, "kinds": kinds, "distinct_4grams": distinct,
                         "logits_moved": seen})  # fmt: skip
            print(summary(runs[-1]), flush=True)
    cpu.close()
    return runs


def summary(run: dict[str, Any]) -> list[str]:
    """A row of the table."""
    each = list(run["kinds"].values())
    parted = [found for found in each if not found["identical"]]
    widest = max((found["margin"] for found in parted), default=0.0)
    ties = sum(found["tie"] for found in parted)
    same = f"{len(each) - len(parted)} of {len(each)}"
    return [run["dtype"], run["law"], run["arm"], same, str(ties), str(len(parted) - ties), f"{widest:.2g}"]


def targets(runs: list[dict[str, Any]]) -> list[Target]:
    """No difference but near ties, and hardly any in float32."""
    each = [(run["dtype"], found) for run in runs for found in run["kinds"].values()]
    wrong = sum(not found["identical"] and not found["tie"] for _, found in each)
    float32 = [found for dtype, found in each if dtype == "float32"]
    parted = sum(not found["identical"] for found in float32)
    return [
        Target("texts of the GPU that part from the CPU's, near ties apart", "== 0", wrong),
        Target("texts of the GPU that part from the CPU's in float32", "== 0", parted),
    ]


def result_of(runs: list[dict[str, Any]], facts: dict[str, Any]) -> Result:
    """The result file."""
    columns = ("dtype", "law", "drafts", "equal", "near ties", "others", "widest margin")
    return Result(
        suite="texts", device=facts["device"], versions=facts["versions"], commit=facts["commit"], dirty=False,
        quick=False, settings={**facts["settings"], "laws": LAWS, "slack": SLACK}, runs=runs,
        targets=[target.noted("docs/performance-gpu.md") for target in targets(runs)],
        tables=[Table("Texts of the GPU beside the CPU's", columns, [summary(run) for run in runs])],
    )  # fmt: skip


def facts_of(options: argparse.Namespace) -> dict[str, Any]:
    """Where the texts were written, and by what."""
    import transformers

    there = torch.cuda.is_available()
    kind, name = ("h200", torch.cuda.get_device_name()) if there else ("cpu", "a trial without a GPU")
    return {
        "device": {"kind": kind, "name": name, "cores": os.cpu_count() or 0, "threads": 1},
        "versions": {"python": platform.python_version(), "torch": torch.__version__,
                     "transformers": transformers.__version__, "glimpse": "0.1.0"},
        "commit": options.commit, "settings": {"tokens": options.tokens, "document": options.document},
    }  # fmt: skip


def write(options: argparse.Namespace) -> None:
    """Keeps the texts of all dtypes."""
    options.out.mkdir(parents=True, exist_ok=True)
    written = {dtype: write_texts(options, dtype) for dtype in options.dtypes.split(",")}
    (options.out / KEPT).write_text(json.dumps({"facts": facts_of(options), "written": written}), encoding="utf-8")


def judge(options: argparse.Namespace) -> None:
    """One line an arm; the result file is written after each dtype."""
    kept = json.loads((options.out / KEPT).read_text(encoding="utf-8"))
    runs: list[dict[str, Any]] = []
    for dtype, written in kept["written"].items():
        runs += judge_texts(options, dtype, written)
        write_result(result_of(runs, kept["facts"]), options.out)


DOES = {"write": write, "judge": judge}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=DOES)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--document", type=int, default=4000, help="tokens of the longest prompt's text")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path, required=True, help="folder for the texts and the result file")
    options = parser.parse_args()
    DOES[options.what](options)


if __name__ == "__main__":
    main()
