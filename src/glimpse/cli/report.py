"""The small report below a text: how much of it was drafted, how fast it came, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from glimpse.outputs import GenerationOutput
    from glimpse.speculation import Speculation

_BAR = 24
_FILE_WIDTH = 200
"""Columns of what is no terminal."""
_NEUTRAL: Mapping[str, object] = {
    "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}  # fmt: skip
"""Values that change nothing."""
_TELLING = (
    "model", "dtype", "device", "threads", "drafter", "pacer", "acceptance", "lossy", "draft_tokens", "budget",
    "budget_floor", "context_length", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    "frequency_penalty", "presence_penalty", "seed",
)  # fmt: skip
"""Settings worth a word, in this order; `--json` has them all."""


def of_output(output: GenerationOutput, *, explain: bool = False) -> RenderableType:
    """The report of one text; `explain`: with what drafter auto chose."""
    lines: list[RenderableType] = [Text(ending(output)), Text(speed(output))]
    lines += drafts(output.speculation)
    if output.speculation.lossy is not None:
        lines.append(Text(straying(output), style="yellow"))
    if explain:
        lines += choices(output.speculation)
    if output.speculation.eager_steps:
        lines.append(Text(eagerly(output.speculation), style="yellow"))
    return Group(*lines, Text(telling(output.settings), style="dim"))


def ending(output: GenerationOutput) -> str:
    """How long the text is and why it ends."""
    why = output.finish_reason
    if output.stop_reason is not None:
        why += f" at {output.stop_reason!r}"
    return (
        f"{_count(output.usage.completion_tokens, 'token')} after a prompt of {output.usage.prompt_tokens:,} · "
        f"ended by {why}"
    )


def speed(output: GenerationOutput) -> str:
    """Prefill and decode, apart."""
    timing = output.timing
    rate = "too short to time" if timing.tokens_per_s is None else f"{timing.tokens_per_s:.1f} tokens/s"
    return f"prefill {timing.prefill_s:.2f} s · decode {timing.decode_s:.2f} s · {rate}"


def drafts(speculation: Speculation) -> list[RenderableType]:
    """Who drafted and what became of it; that nothing was drafted, where somebody might have."""
    if speculation.drafted:
        return [Text(drafting(speculation)), by_position(speculation.acceptance_by_position)]
    if speculation.drafter in ("", "none") or not speculation.plain_steps or speculation.trusted:
        return []
    return [Text(f"{_who(speculation)} · nothing was drafted: {_count(speculation.plain_steps, 'plain step')}")]


def drafting(speculation: Speculation) -> str:
    """Who drafted, and how much of it was accepted."""
    return (
        f"{_who(speculation)} · {speculation.accepted:,} of {_count(speculation.drafted, 'drafted token')} accepted in "
        f"{_count(speculation.rounds, 'round')}, {speculation.mean_accepted_length:.2f} tokens a round with the "
        f"target's own; {_count(speculation.plain_steps, 'plain step')}"
    )


def _who(speculation: Speculation) -> str:
    return f"drafter {speculation.drafter} · pacer {speculation.pacer} · acceptance {speculation.acceptance}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def straying(output: GenerationOutput) -> str:
    """That the text is not bound to be the model's own, how many tokens were let pass, and where none can stray."""
    speculation, read = output.speculation, output.settings.get("budget_floor")
    passed = speculation.relaxed + speculation.trusted
    how = "written without a verification" if speculation.trusted else "accepted by the relaxed rule alone"
    said = f"lossy {speculation.lossy}: the text may differ from the model's own; {passed:,} tokens were {how}"
    length = output.usage.prompt_tokens + output.usage.completion_tokens
    if not speculation.trusted or not isinstance(read, int) or length > read:
        return said
    return f"{said}, all by steps that read the whole context: up to {read:,} tokens nothing is lost, or gained"


def eagerly(speculation: Speculation) -> str:
    """How many steps did not run as graphs of the GPU, and why."""
    steps = sum(speculation.eager_steps.values())
    return f"{steps:,} steps ran without a CUDA graph, slower: {'; '.join(speculation.eager_steps)}"


def by_position(shares: Sequence[float]) -> Table:
    """A bar for each draft position: how many of the drafts that were at least that long had it accepted."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    table.add_column(justify="right")
    table.add_row("position", "accepted, of drafts that long", "", style="dim")
    for position, share in enumerate(shares, 1):
        table.add_row(str(position), Text("█" * round(share * _BAR), style="green"), f"{share:.0%}")
    return table


def choices(speculation: Speculation) -> list[RenderableType]:
    """Who drafted from which token on, and the speeds over plain decoding that were expected then."""
    if not speculation.choices:
        return [Text("nobody was chosen: the text ended before drafting could begin")]
    table = Table.grid(padding=(0, 1))  # the names of all candidates go into 80 columns
    names = list(speculation.choices[0].expected)
    for place in range(3 + len(names)):
        table.add_column(justify="left" if place == 1 else "right")
    table.add_row("token", "drafter", "plain", *names, style="dim")
    for choice in speculation.choices:
        speeds = [f"{choice.expected[name]:.2f}×" for name in names]
        table.add_row(f"{choice.position:,}", choice.drafter, f"{1e3 * choice.plain_s:.1f} ms", *speeds)
    notes = dict.fromkeys(choice.note for choice in speculation.choices if choice.note)
    said = Text("chosen from a token on, with the speeds over plain decoding expected then:")
    return [said, table, *map(Text, notes)]


def telling(settings: Mapping[str, Any]) -> str:
    """The settings that matter for this text, on one line."""
    given = [name for name in _TELLING if settings.get(name) not in (None, _NEUTRAL.get(name))]
    return " · ".join(f"{name} {settings[name]}{_why(name, settings[name])}" for name in given)


def _why(name: str, value: object) -> str:
    """Why there, of the device that nobody would choose."""
    from glimpse.engine.place import has_gpu  # torch is loaded by now

    return " (no NVIDIA GPU here)" if name == "device" and value == "cpu" and not has_gpu() else ""


def show(*parts: RenderableType, stderr: bool = False) -> None:
    """Print parts of a report, one below the other."""
    console = Console(stderr=stderr, highlight=False, emoji=False)
    # On a terminal lines break between words; elsewhere a line stays a line, and tables have room.
    console.soft_wrap = not console.is_terminal
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    for part in parts:
        console.print(part, markup=False)
