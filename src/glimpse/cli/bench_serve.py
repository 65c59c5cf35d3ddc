"""`glimpse bench serve`: load on any server that speaks the OpenAI API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glimpse.cli import jsonout
from glimpse.cli.bench_options import numbers, seconds_of
from glimpse.cli.failures import DONE, FAILED, complain
from glimpse.cli.options import OutputOptions, option
from glimpse.cli.parsing import real
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.bench.results import Result
    from glimpse.bench.serve.http import Address
    from glimpse.bench.serve.suite import Plan

_SERVER, _LOAD, _RUN = "Server", "Load", "Run"


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Which server, which requests, how many."""

    url: Annotated[str, option(_SERVER, "Its address. Default: http://127.0.0.1:8000.", "--url")] = (
        "http://127.0.0.1:8000"
    )
    model: Annotated[str | None, option(_SERVER, "Its model. Default: the first it names.", "--model", "-m")] = None
    api_key: Annotated[str | None, option(_SERVER, "Its key. Default: none.", "--api-key")] = None
    drafters: Annotated[
        str | None,
        option(_SERVER, "Drafters to ask a Glimpse server for, by commas, such as none,auto. Default: as it is set.",
               "--drafters"),
    ] = None  # fmt: skip
    rate: Annotated[str, option(_LOAD, "Requests a second, by commas. Default: 1.", "--rate")] = "1"
    seconds: Annotated[
        float | None, option(_LOAD, "How long requests are sent at each rate. Default: 60.", "--seconds")
    ] = None
    questions: Annotated[
        str | None, option(_LOAD, "A .jsonl file of questions instead of passages.", "--questions")
    ] = None
    text: Annotated[
        str | None, option(_LOAD, "A folder of .txt files. Default: what Python's help() shows.", "--text")
    ] = None
    characters: Annotated[int | None, option(_LOAD, "Characters of a passage. Default: 4000.", "--characters")] = None
    completion: Annotated[bool, option(_LOAD, "Ask for completions. Default: chats.", "--completion")] = False
    max_tokens: Annotated[int | None, option(_LOAD, "Most tokens of an answer. Default: 128.", "--max-tokens")] = None
    temperature: Annotated[float | None, option(_LOAD, "0 is greedy. Default: the server's.", "--temperature")] = None
    seed: Annotated[int | None, option(_LOAD, "Of the moments and of every answer. Default: 0.", "--seed")] = None
    slo_ttft: Annotated[
        float | None, option(_RUN, "Seconds to the first token that a good answer keeps. Default: 2.", "--slo-ttft")
    ] = None
    slo_tpot: Annotated[
        float | None, option(_RUN, "Seconds a token that a good answer keeps. Default: 0.1.", "--slo-tpot")
    ] = None
    out: Annotated[str, option(_RUN, "Folder of the result file. Default: bench-results.", "--out")] = "bench-results"
    commit: Annotated[str | None, option(_RUN, "The commit measured, where git is not there to ask.", "--commit")] = (
        None
    )


def serve(load: LoadOptions, output: OutputOptions) -> int:
    """Send requests at random moments to an OpenAI-compatible server: TTFT, TPOT, goodput within limits, acceptance."""
    import asyncio
    from pathlib import Path

    from glimpse.bench.report import shown
    from glimpse.bench.results import write_result
    from glimpse.bench.serve.http import Address
    from glimpse.bench.serve.load import model_of
    from glimpse.bench.serve.suite import measure_all

    with jsonout.kept_clean(output.json) as stdout:
        address = Address.of(load.url, load.api_key)
        plan_for = _checked(load)
        model = load.model or asyncio.run(model_of(address))
        plan = plan_for(address, model)
        result = _result(plan, measure_all(plan, (lambda line: None) if output.quiet else complain), load, model)
        path = write_result(result, Path(load.out))
        jsonout.emit(result.to_json(), stdout) if output.json else typer.echo(f"{shown(result)}\n{path}")
    return DONE if any(run["ok"] for run in result.runs) else FAILED


def _checked(load: LoadOptions) -> Any:
    """Every option checked before anything is sent; what makes the plan once the model is known."""
    from pathlib import Path

    from glimpse.bench.environment import known_commit, source_root
    from glimpse.bench.serve.prompts import bodies_of, passages, questions
    from glimpse.bench.serve.suite import Plan
    from glimpse.bench.serve.summary import Limits

    known_commit(source_root(), load.commit)
    rates = numbers("--rate", load.rate, real)
    if any(not rate > 0 for rate in rates):
        raise ArgumentError(f"--rate {load.rate!r}: give more than 0 requests a second")
    if load.questions is not None and (load.text is not None or load.characters is not None):
        raise ArgumentError("--questions gives the prompts: leave --text and --characters out")
    if load.characters is not None and load.characters < 1:
        raise ArgumentError(f"--characters {load.characters}: at least 1 is needed")
    folder = None if load.text is None else Path(load.text)
    prompts = questions(Path(load.questions)) if load.questions else passages(folder, load.characters or 4000)
    limits = Limits(*(seconds_of(name, value) or usual for name, value, usual in (
        ("--slo-ttft", load.slo_ttft, 2.0), ("--slo-tpot", load.slo_tpot, 0.1))))  # fmt: skip
    seconds = seconds_of("--seconds", load.seconds) or 60.0
    drafters = [name.strip() for name in load.drafters.split(",")] if load.drafters else [None]

    def plan_for(address: Address, model: str) -> Plan:
        options: dict[str, Any] = {"model": model, "max_tokens": load.max_tokens or 128, "seed": load.seed or 0}
        options |= {} if load.temperature is None else {"temperature": load.temperature}
        bodies = bodies_of(prompts, chat=not load.completion, options=options)
        path = "/v1/completions" if load.completion else "/v1/chat/completions"
        return Plan(address, path, bodies, rates, drafters, seconds, limits, load.seed or 0)

    return plan_for


def _result(plan: Plan, runs: list[dict[str, Any]], load: LoadOptions, model: str) -> Result:
    from glimpse.bench import environment
    from glimpse.bench.serve.suite import result_of

    commit, dirty = environment.known_commit(environment.source_root(), load.commit)
    settings = {"model": model, "max_tokens": load.max_tokens or 128, "temperature": load.temperature}
    return result_of(plan, runs, device=environment.device(), versions=environment.versions(), commit=commit,
                     dirty=dirty, settings=settings)  # fmt: skip
