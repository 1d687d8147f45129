"""The commands: fit, resume, summary, report, watch, predict, shard, and the paper's experiments."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console

from unbounded import datasets, engines, instantiation, sources
from unbounded.chain.results import SUMMARY
from unbounded.chain.several import AUTO, MAX_DRAWS
from unbounded.chain.store import RunError, write_to
from unbounded.cli import COMMAND, runs
from unbounded.engines.recovery import EngineError
from unbounded.family import Command
from unbounded.likelihoods import named_columns
from unbounded.models.families import FAMILIES, MODELS, family_named
from unbounded.report.phrases import plain
from unbounded.version import __version__

app = typer.Typer(
    help="Exact, parallel MCMC for Bayesian nonparametric models.", no_args_is_help=True, add_completion=False
)
console = Console(markup=False)  # brackets in file names are no markup


def _print_version(asked: bool) -> None:
    if asked:
        print(f"unbounded {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


_DATA = (
    ".csv, .parquet, .feather, .arrow, .npy, CSR .npz, .h5ad (X, or file.h5ad#X_pca), a folder or URL of pieces, or a "
    f"name: {', '.join(datasets.NAMES)}."
)
_LIKELIHOODS = "; ".join(
    f"for {family.atoms}: {', '.join(member.name for member in family.choices.likelihoods)}" for family in FAMILIES
)

_MIXED = "For columns of several kinds: 'gaussian: height, weight; categorical: colour'; all others are left out."


def _with_plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make errors of input one sentence on standard error, with exit status 2."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, TypeError, OSError, ImportError, RunError, EngineError) as error:
            print(f"error: {plain(_sentence(error))}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            print(f"interrupted: {str(stop) or 'nothing was done yet'}", file=sys.stderr)
            raise typer.Exit(130) from None

    return wrapper


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return str(error).strip().splitlines()[0]


def _with_options_of_families(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that only some models have; they reach the command as `others`."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [one for one in signature.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    parameters += [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=None,
            annotation=Annotated[option.kind | None, typer.Option(help=option.help)],
        )
        for name, option in (runs.SETTINGS | runs.EXTRA).items()
    ]  # fmt: skip
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


@app.command()
@_with_options_of_families
@_with_plain_errors
def fit(
    model: Annotated[str, typer.Argument(help=f"One of {', '.join(MODELS)}.")],
    data: Annotated[str, typer.Argument(help=_DATA)],
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
    likelihood: Annotated[str | None, typer.Option(help=f"By name, {_LIKELIHOODS}. {_MIXED}")] = None,
    shards: Annotated[
        int, typer.Option(help="P, the number of shards; part of the algorithm, not of the machine.")
    ] = 8,
    sweeps: Annotated[int, typer.Option(help="L, sweeps per round.")] = 1,
    warmup: Annotated[int, typer.Option(help="Rounds before the first draw.")] = 250,
    draws: Annotated[str, typer.Option(help="Per chain; auto: until the check of convergence passes.")] = "500",
    max_draws: Annotated[int, typer.Option(help="The most draws per chain that --draws auto makes.")] = MAX_DRAWS,
    thin: Annotated[int, typer.Option(help="Rounds per draw.")] = 1,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 2,
    engine: Annotated[str, typer.Option(help=f"Where shards run: {', '.join(engines.MEMBERS)}.")] = "threads",
    workers: Annotated[int | None, typer.Option(help="Number of workers; by default one for each core.")] = None,
    sampler: Annotated[str, typer.Option(help="hybrid, or one of docs/rivals.md, to compare with.")] = "hybrid",
    sampler_option: Annotated[list[str] | None, typer.Option(help="An option of the sampler, name=number.")] = None,
    instantiate: Annotated[
        str, typer.Option(help=f"Rule of instantiation: {', '.join(instantiation.MEMBERS)}.")
    ] = "ghosts",
    init: Annotated[
        str | None,
        typer.Option(
            help="Where chains begin: a name of docs/api.md, or names with commas between them, for chains in turn."
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float64, or float32 for the vectorised part.")] = "float64",
    device: Annotated[str, typer.Option(help="Where kernels run: cpu, or a GPU (docs/gpu.md).")] = "cpu",
    holdout: Annotated[float, typer.Option(help="Share of the data held out for a score.")] = 0.0,
    keep_assignments: Annotated[
        bool, typer.Option("--keep-assignments", help="Keep the labels of every draw.")
    ] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **others: Any,
) -> None:
    """Fit a model and write draws, a summary, point estimates and pictures to a run directory."""
    runs.check_unused(out)
    settings: dict[str, Any] = {
        "n_shards": shards, "sweeps_per_round": sweeps, "n_warmup": warmup, "n_draws": _draws(draws), "thin": thin,
        "n_chains": chains, "engine": engine, "n_workers": workers, "instantiate": instantiate, "dtype": dtype,
        "sampler": sampler, "sampler_options": dict(map(_option, sampler_option or [])),
        "keep_assignments": keep_assignments, "checkpoint_seconds": checkpoint_seconds, "random_state": seed,
    }  # fmt: skip
    settings |= {} if device == "cpu" else {"device": device}
    settings |= {"max_draws": max_draws} if settings["n_draws"] == AUTO else {}
    requested = {"likelihood": likelihood, "init": _starts(init)}
    settings |= runs.applicable(model, requested | {name: others[name] for name in runs.SETTINGS})
    extra = {name: _plain(others[name]) for name in runs.EXTRA}
    runs.check_extra(model, extra)
    _run(out, Command(model, datasets.located(data), holdout, settings, extra), quiet)


def _plain(value: str | Path | None) -> str | None:
    return str(value.resolve()) if isinstance(value, Path) else value


def _draws(text: str) -> int | str:
    if text != AUTO and not text.isdecimal():
        raise ValueError(f"--draws must be a whole number of at least 1 or {AUTO}, got {text!r}.")
    return text if text == AUTO else int(text)


def _starts(text: str | None) -> Any:
    """--init: a name or a number, or one for each chain in turn."""
    if text is None:
        return None
    each = [int(word) if word.removeprefix("-").isdecimal() else word for word in text.split(",")]
    return tuple(each) if len(each) > 1 else each[0]


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        raise ValueError(f"--sampler-option must be name=number, got {text!r}.") from None


@app.command()
@_with_plain_errors
def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    draws: Annotated[str | None, typer.Option(help="Extend the run to this many draws per chain, or auto.")] = None,
    engine: Annotated[str | None, typer.Option(help="Another engine to go on with.")] = None,
    workers: Annotated[int | None, typer.Option(help="Another number of workers.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Go on with a run that was interrupted, or extend a finished one."""
    command = runs.read(run)
    changes: dict[str, Any] = {} if engine is None else {"engine": engine, "n_workers": workers}
    if workers is not None:
        changes["n_workers"] = workers
    if draws is not None:
        changes["n_draws"] = _draws(draws)
    command = replace(command, settings={**command.settings, **changes})
    _run(run, command, quiet)


