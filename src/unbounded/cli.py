"""The command line: fit, resume, summary, report, predict, shard, and the paper's experiments."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from unbounded import datasets, sources
from unbounded.arrays import is_sparse
from unbounded.chain.store import RunError, RunStore
from unbounded.disk import write_whole
from unbounded.engines.recovery import EngineError
from unbounded.models.members import MEMBERS
from unbounded.sources.files import absolute

app = typer.Typer(
    help="Exact, parallel MCMC for Bayesian nonparametric models.", no_args_is_help=True, add_completion=False
)
console = Console()
_COMMAND = "command.json"
_TOPICS_SHOWN = 30


def _plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors of input become one sentence on standard error and exit status 2."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, TypeError, OSError, RunError, EngineError) as error:
            print(f"error: {str(error).strip().splitlines()[0]}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            print(f"interrupted: {str(stop) or 'nothing was drawn yet'}", file=sys.stderr)
            raise typer.Exit(130) from None

    return wrapper


def _serves(engine: str) -> bool:
    """Under MPI every rank is given the command: the first one does what it says, the others help until it is done."""
    if engine != "mpi":
        return False
    from unbounded.engines import mpi

    return not mpi.join()


@app.command()
@_plainly
def fit(
    model: Annotated[str, typer.Argument(help=f"One of {', '.join(MEMBERS)}.")],
    data: Annotated[str, typer.Argument(help=".npy, .csv, .parquet, CSR .npz, or a folder or URL of pieces")],
    out: Annotated[Path, typer.Option(help="Run directory, made anew.")],
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="gaussian (default), bernoulli, ...; for features linear_gaussian (default), poisson_factors"
        ),
    ] = None,
    concentration: Annotated[float | None, typer.Option(help="Fix it; sampled by default.")] = None,
    discount: Annotated[float | None, typer.Option(help="Fix it (py); sampled by default.")] = None,
    mass: Annotated[float | None, typer.Option(help="Fix it (features); sampled by default.")] = None,
    failures: Annotated[float | None, typer.Option(help="r (beta-negative-binomial); 1 by default.")] = None,
    group_concentration: Annotated[float | None, typer.Option(help="Fix it (hdp); sampled by default.")] = None,
    form: Annotated[str | None, typer.Option(help="direct (default) or franchise (hdp).")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Words, one a line, in the order of the columns (hdp).")
    ] = None,
    groups: Annotated[
        Path | None, typer.Option(help="The group of each row, .npy or .csv of one column (hdp of rows).")
    ] = None,
    shards: Annotated[int, typer.Option(help="P, the number of shards.")] = 8,
    sweeps: Annotated[int, typer.Option(help="L, sweeps per round.")] = 1,
    warmup: int = 250,
    draws: int = 500,
    thin: int = 1,
    chains: int = 1,
    engine: str = "threads",
    workers: Annotated[int | None, typer.Option(help="Default: all cores.")] = None,
    sampler: Annotated[str, typer.Option(help="hybrid, or one that the paper compares with.")] = "hybrid",
    sampler_option: Annotated[list[str] | None, typer.Option(help="name=number, an option of the sampler.")] = None,
    instantiate: str = "ghosts",
    init: Annotated[
        str | None, typer.Option(help="kmeans++, of features and topics grown; one; prior; a number of topics.")
    ] = None,
    dtype: str = "float64",
    loss: Annotated[str | None, typer.Option(help="vi or binder (mixtures).")] = None,
    holdout: Annotated[float, typer.Option(help="Share of the rows (features: cells) held out for a score.")] = 0.0,
    shape: Annotated[str | None, typer.Option(help="Draw features as images of this size, such as 6x6.")] = None,
    keep_assignments: bool = False,
    seed: int = 0,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Fit a model and write draws, a summary, point estimates and pictures to a run directory."""
    if _serves(engine):
        return
    if RunStore(out).exists():
        raise RunError(f"{out} already holds a run; resume it or choose another directory.")
    settings: dict[str, Any] = {
        "n_shards": shards, "sweeps_per_round": sweeps, "n_warmup": warmup, "n_draws": draws, "thin": thin,
        "n_chains": chains, "engine": engine, "n_workers": workers, "instantiate": instantiate, "dtype": dtype,
        "sampler": sampler, "sampler_options": dict(map(_option, sampler_option or [])),
        "keep_assignments": keep_assignments, "random_state": seed,
    }  # fmt: skip
    wishes = {
        "likelihood": likelihood, "concentration": concentration, "discount": discount, "mass": mass,
        "failures": failures, "init": int(init) if init and init.isdecimal() else init, "loss": loss, "form": form,
        "group_concentration": group_concentration,
    }  # fmt: skip
    settings |= _applicable(model, {name: value for name, value in wishes.items() if value is not None})
    if shape is not None and not _has_features(MEMBERS[model]):
        raise ValueError(f"--shape belongs to features, not to {model}.")
    for name, path in (("vocabulary", vocabulary), ("groups", groups)):
        if path is not None and not _has_topics(MEMBERS[model]):
            raise ValueError(f"--{name} belongs to hdp, not to {model}.")
    command = {"model": model, "data": absolute(data), "holdout": holdout, "settings": settings, "shape": shape}
    command |= {"vocabulary": vocabulary and str(vocabulary.resolve()), "groups": groups and str(groups.resolve())}
    _image_shape(command)
    _run(out, command, quiet)


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        raise ValueError(f"--sampler-option must be name=number, got {text!r}.") from None


