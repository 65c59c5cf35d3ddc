"""`glimpse plan`: is drafting worth it for this checkpoint, context, batch and device? Nothing is run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from glimpse.cli import jsonout, report
from glimpse.cli.failures import DONE
from glimpse.cli.options import OutputOptions, option
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from glimpse.planning import Advice, Device, Plan, Setting

_PANEL = "What is asked about"
_ACCEPTANCES = ("0.8", "0.9", "0.94:0.86")


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The setting. Shared by nothing: a plan needs no model that can run."""

    model: Annotated[
        str, option(_PANEL, "demo, a folder with a config.json, or a GGUF file. Default: demo.", "--model", "-m")
    ] = "demo"
    context: Annotated[
        int | None,
        option(_PANEL, "Tokens in the cache of every row. Default: what the checkpoint allows.", "--context"),
    ] = None
    batch: Annotated[int | None, option(_PANEL, "Requests that decode together. Default: 1.", "--batch")] = None
    device: Annotated[
        str | None,
        option(
            _PANEL,
            "Required: a known device (h200, a100, rtx-4090, ...; ? lists them), or the file that glimpse calibrate "
            "writes on the device itself, and names last.",
            "--device",
        ),
    ] = None
    acceptance: Annotated[
        list[str],
        option(
            _PANEL,
            f"Chance that a draft token is accepted: 0.9, or 0.94:0.86 (falling with depth); may be repeated. Default: "
            f"{', '.join(_ACCEPTANCES)}.",
            "--acceptance",
        ),
    ] = field(default_factory=list)
    budget: Annotated[
        float | None, option(_PANEL, "Share of the context a sparse draft reads. Default: 0.1.", "--budget")
    ] = None
    dtype: Annotated[
        str | None, option(_PANEL, "auto, float32, bfloat16 or float16. Default: what the device uses.", "--dtype")
    ] = None


def plan(options: PlanOptions, output: OutputOptions) -> int:
    """Predict what drafting is worth, before anything runs: draft cost, best length, speedup, memory."""
    with jsonout.kept_clean(output.json) as stdout:
        from glimpse.planning import DEVICES, advise, make_plan, parse_acceptance

        if options.device == "?":
            _list(DEVICES, output, stdout)
            return DONE
        acceptances = [parse_acceptance(text) for text in options.acceptance or _ACCEPTANCES]
        found = make_plan(_setting(options), acceptances)
        advice = advise(found)
        if output.json:
            jsonout.emit(_as_json(options.model, found, advice), stdout)
        else:
            report.show(*_lines(options.model, found, advice))
    return DONE


def _list(devices: Mapping[str, Device], output: OutputOptions, stdout: TextIO) -> None:
    """The devices that are known, and where their figures come from."""
    if output.json:
        jsonout.emit({"devices": {name: device.source for name, device in devices.items()}}, stdout)
        return
    table = Table.grid(padding=(0, 2))
    for name, device in devices.items():
        table.add_row(name, Text(device.source, style="dim"))
    report.show(table, "any other: run glimpse calibrate there, and give the file that it names")


def _setting(options: PlanOptions) -> Setting:
    from glimpse.cache.recall import RecallBudget
    from glimpse.planning import DEVICES, Setting, find_device, read_spec

    if options.device is None:
        raise ArgumentError(
            f"--device is missing: one of {', '.join(DEVICES)}, or the file that glimpse calibrate wrote"
        )
    device = find_device(options.device)
    spec = read_spec(options.model)
    return Setting(
        spec=spec,
        dtype=_dtype(options.dtype or "auto", device.dtype),
        context=spec.context_length if options.context is None else options.context,
        batch=1 if options.batch is None else options.batch,
        device=device,
        budget=RecallBudget() if options.budget is None else RecallBudget(share=options.budget),
    )


def _dtype(name: str, usual: str) -> torch.dtype:
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    known["auto"] = known[usual]
    if name not in known:
        raise ArgumentError(f"unknown dtype {name!r}; known: auto, float32, bfloat16, float16")
    return known[name]