def _run(run: Path, command: Command, quiet: bool) -> None:
    try:
        estimator = runs.perform(run, command, quiet)
        print((run / SUMMARY).read_text(encoding="utf-8"), end="")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(runs.what_is_left(run)) from None
    if estimator.interrupted_:
        print(f"Interrupted; this is what there is so far. Go on with: {runs.way_on(run)}")
        raise typer.Exit(130)


@app.command()
@_with_plain_errors
def summary(run: Annotated[Path, typer.Argument(help="A run directory.")]) -> None:
    """Print the posterior summary of a run, with R-hat and effective sample sizes."""
    print(runs.summary(run), end="")


@app.command()
@_with_plain_errors
def report(
    run: Annotated[Path, typer.Argument(help="A run directory, finished or not.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; by default report.html in the run directory.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Follow a run that is not finished, like watch.")] = False,
) -> None:
    """Write one HTML page about a run, with pictures and diagnostics, that opens anywhere."""
    from unbounded.report import page

    if live:
        _serve(run, 0)
        return
    at_hand: dict[str, Any] = {}
    if (run / COMMAND).exists():  # else an estimator made the run
        command = runs.read(run)
        at_hand = family_named(command.model).at_hand(command)
    console.print(f"report written to {plain(page.report(run, out, at_hand=at_hand))}")