def _estimator(model: str) -> Any:
    if model not in MEMBERS:
        raise ValueError(f"model must be one of {', '.join(MEMBERS)}, got {model!r}.")
    return MEMBERS[model]


def _has_features(estimator: Any) -> bool:
    return hasattr(estimator, "inverse_transform")


def _has_topics(estimator: Any) -> bool:
    return hasattr(estimator, "top_words")


def _vocabulary(command: dict[str, Any], n_words: int | None = None) -> list[str] | None:
    """The words of --vocabulary, one a line; checked against the columns of the documents."""
    if not command.get("vocabulary"):
        return None
    words = Path(command["vocabulary"]).read_text().splitlines()
    if n_words is not None and len(words) != n_words:
        raise ValueError(f"--vocabulary has {len(words)} words, the documents have {n_words} columns.")
    return words


def _groups(path: Any, n_rows: int) -> Any:
    """The group of each row, from a file."""
    ids = np.load(path) if Path(path).suffix == ".npy" else np.asarray(datasets.load(path))
    ids = ids.ravel()
    if len(ids) != n_rows:
        raise ValueError(f"--groups has {len(ids)} ids for {n_rows} rows.")
    return ids


def _applicable(model: str, wishes: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, if the model has them."""
    own = _estimator(model).__dataclass_fields__
    for name in wishes:
        if name not in own:
            having = [other for other, member in MEMBERS.items() if name in member.__dataclass_fields__]
            raise ValueError(f"--{name} belongs to {', '.join(having)}, not to {model}.")
    return wishes


def _image_shape(command: dict[str, Any]) -> tuple[int, int] | None:
    text = command.get("shape")
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--shape must be two numbers such as 6x6, got {text!r}.")
    return int(parts[0]), int(parts[1])


@app.command()
@_plainly
def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    draws: Annotated[int | None, typer.Option(help="Extend the run to this many draws per chain.")] = None,
    engine: Annotated[str | None, typer.Option(help="Where to go on; any engine, with any number of workers.")] = None,
    workers: int | None = None,
    quiet: bool = False,
) -> None:
    """Go on with a run that was interrupted, or extend a finished one."""
    command = _command(run)
    if engine is not None:
        command["settings"] |= {"engine": engine, "n_workers": workers}
    if _serves(command["settings"]["engine"]):
        return
    if draws is not None:
        command["settings"]["n_draws"] = draws
    if workers is not None:
        command["settings"]["n_workers"] = workers
    _run(run, command, quiet)


@app.command()
@_plainly
def summary(run: Annotated[Path, typer.Argument(help="A run directory.")]) -> None:
    """Print the posterior summary of a run, with R-hat and effective sample sizes."""
    _command(run)
    path = run / "summary.txt"
    if not path.exists():
        raise RunError(f"{run} has no finished draws yet; resume it first.")
    print(path.read_text(), end="")


@app.command()
@_plainly
def report(
    run: Annotated[Path, typer.Argument(help="A run directory, finished or not.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the page; default report.html in the run.")] = None,
) -> None:
    """Write one HTML page about a run, with pictures and diagnostics, that opens anywhere."""
    from unbounded.report import page

    if not (run / _COMMAND).exists():  # an estimator's
        console.print(f"report written to {page.report(run, out)}")
        return
    command = _command(run)
    loss = command["settings"].get("loss", "vi")
    words = _words_at_hand(command)
    written = page.report(run, out, _rows_at_hand(command), words, _image_shape(command), loss)
    console.print(f"report written to {written}")


def _words_at_hand(command: dict[str, Any]) -> list[str] | None:
    try:
        return _vocabulary(command)
    except OSError:
        return None


def _rows_at_hand(command: dict[str, Any]) -> Any:
    """The rows of a mixture as its fit saw them; None where they are gone."""
    estimator = _estimator(command["model"])
    if _has_features(estimator) or _has_topics(estimator):
        return None
    try:
        return _split(_whole(command), command["holdout"], command["settings"]["random_state"])[0]
    except (OSError, ValueError, sources.SourceError):
        return None


def _whole(command: dict[str, Any]) -> Any:
    X = datasets.load(command["data"])
    return _in_memory(X, "--holdout") if command["holdout"] > 0 else X


@app.command()
@_plainly
def predict(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    data: Annotated[str, typer.Argument(help="New rows.")],
    out: Annotated[
        Path, typer.Option(help="A .csv with the log density of each row, and its cluster or its use of each feature.")
    ],
) -> None:
    """Cluster new rows or find their features, and score them. Reads the training data again, from where they were."""
    import pandas as pd

    command = _command(run)
    if not _finished(run, command["settings"]):
        raise RunError(f"{run} is not finished; resume it first.")
    command["settings"] |= {"engine": "threads", "n_workers": None}  # all draws are made
    estimator, _ = _fitted(run, command, quiet=True)
    X = datasets.load(data)
    if _has_topics(estimator):
        shares = estimator.transform(X)
        pd.DataFrame(shares, columns=[f"topic_{k}" for k in range(shares.shape[1])]).to_csv(out, index_label="group")
        console.print(f"{len(shares)} groups written to {out}")
        return
    if _has_features(estimator):
        table = {f"feature_{k}": use for k, use in enumerate(estimator.transform(X).T)}
    else:
        probabilities = estimator.predict_proba(X)
        table = {"cluster": probabilities.argmax(1), "probability": probabilities.max(1)}
    table["log_density"] = estimator.score_samples(X)
    pd.DataFrame(table).to_csv(out, index_label="row")
    console.print(f"{len(table['log_density'])} rows written to {out}")


@app.command()
@_plainly
def shard(
    data: Annotated[str, typer.Argument(help=".npy, .csv, .parquet, .zarr, CSR .npz, a folder, a glob or a URL.")],
    out: Annotated[Path, typer.Option(help="Folder for the pieces, new or empty.")],
    shards: Annotated[int, typer.Option(help="Number of pieces; best that of the fit.")] = 64,
    format: Annotated[str | None, typer.Option(help="npy (default) or npz (default of sparse rows).")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Store in single precision.")] = False,
) -> None:
    """Cut data into pieces that workers open on their own. Interrupted, the same command goes on."""
    pieces = sources.shard(sources.open(data), out, shards, format, float32)
    console.print(f"{pieces.n_rows} rows of {pieces.shape[1]} columns, {len(pieces.pieces)} pieces, written to {out}")


@app.command()
@_plainly
def paper(
    name: Annotated[str, typer.Argument(help="An experiment, such as exactness, or all (docs/paper.md).")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, a minute or less each.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the paper's data.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for figures, tables and verdicts.")] = Path("paper-run"),
    seed: int = 0,
) -> None:
    """Repeat an experiment of the paper: a figure, what is plotted, and whether the paper's claim held here."""
    experiments = _experiments()
    for each in experiments.NAMES if name == "all" else [name]:
        request = experiments.common.Request(out / each, quick, data, seed)
        try:
            print(experiments.common.perform(experiments.load(each), request), flush=True)
        except ValueError as error:
            if name != "all":
                raise
            print(f"{each}: not run: {error}\n", flush=True)


def _experiments() -> Any:
    """The folder of experiments, which is not installed: that of the current directory, or of this checkout."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (root / "experiments" / "common.py").exists():
            sys.path.insert(0, str(root))
            return importlib.import_module("experiments")
    raise ValueError("there is no folder experiments here: run this in a checkout of the repository.")


def _command(run: Path) -> dict[str, Any]:
    try:
        command: dict[str, Any] = json.loads((run / _COMMAND).read_text())
    except FileNotFoundError:
        raise RunError(f"{run} is not a run directory of `unbounded fit`.") from None
    except ValueError as error:
        raise RunError(f"{run / _COMMAND} is damaged: {error}.") from error
    if not isinstance(command, dict) or not {"model", "data", "holdout", "settings"} <= command.keys():
        raise RunError(f"{run / _COMMAND} is damaged: it is not a command.")
    return command


def _finished(run: Path, settings: dict[str, Any]) -> bool:
    chains = [RunStore(run).chain(index) for index in range(settings["n_chains"])]
    return all(len(chain.draws()) >= settings["n_draws"] for chain in chains)


def _fitted(run: Path, command: dict[str, Any], quiet: bool) -> tuple[Any, Any]:
    """The estimator, fitted or resumed, and its training rows."""
    estimator = _estimator(command["model"])(**command["settings"], checkpoint=run, progress=not quiet)
    if command.get("groups"):
        return _fitted_groups(estimator, datasets.load(command["data"]), command)
    X = _whole(command)
    _vocabulary(command, X.shape[1])
    split = _mask if _has_features(estimator) else _split
    train, kept_out = split(X, command["holdout"], command["settings"]["random_state"])
    shape = _image_shape(command)
    if shape is not None and shape[0] * shape[1] != X.shape[1]:
        raise ValueError(f"--shape {shape[0]}x{shape[1]} does not fit the {X.shape[1]} columns of {command['data']}.")
    return estimator.fit(train, holdout=kept_out), train


def _fitted_groups(estimator: Any, X: Any, command: dict[str, Any]) -> tuple[Any, Any]:
    """Rows in groups; whole groups are held out."""
    groups = _groups(command["groups"], X.shape[0])
    if isinstance(X, sources.Source) and command["holdout"] == 0 and (groups[:-1] <= groups[1:]).all():
        return estimator.fit(X, groups), X
    X = np.asarray(_in_memory(X, "--groups of rows that are not sorted, or --holdout,"), dtype=float)
    ids = np.unique(groups)
    _, out = _split(ids, command["holdout"], command["settings"]["random_state"])
    away = np.isin(groups, ids[:0] if out is None else out)
    held = (X[away], groups[away]) if away.any() else None
    return estimator.fit(X[~away], groups[~away], holdout=held), X[~away]


def _in_memory(X: Any, why: str) -> Any:
    """All rows; of one file, as of any other that is read as a whole, but not of pieces."""
    if isinstance(X, sources.Source) and len(X.pieces) > 1:
        raise ValueError(f"{why} would read all pieces into memory; in Python, fit(source, holdout=rows) does not.")
    return X[:] if isinstance(X, sources.Source) else X


def _run(run: Path, command: dict[str, Any], quiet: bool) -> None:
    path = run / _COMMAND
    before = path.read_text() if path.exists() else None
    try:
        run.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(json.dumps(command, indent=2).encode()))  # other ranks may be reading
    except OSError as error:
        raise RunError(f"cannot write to the run directory {run}: {error.strerror or error}.") from error
    try:
        estimator, X = _fitted(run, command, quiet)
    except (ValueError, TypeError):
        _put_back(path, before)
        raise
    _write_results(run, estimator, X, _image_shape(command), _vocabulary(command))
    print((run / "summary.txt").read_text(), end="")
    if estimator.interrupted_:
        console.print(f"Interrupted; this is what there is so far. Go on with: unbounded resume {run}")


def _put_back(path: Path, before: str | None) -> None:
    """A command that was refused leaves no trace."""
    if before is not None:
        write_whole(path, lambda file: file.write(before.encode()))
    elif not RunStore(path.parent).exists():
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def _split(X: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Rows to fit and rows to score."""
    n_out = int(_checked_share(share) * X.shape[0])
    if n_out == 0:
        return X, None
    order = np.random.default_rng(seed).permutation(X.shape[0])
    rows = getattr(X, "iloc", X)
    return rows[np.sort(order[n_out:])], rows[np.sort(order[:n_out])]


def _mask(X: Any, share: float, seed: int) -> tuple[Any, Any]:
    """All rows, and which of their cells to hide from the fit and to score."""
    if _checked_share(share) == 0:
        return X, None
    return X, np.random.default_rng(seed).random(X.shape) < share


def _checked_share(share: float) -> float:
    if not 0 <= share < 1:
        raise ValueError(f"--holdout must be in [0, 1), got {share}.")
    return share


def _write_results(
    run: Path, estimator: Any, X: Any, shape: tuple[int, int] | None, vocabulary: list[str] | None = None
) -> None:
    from unbounded.report import plots
    from unbounded.report.text import text

    scalars = estimator.posterior_.drop_vars("assignments", errors="ignore")
    scalars.to_dataframe().to_csv(run / "draws.csv")
    (run / "summary.txt").write_text(text(estimator))
    plots.traces(scalars).savefig(run / "traces.png", dpi=120)
    if _has_features(estimator):
        np.save(run / "components.npy", estimator.components_)
        np.save(run / "assignments.npy", estimator.assignments_)
        usage = estimator.assignments_.mean(0, dtype=float)
        plots.features(estimator.components_, shape, usage).savefig(run / "features.png", dpi=120)
        plots.assignments(estimator.assignments_).savefig(run / "z.png", dpi=120)
        return
    np.save(run / "labels.npy", estimator.labels_)
    if _has_topics(estimator):
        _write_topics(run, estimator, vocabulary)
        return
    if not is_sparse(X):
        plots.clusters(X, estimator.labels_).savefig(run / "clusters.png", dpi=120)


def _write_topics(run: Path, estimator: Any, vocabulary: list[str] | None) -> None:
    """Shares of the topics and, of documents, their words; the words go to the summary, too."""
    from unbounded.report import plots

    np.save(run / "proportions.npy", estimator.proportions_)
    names = None
    if hasattr(estimator, "components_"):
        np.save(run / "components.npy", estimator.components_)
        words = estimator.top_words(vocabulary)
        names = [" ".join(topic[:3]) for topic in words]
        shares = zip(estimator.topic_shares_, words, strict=True)
        lines = [f"{k:4d} {share:8.2%}  {' '.join(topic)}" for k, (share, topic) in enumerate(shares)]
        (run / "topics.txt").write_text("\n".join(lines) + "\n")
        with (run / "summary.txt").open("a") as summary:
            summary.write("\ntopics, with their shares of all words and their most probable words\n")
            summary.write("\n".join(lines[:_TOPICS_SHOWN]) + "\n")
    plots.topics(estimator.topic_history_, names).savefig(run / "topics.png", dpi=120)


if __name__ == "__main__":
    app()