def _lines(model: str, plan: Plan, advice: Advice) -> list[RenderableType]:
    from glimpse.planning import lossy_plan

    setting = plan.setting
    dtype = str(setting.dtype).removeprefix("torch.")
    lines: list[RenderableType] = [
        f"{model} ({setting.spec.parameters() / 1e6:,.0f}M weights, {dtype}), {setting.batch:,} x "
        f"{setting.context:,} tokens on {setting.device.name}",
        Text(setting.device.source, style="dim"),
    ]
    if setting.context > setting.spec.context_length:
        limit = setting.spec.context_length
        lines.append(f"note: the checkpoint itself allows {limit:,} tokens of context")
    measured = setting.device.measured
    if measured is not None and not plan.measured:
        whose = f"{measured.model} in {measured.dtype}"
        lines.append(f"note: that calibration is of {whose}; its bandwidth and rate are taken, its prices are not")
    said = lossy_plan(plan).said
    before = [Text(f"first: {advice.before}", style="yellow")] if advice.before else []
    return [*lines, _costs(plan), _speedups(plan), *before, f"use: --drafter {advice.drafter}", advice.why, said]


def _costs(plan: Plan) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    memory, rows = plan.memory, plan.setting.batch
    kind = f"a plain step{_source(plan)}"
    begin = "" if plan.begin else " (not counted without a calibration of this model)"
    even = "never" if plan.break_even is None else f"{plan.break_even:.3f}"
    for what, value, meaning in (
        ("W", _bytes(plan.weights), "weights a step reads"),
        ("K", _bytes(plan.cache), "cache a plain step reads"),
        ("r", f"{plan.r:.2f}", "K / W"),
        ("rho", f"{plan.share:.1%}", "share of the cache a sparse draft step reads"),
        ("c", f"{plan.c:.3f}", f"cost of a sparse draft step, in plain steps ({plan.c_bytes:.3f} by bytes alone)"),
        ("begin", f"{plan.begin:.3f}", "cost of importance and recall sets, once a round" + begin),
        ("v(8)", f"{plan.verify_8:.3f}", "cost of verifying 8 drafts, in plain steps"),
        ("plain", f"{plan.plain_seconds * 1e3:.2f} ms", f"{kind}: {rows / plan.plain_seconds:,.0f} tokens/s"),
        ("break-even", even, "acceptance from which sparse drafts pay"),
        ("memory", _bytes(memory.weights + memory.cache), _fitting(plan)),
    ):  # fmt: skip
        table.add_row(what, value, meaning)
    return table


def _source(plan: Plan) -> str:
    if plan.measured:
        return ", as measured"
    return ", by the device table" if plan.setting.device.overheads.coefficients.any() else " at least: its floor"


def _fitting(plan: Plan) -> str:
    memory, setting = plan.memory, plan.setting
    if memory.fits is None:
        return "weights and cache; the device's memory is not known"
    verdict = "fits" if memory.fits else f"does NOT fit into {_bytes(setting.device.memory)}"
    return (
        f"weights and cache; {verdict}: at most {memory.largest_batch:,} x {setting.context:,} tokens, or "
        f"{setting.batch:,} x {memory.longest_context:,}"
    )


def _speedups(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for name in ("acceptance", "sparse: best length", "tokens a round", "speedup", "lookup (c = 0): best", "speedup"):
        table.add_column(name, justify="right")
    for acceptance, best in plan.best:
        lookup = plan.lookup(acceptance)
        table.add_row(
            str(acceptance),
            str(best.drafted) if best.drafted else "do not draft",
            f"{best.tokens:.2f}",
            f"{best.speedup:.2f}x",
            str(lookup.drafted) if lookup.drafted else "do not draft",
            f"{lookup.speedup:.2f}x",
        )
    return table


def _bytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _as_json(model: str, plan: Plan, advice: Advice) -> dict[str, Any]:
    from glimpse.planning import lossy_plan

    setting = plan.setting
    return {
        "model": model,
        "context": setting.context,
        "context_limit": setting.spec.context_length,
        "batch": setting.batch,
        "dtype": str(setting.dtype).removeprefix("torch."),
        "device": asdict(replace(setting.device, measured=None)),
        "measured": plan.measured,
        "budget": asdict(setting.budget),
        "weight_bytes": plan.weights,
        "cache_bytes": plan.cache,
        "r": plan.r,
        "rho": plan.share,
        "c": plan.c,
        "c_bytes": plan.c_bytes,
        "begin": plan.begin,
        "plain_seconds": plan.plain_seconds,
        "verify_cost": {str(drafted): plan.verify(drafted) for drafted in (1, 2, 4, 8, 16)},
        "break_even_acceptance": plan.break_even,
        "sparse": [{"acceptance": str(acceptance), **asdict(best)} for acceptance, best in plan.best],
        "lookup": [{"acceptance": str(acceptance), **asdict(plan.lookup(acceptance))} for acceptance, _ in plan.best],
        "memory": asdict(plan.memory),
        "advice": asdict(advice),
        "lossy": asdict(lossy_plan(plan)),
    }
