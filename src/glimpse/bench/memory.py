"""Peak memory of one generation, in a process of its own: `measure` starts it, `python -m glimpse.bench.memory` is it.

Counted is resident memory as Linux reports it: the high-water mark (VmHWM, reset after the imports) at the end of the
generation, less the resident memory (VmRSS) right after importing everything that loading and decoding import. So it
holds weights, cache, tokenizer, activations of the prefill, scratch memory of the kernels, and mapped pages of the
checkpoint file as far as they were resident at the peak.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from glimpse.errors import GlimpseError


def measure(model: str, *, prompt: int, tokens: int, threads: int) -> dict[str, Any]:
    """Peak and what it is judged by, in bytes, of a fresh process. Raises GlimpseError if that fails."""
    command = [sys.executable, "-m", "glimpse.bench.memory", model, str(prompt), str(tokens), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise GlimpseError(f"the memory measurement failed: {last}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def resident() -> dict[str, int]:
    """VmRSS, VmHWM, RssAnon and RssFile of this process in bytes."""
    fields = ("VmRSS", "VmHWM", "RssAnon", "RssFile")
    lines = [line.partition(":") for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()]
    return {name: int(value.split()[0]) * 1024 for name, _, value in lines if name in fields}


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _generate(model: str, prompt: int, tokens: int, threads: int) -> dict[str, Any]:
    import gguf  # noqa: F401  (imported here so that it counts as an import, not as the model)
    import torch
    import transformers

    from glimpse.bench.texts import manual
    from glimpse.llm import LLM
    from glimpse.sampling.params import SamplingParams

    assert transformers.AutoTokenizer is not None
    torch.set_num_threads(threads)
    (torch.ones(64, 64) @ torch.ones(64, 64)).sum()
    _reset_peak()
    imported = resident()
    llm = LLM(model, drafter="none", pacer="fixed", dtype="float32", device="cpu", threads=threads)
    loaded = resident()
    ids = llm.tokenizer.encode(manual(llm.tokenizer, prompt))[:prompt]
    llm.generate([ids], SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True))
    end = resident()
    return {
        "prompt": len(ids),
        "tokens": tokens,
        "imported": imported,
        "loaded": loaded,
        "end": end,
        "peak_bytes": end["VmHWM"] - imported["VmRSS"],
        "weight_bytes": llm.spec.weight_bytes(torch.float32),
        "cache_bytes": llm.spec.kv_bytes_per_token(torch.float32) * (len(ids) + tokens),
    }


if __name__ == "__main__":
    print(json.dumps(_generate(sys.argv[1], *(int(value) for value in sys.argv[2:5]))))