@app.command()
@_with_plain_errors
def watch(
    run: Annotated[Path, typer.Argument(help="A run directory; its fit may be running.")],
    port: Annotated[int, typer.Option(help="Port of this machine; 0 takes one that is free.")] = 0,
) -> None:
    """Serve a page that follows a run: traces, atoms, held-out score, R-hat so far, time left. Ctrl-C ends it."""
    _serve(run, port)


def _serve(run: Path, port: int) -> None:
    from unbounded.report import live

    with live.server(run, port) as server:
        print(f"watching {plain(run)} at {live.address(server)} (Ctrl-C ends the view, not the fit)", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@app.command()
@_with_plain_errors
def predict(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    data: Annotated[str, typer.Argument(help="New rows, in any form that fit takes.")],
    out: Annotated[Path, typer.Option(help="The .csv to write, with a line for each row or each group of rows.")],
) -> None:
    """Write which atoms new rows have, and their scores, to a table. The training data are read again."""
    command = runs.read(run)
    if not runs.finished(run, command):
        raise RunError(f"{run} is not finished; resume it first.")
    settings = {**command.settings, "engine": "threads", "n_workers": None}  # all draws are made
    with runs.said_plainly():
        estimator, _ = runs.fitted(run, replace(command, settings=settings), quiet=True)
    rows = datasets.load(data, named_columns(command.settings.get("likelihood")))
    table = family_named(command.model).predictions(estimator, rows)
    write_to(out, lambda file: table.to_csv(file, mode="wb"))
    console.print(f"{len(table)} {table.index.name}s written to {plain(out)}")


@app.command()
@_with_plain_errors
def shard(
    data: Annotated[str, typer.Argument(help=".npy, .csv, .parquet, .zarr, CSR .npz, a folder, a glob or a URL.")],
    out: Annotated[Path, typer.Option(help="The folder for the pieces; it must be new or empty.")],
    shards: Annotated[int, typer.Option(help="Number of pieces; best as many as the fit has shards.")] = 64,
    format: Annotated[str | None, typer.Option(help="npy, or npz for sparse rows; by default whichever fits.")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Store in single precision.")] = False,
) -> None:
    """Cut data into pieces that workers open on their own. If it is interrupted, the same command goes on."""
    pieces = sources.shard(sources.open(data), out, shards, format, float32)
    console.print(
        f"{pieces.n_rows} rows of {pieces.shape[1]} columns, {len(pieces.pieces)} pieces, written to {plain(out)}"
    )


@_with_plain_errors
def paper(
    name: Annotated[str, typer.Argument(help="An experiment, such as exactness, or all (docs/paper.md).")],
    size: Annotated[str, typer.Option(help="full (the paper's), small, or quick (a minute or less each).")] = "full",
    quick: Annotated[bool, typer.Option("--quick", help="The same as --size quick.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the paper's data.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for figures, tables and verdicts.")] = Path("paper-run"),
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Chains that run at once, each on one core.")] = 1,
) -> None:
    """Repeat an experiment of the paper: a figure, what is plotted, and whether the paper's claim held here."""
    experiments = _experiments()
    size = "quick" if quick else size
    for each in experiments.NAMES if name == "all" else [name]:
        request = experiments.common.Request(out / each / size, size, data, seed, jobs)
        try:
            print(experiments.common.perform(experiments.load(each), request), flush=True)
        except ValueError as error:
            if name != "all":
                raise
            print(f"{each}: not run: {error}\n", flush=True)


def _experiments() -> ModuleType:
    sys.path.insert(0, str(_checkout()))
    return importlib.import_module("experiments")


def _checkout() -> Path | None:
    """The folder that holds `experiments`, which is not installed: the current directory, or this checkout."""
    roots = (Path.cwd(), Path(__file__).resolve().parents[3])
    return next((root for root in roots if (root / "experiments" / "common.py").exists()), None)


if _checkout():  # an installed package has no experiments, and does not show the command
    app.command()(paper)
