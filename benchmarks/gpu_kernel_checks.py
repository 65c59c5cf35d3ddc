"""Are the kernels right at real shapes? Each check gives (what, figure, limit); right means figure <= limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from gpu_kernel_cases import PAGE, TAIL, Cell, SelectCell, peaked_logits, row_settings, tree_bits

from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import Importance, Paged
from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.attention.triton.picking import Sample
from glimpse.attention.triton.recalled import RecalledConfig
from glimpse.attention.triton.select import Selection
from glimpse.model.decoder import Norm
from glimpse.model.rope import Rotation
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import Role, keys, log_exponential_of
from glimpse.sampling.truncation import Cuts, truncate

Check = tuple[str, float, float]
LIMIT = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-4}


def error(found: torch.Tensor, right: torch.Tensor) -> float:
    """||found - right|| / ||right||."""
    return float((found.double() - right.double()).norm() / right.double().norm())


def paged(model: str, dtype: torch.dtype, queries: int) -> Iterator[Check]:
    """Unequal lengths, an idle row, a row with fewer tokens; importance; a tree for verify rows."""
    cell = Cell(model, 6, 4100, queries, dtype, layers=1)
    cell.lengths.copy_(torch.tensor([4100, 0, 777, queries, 2048, 65]))
    counts = torch.full_like(cell.lengths, queries)
    counts[4] = 1
    tree = None
    if queries > 1:
        tree = tree_bits(6, queries)
    for name, mask in (("causal", None), ("tree", tree)):
        attention = Paged(cell.shape, 6, queries, PAGE, "cuda")
        for buffer in (attention.part_out, attention.part_lse, cell.out):
            buffer.fill_(torch.nan)
        cell.scores.zero_()
        fresh = cell.reference.clone()
        attention.plan(cell.lengths)
        wide = [x.float() for x in (cell.q, cell.keys[0], cell.values[0])]
        options = {"counts": counts, "tree": mask}
        found = Importance(cell.scores[0], cell.reference, fresh)
        out = attention(
            cell.q, cell.keys[0], cell.values[0], cell.table, cell.lengths, importance=found, out=cell.out, **options
        )
        options["counted"] = attention.counted
        right = definitions.paged(*wide, cell.table, cell.lengths, PAGE, reference=cell.reference, **options)
        label = f"paged {model} {dtype} n={queries} {name}"
        yield f"{label}: out", error(out, right[0]), LIMIT[dtype]
        yield f"{label}: importance", error(cell.scores[0], right[1]), 1e-2
        yield f"{label}: log-sum-exp", error(fresh, right[2]), LIMIT[dtype]


def recalled(model: str, dtype: torch.dtype) -> Iterator[Check]:
    """512 scattered slots and a tail, in one piece and in many, twice each."""
    for block, pieces in ((64, 1), (64, 8), (128, 4)):
        cell = Cell(model, 3, 3000, 1, dtype, layers=1)
        selected, counts = cell.recall_sets(512)
        call = cell.recalled_calls(RecalledConfig(block, pieces), selected, counts)[0]
        wide = [x.float() for x in (cell.q, cell.keys[0], cell.values[0])]
        right = definitions.recalled(*wide, selected[0], counts, cell.lengths - TAIL, cell.lengths, cell.table, PAGE)
        for _ in range(2):
            cell.out.fill_(torch.nan)
            call()
            yield f"recalled {model} {dtype} block={block} pieces={pieces}", error(cell.out, right), LIMIT[dtype]


def select() -> Iterator[Check]:
    """Exactly the positions of a stable sort, at two lengths."""
    for model, rows, length in (("135m", 4, 8192), ("8b", 2, 32768)):
        cell = SelectCell(model, rows, length, 512)
        cell.scores.mul_(50).round_().div_(50)  # many equal scores
        for running in (False, True):
            cell.call(Selection(PAGE), running)()
            wrong, scores = 0, cell.running if running else cell.scores
            for layer in (0, 7):
                for row in range(rows):
                    positions = definitions.selection(scores[layer, row, 1], length, 512, 4, 32)
                    slots = definitions.slots_of(cell.table[row], positions, PAGE)
                    wrong += int((cell.selected[layer, row, 1].long() != slots).sum())
            yield f"select {model} running={running}: wrong slots", wrong, 0


def sample(law: str, dtype: torch.dtype) -> Iterator[Check]:
    """Tokens of the sampler; a difference is right only where log p + noise differ by rounding."""
    rows, vocab = 512, 49152
    logits, settings = peaked_logits(rows, vocab, dtype), row_settings(rows, law)
    seeds, positions = torch.arange(rows, device="cuda") - 9, torch.arange(rows, device="cuda") * 7
    found = Sample(rows, vocab, "cuda")(logits, settings, seeds, positions)
    cuts = Cuts(settings.temperature, settings.top_k, settings.top_p, settings.log_min_p)
    ids, logp = truncate(logits.float(), cuts, vocab)
    laws = Laws(logp, ids, torch.zeros(rows, dtype=torch.bool, device="cuda"), vocab)
    right = pick(laws, seeds, positions, Role.TARGET)
    key = keys(seeds, positions, Role.TARGET)[:, None]
    score = [laws.logp_of(x) - log_exponential_of(key, x[:, None])[:, 0] for x in (right, found.tokens)]
    yield f"sample {law} {dtype}: different tokens", int((found.tokens != right).sum()), rows // 100
    yield f"sample {law} {dtype}: largest margin of one", float((score[0] - score[1]).max()), 1e-5
    yield f"sample {law} {dtype}: probability", error(found.probabilities, laws.logp_of(found.tokens).exp()), 1e-4


def fused(dtype: torch.dtype) -> Iterator[Check]:
    """Against the decoder's own arithmetic."""
    x, residual = (torch.randn(9, 4096, device="cuda").to(dtype) for _ in range(2))
    weight, total = torch.randn(4096, device="cuda").to(dtype), residual + x
    yield f"norm {dtype}", error(rms_norm(x, weight, 1e-5, residual), Norm(weight, 1e-5)(total)), LIMIT[dtype] / 4
    qkv = torch.randn(9, 48, 128, device="cuda").to(dtype)
    angles = torch.randn(9, 1, 64, device="cuda")
    cos, sin = (torch.cat(pair, -1).to(dtype) for pair in ((angles.cos(),) * 2, (-angles.sin(), angles.sin())))
    pool = torch.zeros(2, 8, 64, 128, dtype=dtype, device="cuda")
    right = Rotation(cos, sin, 64).apply(qkv[:, :40])
    out = rotate_and_store(qkv, cos, sin, torch.arange(9, device="cuda") * 3, pool[0], pool[1], 32)
    yield f"rotation {dtype}: queries", error(out, right[:, :32]), LIMIT[dtype] / 4
    yield f"rotation {dtype}: keys", error(pool[0, :, 0:27:3].transpose(0, 1), right[:, 32:]), LIMIT[dtype] / 4
    yield f"rotation {dtype}: values", error(pool[1, :, 0:27:3].transpose(0, 1), qkv[:, 40:]), 0
    gate, up = qkv.flatten(1).chunk(2, -1)
    yield f"gate {dtype}", error(silu_mul(qkv.flatten(1)), torch.nn.functional.silu(gate) * up), LIMIT[dtype] / 4


def every() -> Iterator[Callable[[], Iterator[Check]]]:
    """All checks, to be run one by one."""
    half = (torch.bfloat16, torch.float16)
    for model in ("8b", "135m"):
        for dtype in half:
            for queries in (1, 9, 16, 33, 64):
                yield lambda m=model, d=dtype, n=queries: paged(m, d, n)
            yield lambda m=model, d=dtype: recalled(m, d)
    yield select
    for law in ("t0.7 k50 p0.9", "greedy", "t1", "p0.9"):
        for dtype in (torch.float32, torch.bfloat16):
            yield lambda name=law, d=dtype: sample(name, d)
    for dtype in half:
        yield lambda d=dtype: fused(d)
