"""Speed and memory on a CPU: plain decoding against transformers, what verifying, drafting and importance cost.

One run, two threads. Everything compared is interleaved (A B B A), and ratios are taken within a round; the value of a
target is the median of these ratios.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from glimpse import SamplingParams
from glimpse.bench import memory
from glimpse.bench.held import Held, held
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import summary
from glimpse.bench.texts import manual
from glimpse.bench.timing import interleave, ratios, seconds, timed
from glimpse.bench.twin import Twin
from glimpse.cache.recall import RecallBudget

WIDTHS = (1, 2, 4, 8, 9, 16)
VERIFY = 8


def text_of(bench: Bench, tokens: int) -> list[int]:
    """`tokens` tokens of the language reference that comes with Python."""
    return bench.llm.tokenizer.encode(manual(bench.llm.tokenizer, tokens + 64))[:tokens]


def decode(bench: Bench, length: int, twins: list[Twin]) -> dict:
    """Decode tokens per second of plain Glimpse and of transformers' generate; greedy, the prompt's forward apart."""
    twins or twins.append(Twin(bench.options.model))
    tokens, ids = bench.settings["tokens"], text_of(bench, length)
    params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)

    def ours() -> tuple[float, list[int]]:
        out = bench.llm.generate([ids], params)[0]
        return out.timing.tokens_per_s or 0.0, list(out.token_ids)

    def theirs() -> tuple[float, list[int]]:
        run = twins[0].generate(ids, tokens)
        return run.tokens_per_s, run.token_ids

    with bench.llm.pinned(ids):
        found = interleave({"glimpse": ours, "transformers": theirs}, bench.settings["rounds"])
    texts = {tuple(text) for each in found.values() for _, text in each}
    speeds = {name: [speed for speed, _ in each] for name, each in found.items()}
    return {"prompt": length, "tokens_per_s": speeds, "same_text": len(texts) == 1}


def verify(bench: Bench, length: int) -> dict:
    """Seconds of one forward of 1, 2, 4, ... tokens at the end of a text, logits of all included."""
    with held(bench.llm, text_of(bench, length)) as text:
        actions = {str(width): (lambda width=width: text.last(width)) for width in WIDTHS}
        return {"prompt": length, "seconds": timed(actions, bench.settings["steps"])}


def draft(bench: Bench, length: int) -> dict:
    """Seconds of a plain step and of a draft step over a ready recall set; of choosing the set; bytes of both steps."""
    budget = RecallBudget(share=bench.settings["budget"])
    with held(bench.llm, text_of(bench, length)) as text:
        base, window = length - 1, text.window()
        window.push(text.last(16, importance=16).importance[0])
        chosen = text.recalled(base, budget, window)
        actions = {
            "plain": lambda: text.last(1),
            "draft": lambda: text.forward(base, 1, recalled=chosen),
            "choose": lambda: text.recalled(base, budget, window),
        }
        found = timed(actions, bench.settings["steps"])
    position = bench.llm.spec.kv_bytes_per_token(torch.float32)
    sizes = {
        "weights": bench.llm.spec.weight_bytes(torch.float32),
        "cache": position * length,
        "read": position * (len(chosen) + 1),
    }
    return {"prompt": length, "seconds": found, "bytes": sizes}


def importance(bench: Bench, length: int) -> dict:
    """Seconds of verifying 8 tokens without importance, and with it, including its way into the drafter's window."""
    with held(bench.llm, text_of(bench, length)) as text:
        window = text.window()
        window.push(text.last(16, importance=16).importance[0])
        actions = {
            "without": lambda: text.last(VERIFY),
            "with": lambda: text.last(VERIFY, importance=VERIFY),
            "with and kept": lambda: keep(text, window),
        }
        return {"prompt": length, "seconds": timed(actions, bench.settings["steps"])}


def keep(text: Held, window) -> None:
    window.push(text.last(VERIFY, importance=VERIFY).importance[0])


