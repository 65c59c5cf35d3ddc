"""`glimpse serve`: the OpenAI-compatible server."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from glimpse.cli._session import session
from glimpse.cli.failures import DONE
from glimpse.cli.options import ModelOptions, OutputOptions, given, option
from glimpse.cli.progress import Bars
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.llm import LLM
    from glimpse.serve.settings import ServeSettings

_SERVER = "Server"
_KEY_VARIABLE = "GLIMPSE_API_KEY"


@dataclass(frozen=True, kw_only=True)
class ServedModelOptions(ModelOptions):
    """What `LLM` is opened with, and how many texts at once."""

    max_batch_size: Annotated[
        int | None, option(_SERVER, "Texts that are decoded at once. Default: 8.", "--max-batch-size")
    ] = None
    reserve: Annotated[
        str | None,
        option(_SERVER, "Cache promised to a text: full (its longest) or next (its next steps). Default: full.",
               "--reserve"),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How the server behaves; defaults are those of `ServeSettings`."""

    host: Annotated[str | None, option(_SERVER, "Address to listen at. Default: 127.0.0.1.", "--host")] = None
    port: Annotated[int | None, option(_SERVER, "Port; 0 takes a free one. Default: 8000.", "--port")] = None
    name: Annotated[
        str | None, option(_SERVER, "The model's name in the API. Default: that of the checkpoint.", "--name")
    ] = None
    api_keys: Annotated[
        list[str],
        option(_SERVER, f"A key that opens the API; may be repeated. Default: ${_KEY_VARIABLE}, else none needed.",
               "--api-key"),
    ] = field(default_factory=list)  # fmt: skip
    allow_origins: Annotated[
        list[str],
        option(_SERVER, "A web origin whose pages may call the API; may be repeated. Default: none.", "--allow-origin"),
    ] = field(default_factory=list)
    allow_hosts: Annotated[
        list[str],
        option(_SERVER, "A name besides localhost by which a server at 127.0.0.1 without keys may be called, as by a "
                        "proxy; may be repeated. Default: none.", "--allow-host"),
    ] = field(default_factory=list)  # fmt: skip
    max_waiting: Annotated[
        int | None, option(_SERVER, "Texts that may wait; others get a 429. Default: 64.", "--max-waiting")
    ] = None
    max_body: Annotated[int | None, option(_SERVER, "Bytes of a request. Default: 8388608.", "--max-body")] = None
    max_ways: Annotated[
        int | None, option(_SERVER, "Drafters and the like kept ready at once. Default: 3.", "--max-ways")
    ] = None
    request_seconds: Annotated[
        float | None, option(_SERVER, "Longest a request may take. Default: 600.", "--request-seconds")
    ] = None
    body_seconds: Annotated[
        float | None,
        option(_SERVER, "Longest a head or a body may take to arrive, or an answer to be read on. Default: 30.",
               "--body-seconds"),
    ] = None  # fmt: skip
    drain_seconds: Annotated[
        float | None, option(_SERVER, "How long requests may finish after SIGTERM. Default: 30.", "--drain-seconds")
    ] = None
    cold_start: Annotated[
        bool, option(_SERVER, "Leave to the first requests what else is made ready before them.", "--cold-start")
    ] = False
    allow_lossy: Annotated[
        bool, option(_SERVER, "Requests may ask for modes that change the text.", "--allow-lossy")
    ] = False


def serve(model: ServedModelOptions, server: ServerOptions, output: OutputOptions) -> int:
    """Serve the OpenAI API on this machine, with speculation one can see; a page to try it is at /."""
    from glimpse.serve import require

    if output.json:
        raise ArgumentError("--json: a server prints no result; leave it out")
    require()
    from glimpse.serve.code_cache import bound_code_caches

    bound_code_caches()
    settings = settings_of(model, server)
    logging.basicConfig(level=logging.WARNING if output.quiet else logging.INFO, format="%(asctime)s %(message)s")
    with Bars(quiet=output.quiet) as bars, session(model, bars) as llm:
        bars.clear()
        _serve(cast("LLM", llm), settings, quiet=output.quiet)
    return DONE


def settings_of(model: ModelOptions, server: ServerOptions) -> ServeSettings:
    """The settings that were asked for. Raises ArgumentError for one that is out of range."""
    from glimpse.serve.settings import ServeSettings

    keys = server.api_keys or list(filter(None, [os.environ.get(_KEY_VARIABLE)]))
    lists = {"api_keys": tuple(keys), "allow_origins": tuple(server.allow_origins),
             "allow_hosts": tuple(server.allow_hosts)}  # fmt: skip
    return ServeSettings(**({"name": Path(model.model).name or "model"} | given(server) | lists))


def _serve(llm: LLM, settings: ServeSettings, *, quiet: bool) -> None:
    from glimpse.serve.running import serve as run

    run(llm, settings, lambda address: None if quiet else typer.echo(f"glimpse: {settings.name} at {address}"))
