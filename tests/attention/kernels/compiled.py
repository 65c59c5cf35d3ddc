"""Compiles for an H200, without one, whatever kernels the launchers launch: prints registers, spills, shared memory.

Run as a program with the names of cases: it must be a process of its own, without Triton's interpreter.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction, mangle_type

TARGET = GPUTarget("cuda", 90, 32)
OPTIONS = ("num_warps", "num_stages", "launch_pdl", "maxnreg")


def compile_launch(kernel: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Compiles one launch as Triton would; the resource figures of ptxas."""
    options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
    bound = dict(zip(kernel.arg_names, args, strict=False)) | kwargs
    signature, constants, attributes = {}, {}, {}
    for index, param in enumerate(kernel.params):
        value = bound[param.name]
        special = isinstance(value, int) and not param.do_not_specialize
        if param.is_constexpr or value is None or (special and value == 1):
            signature[param.name], constants[(index,)] = "constexpr", value
            continue
        signature[param.name] = mangle_type(value)
        if isinstance(value, torch.Tensor) or (special and value % 16 == 0):
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    compiled = triton.compile(source, target=TARGET, options=options)
    return {"kernel": kernel.__name__, "shared": compiled.metadata.shared, "asm": compiled.asm} | _usage(compiled.asm)


def _usage(asm: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(asm["cubin"])
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        text = subprocess.run([tool, "-res-usage", path], capture_output=True, text=True, check=True).stdout
    words = dict(word.split(":", 1) for word in text.split() if ":" in word and word.split(":", 1)[1].isdigit())
    return {"registers": int(words["REG"]), "stack": int(words["STACK"])}


def collect(launch: Callable[[], Any]) -> list[dict[str, Any]]:
    """Compiles every kernel that `launch` would run on CPU tensors, instead of running it."""
    found: list[dict[str, Any]] = []

    def instead(self: JITFunction, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: found.append(compile_launch(self, args, kwargs))

    original = JITFunction.__getitem__
    JITFunction.__getitem__ = instead
    try:
        launch()
    finally:
        JITFunction.__getitem__ = original
    return found


Case = Callable[[], Any]


def attention_case(
    heads: int, kv_heads: int, dim: int, queries: int, importance: bool, dtype: torch.dtype, tree: bool = False
) -> Case:
    from glimpse.attention.triton.attention import HeadShape, Importance, Paged

    def launch() -> None:
        paged = Paged(HeadShape(heads, kv_heads, dim), 2, queries, 16, "cpu")
        q, kv = torch.zeros(2 * queries, heads, dim, dtype=dtype), torch.zeros(kv_heads, 64, dim, dtype=dtype)
        ints = torch.zeros(2, 16, dtype=torch.int32)
        ref = torch.zeros(2, heads)
        found = Importance(torch.zeros(2, kv_heads, 64, dtype=BF16), ref, ref) if importance else None
        paged.plan(ints[:, 0])
        bits = torch.zeros(2, queries, dtype=torch.int64) if tree else None
        paged(q, kv, kv, ints, ints[:, 0].contiguous(), tree=bits, importance=found)

    return launch


def mixed_case(heads: int, kv_heads: int, dim: int) -> Case:
    from glimpse.attention.triton.attention import HeadShape, Importance, Paged
    from glimpse.attention.triton.mixed import feed_mixed
    from glimpse.attention.triton.picking import RowSettings, Sample
    from glimpse.attention.triton.recalled import Recalled
    from glimpse.attention.triton.rows import Verdict, commit, record

    def launch() -> None:
        shape, ints, tokens = HeadShape(heads, kv_heads, dim), torch.zeros(64, dtype=torch.int32), torch.zeros(64, 128)
        tokens, table, floats = tokens.long(), torch.zeros(64, 8, dtype=torch.int32), torch.zeros(64, 8)
        made = feed_mixed(tokens, *[ints] * 5, table, torch.zeros(97, 64, dtype=BF16), 128, 9, 16)
        fed, ragged = made.fed, made.ragged
        q, kv = torch.zeros(128, heads, dim, dtype=BF16), torch.zeros(kv_heads, 64, dim, dtype=BF16)
        reference, scores = torch.zeros(64, heads), torch.zeros(64, kv_heads, 64, dtype=BF16)
        importance, selected = Importance(scores, reference, reference), torch.zeros(64, kv_heads, 512).int()
        Paged(shape, 64, 9, 16, "cpu")(
            q, kv, kv, table, fed.lengths, counts=fed.counts, ragged=ragged, importance=importance
        )
        Recalled(shape, 64, 16, "cpu")(q, kv, kv, selected, *[ints] * 3, table, ragged=ragged)
        record(tokens, fed.positions, fed.ids, *[floats[:, 0]] * 2, ints, ints, floats, floats, ragged=ragged)
        verdict = Verdict(ints, tokens[:, :9].contiguous(), ints, ints, ints)
        commit(tokens, fed, fed.ids, torch.zeros(128), *[ints] * 4, verdict, ragged=ragged, queries=9)
        double, settings = torch.ones(64, dtype=torch.float64), torch.ones(64, dtype=torch.int64)
        law = RowSettings(double, settings, double, double)
        logits, pick = torch.zeros(128, 49152, dtype=BF16), Sample(128, 49152, "cpu")
        pick(logits, law, settings, fed.positions, ahead=1, owners=ragged.owners)

    return launch


def recalled_case(heads: int, kv_heads: int, dim: int, pieces: int) -> Case:
    from glimpse.attention.triton.attention import HeadShape
    from glimpse.attention.triton.recalled import Recalled, RecalledConfig

    def launch() -> None:
        shape = HeadShape(heads, kv_heads, dim)
        q, kv = torch.zeros(2, heads, dim, dtype=BF16), torch.zeros(kv_heads, 64, dim, dtype=BF16)
        ints, selected = torch.zeros(2, 16, dtype=torch.int32), torch.zeros(2, kv_heads, 64, dtype=torch.int32)
        Recalled(shape, 2, 16, "cpu", RecalledConfig(pieces=pieces))(q, kv, kv, selected, *[ints[0]] * 3, ints)

    return launch


def select_case(width: int = 8192) -> Case:
    from glimpse.attention.triton.select import Selection, capacity

    def launch() -> None:
        ints = torch.zeros(2, 16, dtype=torch.int32)
        selected, counts = capacity(2, 3, 4, 512, "cpu")
        scores = torch.zeros(4, 2, 3, width, dtype=BF16)
        Selection(16)(scores, *[ints[0]] * 3, ints, selected, counts, running=scores, decays=torch.zeros(2))

    return launch


def fused_case() -> Case:
    from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul

    def launch() -> None:
        x = torch.zeros(2, 4096, dtype=BF16)
        rms_norm(x, x[0], 1e-5, x)
        qkv, kv = torch.zeros(2, 48, 128, dtype=BF16), torch.zeros(8, 64, 128, dtype=BF16)
        angle = torch.zeros(2, 1, 128, dtype=BF16)
        rotate_and_store(qkv, angle, angle, torch.zeros(2, dtype=torch.int64), kv, kv, 32, norm=kv[0], eps=1e-6)
        silu_mul(x)

    return launch


def narrow_case(tokens: int) -> Case:
    from glimpse.attention.triton.narrow import Narrow, NarrowConfig

    def launch() -> None:
        x, weight = torch.zeros(tokens, 576, dtype=BF16), torch.zeros(3072, 576, dtype=BF16)
        down, kv = torch.zeros(576, 1536, dtype=BF16), torch.zeros(3, 64, 64, dtype=BF16)
        angle, ids = torch.zeros(64, 1, 64, dtype=BF16), torch.zeros(tokens, dtype=torch.int64)
        narrow = Narrow(tokens, 576, "cpu", NarrowConfig.fit(tokens, True))
        q = narrow.qkv(x, x[0], 1e-5, weight[:960], angle, angle, ids, ids, kv, kv, 9)
        narrow.output(q.flatten(1), weight[:576], x)
        narrow.down(narrow.gated(x, x[0], 1e-5, weight), down, x)

    return launch


def rows_case() -> Case:
    from glimpse.attention.triton.rows import Verdict, commit, feed, record

    def launch() -> None:
        ints, tokens = torch.zeros(2, dtype=torch.int32), torch.zeros(2, 128, dtype=torch.int64)
        table, floats = torch.zeros(2, 8, dtype=torch.int32), torch.zeros(2, 8)
        embedding, verdict = (
            torch.zeros(97, 64, dtype=BF16),
            Verdict(ints, tokens[:, :9].contiguous(), ints, ints, ints),
        )
        fed = feed(tokens, ints, ints, ints, table, embedding, 1, 16, limit=ints)
        record(tokens, fed.positions, fed.ids, floats[:, 0], floats[:, 0], ints, fed.lengths, floats, floats)
        fed = feed(tokens, ints, None, ints, table, embedding, 9, 16, own=ints)
        commit(tokens, fed, fed.ids, torch.zeros(18), ints, ints, ints, ints, verdict)

    return launch


def trees_case(heads: int, kv_heads: int, dim: int, queries: int) -> Case:
    from glimpse.attention.triton.attention import HeadShape, Paged
    from glimpse.attention.triton.mixed import feed_mixed
    from glimpse.attention.triton.rows import Verdict
    from glimpse.attention.triton.trees import branch, commit_tree, compact

    def launch() -> None:
        ints, tokens = torch.zeros(32, dtype=torch.int32), torch.zeros(32, 128, dtype=torch.int64)
        table, parents = torch.zeros(32, 8, dtype=torch.int32), torch.zeros(32, 127, dtype=torch.int32)[:, 63:126]
        verdict, embedding = (
            Verdict(ints, tokens[:, :64].contiguous(), ints, ints, ints),
            torch.zeros(97, 64, dtype=BF16),
        )
        made = feed_mixed(tokens, *[ints] * 5, table, embedding, 96, queries, 16)
        fed, ragged, paths = made.fed, made.ragged, torch.zeros(32, 64, dtype=torch.int32)
        seen = branch(fed, ragged, parents, queries)
        q, kv = torch.zeros(96, heads, dim, dtype=BF16), torch.zeros(2, kv_heads, 128, dim, dtype=BF16)
        Paged(HeadShape(heads, kv_heads, dim), 32, queries, 16, "cpu")(
            q, kv[0], kv[0], table, fed.lengths, counts=fed.counts, ragged=ragged, tree=seen
        )
        commit_tree(
            tokens, fed, ragged, parents, fed.ids, torch.zeros(96), ints, ints, ints, ints, verdict, paths, queries
        )  # fmt: skip
        compact(kv, kv, table, paths, ints, ints, 16)

    return launch


def groups_case(heads: int, kv_heads: int, dim: int, groups: int, size: int) -> Case:
    from glimpse.attention.triton.attention import HeadShape
    from glimpse.attention.triton.blocks import Standing, behind, leave
    from glimpse.attention.triton.cutting import cut
    from glimpse.attention.triton.groups import Grouped
    from glimpse.attention.triton.picking import Sample

    def launch() -> None:
        grouped = Grouped(HeadShape(heads, kv_heads, dim), 2, groups, size, 16, "cpu")
        q = torch.zeros(grouped.count, heads, dim, dtype=BF16)
        own, kv = torch.zeros(2, kv_heads, grouped.count, dim, dtype=BF16), torch.zeros(kv_heads, 64, dim, dtype=BF16)
        ints = torch.ones(2, 8, dtype=torch.int32)
        grouped.plan(*[ints[:, 0].contiguous()] * 3)
        grouped(q, own[0], own[1], kv, kv, ints, torch.empty_like(q))
        tokens, one = torch.zeros(2, 128, dtype=torch.int64), ints[:, 0].contiguous()
        behind(torch.zeros(grouped.count, heads * dim, dtype=BF16), one, one, tokens, groups, size)
        rows = Standing(one, one, one, tokens, one, tokens[:, 0].contiguous())
        logits, sample = torch.zeros(2 * size, 49152, dtype=BF16), Sample(2 * size, 49152, "cpu")
        for ahead in (0, size):
            leave(sample, logits, rows, groups, size, out=ints, ahead=ahead, floor=0.01)
        block, rules = torch.zeros(2, 2 * size, dtype=torch.int32), torch.zeros(2, 2 + 4 * 4)
        cut(block, rules, torch.zeros(3), one, 4, (0.02, 0.98))

    return launch


def sample_case(dtype: torch.dtype) -> Case:
    from glimpse.attention.triton.likely import likeliest
    from glimpse.attention.triton.picking import RowSettings, Sample

    def launch() -> None:
        double, ids = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64)
        settings, sample = RowSettings(double, ids, double, double), Sample(2, 49152, "cpu")
        logits = torch.zeros(2, 49152, dtype=dtype)
        sample(logits, settings, ids, ids)
        likeliest(sample, logits, torch.zeros(2, 16, dtype=torch.int32))

    return launch


def trust_case(heads: int, kv_heads: int, dim: int, width: int) -> Case:
    from glimpse.attention.triton.attention import HeadShape
    from glimpse.attention.triton.fusion import Fusion
    from glimpse.attention.triton.select import Selection
    from glimpse.attention.triton.trusting import bound, learned_at, pace, passed
    from glimpse.attention.triton.weights import weigh_rows

    def launch() -> None:
        ints, table = torch.zeros(2, dtype=torch.int32), torch.zeros(2, 8, dtype=torch.int32)
        weights, selected = torch.zeros(2, 2, kv_heads, width), torch.zeros(2, 2, kv_heads, 64, dtype=torch.int32)
        q, keys = torch.zeros(2, 2, heads, dim, dtype=BF16), torch.zeros(2, kv_heads, 64, dim, dtype=BF16)
        pace(torch.zeros(2, dtype=torch.int64), ints, ints, ints, torch.zeros(97, dtype=torch.uint8), 64, (ints,) * 4)
        passed(*[ints] * 7, 64)
        bound(torch.zeros(2, 99, dtype=torch.int64), *[ints] * 5, torch.zeros(97, dtype=torch.uint8), 64, ints)
        learned_at(*[ints] * 8)
        weigh_rows(HeadShape(heads, kv_heads, dim), 16, q, keys, table, ints, torch.zeros(2, 2, heads), weights)
        Fusion(4, 32, 0.02, 0.5, 0.35, -4.0, 1.0, 0.0, 1)(weights, ints, ints, weights)
        Selection(16, 4, 32)(weights, ints, ints, ints, table, selected, ints)

    return launch


BF16 = torch.bfloat16
CASES: dict[str, Case] = {
    "decode-8b": attention_case(32, 8, 128, 1, False, BF16),
    "verify-8b": attention_case(32, 8, 128, 9, True, BF16),
    "verify-8b-32": attention_case(32, 8, 128, 8, True, BF16),
    "tree-8b": attention_case(32, 8, 128, 64, True, BF16, tree=True),
    "decode-135m": attention_case(9, 3, 64, 1, False, BF16),
    "verify-135m": attention_case(9, 3, 64, 9, True, BF16),
    "mixed-8b": mixed_case(32, 8, 128),
    "mixed-135m": mixed_case(9, 3, 64),
    "draft-8b": recalled_case(32, 8, 128, 8),
    "draft-135m": recalled_case(9, 3, 64, 1),
    "select": select_case(),
    "select-long": select_case(32768),
    "fused": fused_case(),
    **{f"narrow-{tokens}": narrow_case(tokens) for tokens in (8, 16, 32, 64, 128, 256, 576)},
    "rows": rows_case(),
    **{f"trees-8b-{queries}": trees_case(32, 8, 128, queries) for queries in (1, 9, 17, 33, 64)},
    **{f"trees-135m-{queries}": trees_case(9, 3, 64, queries) for queries in (1, 9, 17, 33, 64)},
    "trust-8b": trust_case(32, 8, 128, 32768),
    "trust-135m": trust_case(9, 3, 64, 8192),
    "groups-8b": groups_case(32, 8, 128, 9, 7),
    "groups-135m": groups_case(9, 3, 64, 5, 4),
    "groups-135m-1": groups_case(9, 3, 64, 1, 8),
    "sample": sample_case(BF16),
    "sample-float32": sample_case(torch.float32),
    "float32": attention_case(9, 3, 64, 9, True, torch.float32),
}


def main(names: list[str]) -> None:
    for name in names or CASES:
        for result in collect(CASES[name]):
            asm = result.pop("asm")
            ptx = asm["ptx"]
            marks = {word: ptx.count(word) for word in ("cp.async.", "ld.global.v4", "wgmma.mma", "mma.sync")}
            print(name, result, {word: count for word, count in marks.items() if count}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