def bandwidth(bench: Bench) -> dict:
    """Bytes per second of reading a large block of memory with all threads."""
    block = torch.ones(bench.settings["block"] // 4)
    best = min(seconds(lambda: block.sum()) for _ in range(8))
    return {"bytes_per_s": block.numel() * 4 / best}


def peak(bench: Bench) -> dict:
    settings = bench.settings
    return memory.measure(
        bench.options.model, prompt=settings["memory"], tokens=settings["tokens"], threads=bench.options.threads
    )


def body(bench: Bench) -> Findings:
    settings, twins = bench.settings, []
    measures = {
        "decode": (lambda n: decode(bench, n, twins), decode_finding),
        "verify": (lambda n: verify(bench, n), verify_finding),
        "draft": (lambda n: draft(bench, n), draft_finding),
        "importance": (lambda n: importance(bench, n), importance_finding),
    }
    read = bench.cell("bandwidth", lambda: bandwidth(bench))["bytes_per_s"]
    cells = {kind: [bench.cell(f"{kind} {n}", lambda n=n, run=run: run(n)) for n in settings[kind]]
             for kind, (run, _) in measures.items()}  # fmt: skip
    used = bench.cell("memory", lambda: peak(bench))
    shown = [(cell["prompt"] in settings["judged"][kind], judge(cell))
             for kind, (_, judge) in measures.items() for cell in cells[kind]]  # fmt: skip
    rows = [[target.what, f"{target.value:.3g}", f"{low:.3g} to {high:.3g}"] for _, (target, (low, high)) in shown]
    spread = Table("Medians and quartiles of the ratios", ("what", "median", "quartiles"), rows)
    targets = [target for judged, (target, _) in shown if judged]
    floors = {"read_bytes_per_s": read} | {
        f"plain step at {cell['prompt']}, s": (cell["bytes"]["weights"] + cell["bytes"]["cache"]) / read
        for cell in cells["draft"]
    }
    floors |= {f"draft step at {cell['prompt']} over a plain one": predicted_draft(cell) for cell in cells["draft"]}
    return Findings([*targets, *memory_targets(used)], [spread, widths_table(cells["verify"])], floors)


Finding = tuple[Target, tuple[float, float]]


def found(what: str, target: str, values: Sequence[float]) -> Finding:
    """A target on the median, and the quartiles."""
    own = summary(values)
    return Target(what, target, own.median), (own.low, own.high)


def decode_finding(cell: dict) -> Finding:
    speeds = cell["tokens_per_s"]
    what = f"plain decode at {cell['prompt']:,} tokens over transformers generate"
    return found(what, ">= 1.8", ratios(speeds["glimpse"], speeds["transformers"]))


def verify_finding(cell: dict) -> Finding:
    what = f"verify of {VERIFY} tokens at {cell['prompt']:,} over one token"
    return found(what, "<= 1.6", ratios(cell["seconds"][str(VERIFY)], cell["seconds"]["1"]))


def predicted_draft(cell: dict) -> float:
    """What bytes say a draft step costs of a plain one."""
    sizes = cell["bytes"]
    return (sizes["weights"] + sizes["read"]) / (sizes["weights"] + sizes["cache"])


def draft_finding(cell: dict) -> Finding:
    predicted = predicted_draft(cell)
    steps = ratios(cell["seconds"]["draft"], cell["seconds"]["plain"])
    what = f"draft step at {cell['prompt']:,} over a plain step, over (W + rho K) / (W + K)"
    return found(what, "<= 1.15", [step / predicted for step in steps])


def importance_finding(cell: dict) -> Finding:
    added = ratios(cell["seconds"]["with and kept"], cell["seconds"]["without"])
    what = f"importance at {cell['prompt']:,}: what it adds to a verify of {VERIFY}"
    return found(what, "<= 0.1", [ratio - 1 for ratio in added])


def memory_targets(used: dict) -> list[Target]:
    """Both readings of "1.2 x weights + cache"."""
    peak_bytes, weights, cache = used["peak_bytes"], used["weight_bytes"], used["cache_bytes"]
    return [
        Target("peak memory less the cache, over the weights", "<= 1.2", (peak_bytes - cache) / weights),
        Target("peak memory over weights and cache", "<= 1.2", peak_bytes / (weights + cache)),
    ]


def widths_table(cells: list[dict]) -> Table:
    rows = []
    for cell in cells:
        one = cell["seconds"]["1"]
        over = [f"{median(ratios(cell['seconds'][str(width)], one)):.2f}" for width in WIDTHS]
        rows.append([f"{cell['prompt']:,}", f"{1000 * median(one):.0f} ms", *over])
    columns = ("tokens before", "one token", *(f"{width} tokens" for width in WIDTHS))
    return Table("Cost of a forward of several tokens, over one token", columns, rows)


SUITE = Suite(
    name="cpu_speed",
    summary=__doc__.splitlines()[0],
    settings={
        "decode": [500, 4000],
        "verify": [500, 4000],
        "draft": [4000, 7900],
        "importance": [4000, 7900],
        "judged": {"decode": [500, 4000], "verify": [500], "draft": [7900], "importance": [4000, 7900]},
        "memory": 4000,
        "tokens": 48,
        "rounds": 5,
        "steps": 21,
        "budget": 0.1,
        "block": 1 << 30,
    },
    quick={
        "decode": [60],
        "verify": [60],
        "draft": [300],
        "importance": [300],
        "judged": {"decode": [60], "verify": [60], "draft": [300], "importance": [300]},
        "memory": 60,
        "tokens": 4,
        "rounds": 1,
        "steps": 2,
        "block": 1 << 24,
    },
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
