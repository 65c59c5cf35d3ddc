"""The commands together, and what a call of them exits with."""

from __future__ import annotations

import typer

from glimpse.cli import bench, calibrate, compare, doctor, generate, models, plan, serve, streams, train
from glimpse.cli.commands import command
from glimpse.cli.failures import USAGE, complain, guarded
from glimpse.cli.options import ExplainOptions, ModelOptions, OutputOptions, PromptOptions, StreamOptions
from glimpse.cli.sampling_options import SamplingOptions

app = typer.Typer(
    name="glimpse",
    help="Decode long contexts faster from the checkpoint you already have: drafts from a glimpse, verified against "
    "the whole.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"glimpse {version('glimpse-llm')}")
        except PackageNotFoundError:
            typer.echo("glimpse (not installed: run from its source folder)")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    pass


_GENERATING = (ModelOptions, SamplingOptions, PromptOptions, StreamOptions, OutputOptions)
command(app, "generate", generate.generate, (*_GENERATING, ExplainOptions))
command(app, "compare", compare.compare, (*_GENERATING, compare.DemoOptions, ExplainOptions))
command(app, "plan", plan.plan, (plan.PlanOptions, OutputOptions))
command(app, "calibrate", calibrate.calibrate, (calibrate.CalibrateOptions, OutputOptions))
command(app, "serve", serve.serve, (serve.ServedModelOptions, serve.ServerOptions, OutputOptions))
app.add_typer(bench.bench, name="bench")
app.add_typer(train.train, name="train")
command(app, "models", models.models, (OutputOptions,))
command(app, "doctor", doctor.doctor, (OutputOptions,))


def run(argv: list[str]) -> int:
    """The exit code of `glimpse ARGV...`; errors are written to stderr, one line each."""
    return guarded(lambda: _dispatch(argv), debug=False)


def _dispatch(argv: list[str]) -> int:
    streams.prepare()
    try:
        code = typer.main.get_command(app).main(argv, prog_name="glimpse", standalone_mode=False)
    except Exception as error:
        # Usage errors of typer (and of the click below older releases of it) share this method and no public class.
        if not hasattr(error, "format_message"):
            raise
        complain(f"{error.format_message()} (glimpse --help lists what there is)")
        return USAGE
    return code if isinstance(code, int) else 0
