"""Run directories of the command line: the command, the fit that it asks for, and the results that are written."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from unbounded.chain.convergence import ConvergenceWarning
from unbounded.chain.lock import only_writer
from unbounded.chain.outlets import announce_if_slow
from unbounded.chain.results import SUMMARY, check_results, record, warnings_of
from unbounded.chain.run import Chain
from unbounded.chain.several import MAX_DRAWS, complete
from unbounded.chain.store import RESTORE, SHARD_FOLDERS, RunError, RunStore, read_file, write_file
from unbounded.cli import COMMAND
from unbounded.disk import CHECKSUM, is_as_written, parsed, with_checksum, write_whole
from unbounded.estimator import ChainEstimator
from unbounded.family import Command, Results, Training
from unbounded.models.families import FAMILIES, MODELS, family_named
from unbounded.report.phrases import plain
from unbounded.report.view import check_files

SETTINGS = {name: option for family in FAMILIES for name, option in family.settings.items()}
EXTRA = {name: option for family in FAMILIES for name, option in family.options.items()}
_LEAST = {"random_state": int, "n_chains": int, "n_draws": int | str}  # settings that every command has


def check_extra(model: str, extra: Mapping[str, str | None]) -> None:
    """Refuse options that belong to another family."""
    for name, value in extra.items():
        if value is not None and name not in family_named(model).options:
            owner = next(family for family in FAMILIES if name in family.options)
            owner_name = next(iter(owner.estimators)) if len(owner.estimators) == 1 else owner.atoms
            raise ValueError(f"--{name} belongs to {owner_name}, not to {model}.")


def applicable(model: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the estimator that were given; an error where the model does not have one of them."""
    family_named(model)
    given = {name: value for name, value in requested.items() if value is not None}
    for name in given:
        having = [other for other, family in MODELS.items() if name in _fields(family.estimators[other])]
        if model not in having:
            raise ValueError(f"--{name} belongs to {', '.join(having)}, not to {model}.")
    return given


def _fields(estimator: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = estimator.__dataclass_fields__
    return fields


def read(run: Path) -> Command:
    """The command of a run directory."""
    if not (run / COMMAND).exists():
        raise RunError(f"{run} is not a run directory of `unbounded fit`.")
    try:
        content = parsed(read_file(run / COMMAND))
    except ValueError as error:
        raise RunError(f"{run / COMMAND} is damaged: {error}; {RESTORE}.") from error
    _check(run / COMMAND, content)
    extra = {name: content.get(name) for name in EXTRA}
    settings = dict(content["settings"])
    if "init" not in settings and RunStore(run).exists():  # of a run whose model had another default
        saved = RunStore(run).config().get("init")
        settings |= {"init": saved} if isinstance(saved, str | list) else {}
    if isinstance(settings.get("init"), list):
        settings["init"] = tuple(settings["init"])
    return Command(content["model"], content["data"], content["holdout"], settings, extra)


def _check(path: Path, content: Any) -> None:
    """Refuse a file that is not a command or was edited; older versions wrote no checksum."""
    # mutant: own command
    if isinstance(content, dict) and not is_as_written(content):
        raise RunError(
            f"{path} is damaged: it was changed; restore it from a backup or, if you meant to change it, remove its "
            f'entry "{CHECKSUM}".'
        )
    kinds = {"model": str, "data": str, "holdout": int | float, "settings": dict} | dict.fromkeys(EXTRA, str | None)
    whole = isinstance(content, dict) and all(isinstance(content.get(name), kind) for name, kind in kinds.items())
    if not whole or not all(isinstance(content["settings"].get(name), kind) for name, kind in _LEAST.items()):
        raise RunError(f"{path} is damaged: it is not a command; {RESTORE}.")
    if unknown := content["settings"].keys() - _fields(family_named(content["model"]).estimators[content["model"]]):
        raise RunError(
            f"{path} has settings that {content['model']} does not know, {', '.join(sorted(unknown))}; go on with the "
            "version of unbounded that wrote it."
        )


def _plain(command: Command) -> dict[str, Any]:
    return with_checksum({
        "model": command.model, "data": command.data, "holdout": command.holdout, "settings": command.settings,
        **command.extra,
    })  # fmt: skip


def finished(run: Path, command: Command) -> bool:
    stores = [RunStore(run).chain(index) for index in range(command.settings["n_chains"])]
    chains = [Chain(True, chain.draws(chain.count())) for chain in stores]
    return complete(chains, command.settings["n_draws"], command.settings.get("max_draws", MAX_DRAWS))


def fitted(run: Path, command: Command, quiet: bool) -> tuple[ChainEstimator, Training]:
    """The estimator, fitted or resumed, and what it was fitted to."""
    family = family_named(command.model)
    estimator = family.estimators[command.model](**command.settings, checkpoint=run, progress=not quiet)
    with announce_if_slow(f"reading {plain(command.data)}", not quiet):
        training = family.training(command)
    return estimator.fit(training.rows, *training.arguments, holdout=training.holdout), training


@contextmanager
def said_plainly() -> Iterator[list[str]]:
    """Print warnings as sentences of the command, not as Python does, and collect them."""
    said: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        sentence = plain(message)
        if sentence not in said:
            said.append(sentence)
            print(f"warning: {sentence}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary has the message
        warnings.filterwarnings("ignore", "resource_tracker: process died")  # Python has started its helper again
        warnings.showwarning = show
        yield said


def check_unused(run: Path) -> None:
    """Refuse a directory that holds a run, or is being written."""
    if RunStore(run).exists():
        with only_writer(run):
            raise RunError(f"{run} already holds a run; resume it or choose another directory.")


def way_on(run: Path) -> str:
    """The command that goes on with a run, to be copied."""
    return f"unbounded resume {shlex.quote(plain(run))}"


def what_is_left(run: Path) -> str:
    """For somebody who has interrupted a fit."""
    if not RunStore(run).exists():
        return "nothing was drawn yet"
    so_far = "nothing was drawn yet"
    if any(path.stat().st_size for path in run.glob("chain-*/trace.jsonl")):
        so_far = "the draws so far were not saved and will be made again"
    with suppress(RunError):  # whatever is wrong is said when it is resumed
        so_far = "the draws up to the last checkpoint are kept" if RunStore(run).n_draws() else so_far
    return f"{so_far}; go on with: {way_on(run)}"


def summary(run: Path) -> str:
    """The summary of a run whose files are what was written."""
    read(run)
    check_files(run)
    store = RunStore(run)
    check_results(store)
    path = run / SUMMARY
    if not path.exists():
        why = "the results were not written, or it was deleted" if store.n_draws() else "there are no draws yet"
        raise RunError(f"{path} is missing: {why}; go on with: {way_on(run)}.")
    return read_file(path).decode()


def perform(run: Path, command: Command, quiet: bool) -> ChainEstimator:
    """Fit or resume, and write all results; a command that is refused leaves no trace."""
    with only_writer(run):
        return _perform(run, command, quiet)


def _perform(run: Path, command: Command, quiet: bool) -> ChainEstimator:
    path, config = run / COMMAND, run / "run.json"
    before = _content(path), _content(config)
    try:
        run.mkdir(parents=True, exist_ok=True)
        content = json.dumps(_plain(command), indent=2).encode()
        write_whole(path, lambda file: file.write(content))  # other ranks may be reading
    except OSError as error:
        raise RunError(f"cannot write to the run directory {run}: {error.strerror or error}.") from error
    try:
        with said_plainly() as warned:
            estimator, training = fitted(run, command, quiet)
    except BaseException:
        if before[1] == _content(config):  # the command was refused before it changed the run
            _restore(path, before[0])
        raise
    with announce_if_slow(f"writing to {plain(run)}", not quiet):
        _write_results(run, estimator, command, training, list(dict.fromkeys([*warnings_of(run), *warned])))
    return estimator


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, before: bytes | None) -> None:
    if before is None:
        path.unlink()
    else:
        write_whole(path, lambda file: file.write(before))


def _write_results(
    run: Path, estimator: ChainEstimator, command: Command, training: Training, warned: list[str]
) -> None:
    from unbounded.report import plots
    from unbounded.report.text import text

    scalars = estimator.posterior_.drop_vars("assignments", errors="ignore")
    found = Results({})
    if estimator._has_estimate:
        found = family_named(command.model).results(estimator, training, command)
    files = {
        "draws.csv": scalars.to_dataframe().to_csv(), "traces.png": plots.traces(scalars), **found.files,
        SUMMARY: text(estimator, warned) + found.summary,
    }  # fmt: skip
    for name, content in files.items():
        write_file(run / name, partial(_write_result, content))  # mutant: results
    shards = [f"{folder}/{path.name}" for folder in SHARD_FOLDERS for path in sorted((run / folder).glob("shard*"))]
    record(run, [*files, *shards], warned)


def _write_result(content: Any, file: IO[bytes]) -> None:
    if isinstance(content, str):
        file.write(content.encode())
    elif isinstance(content, np.ndarray):
        np.save(file, content, allow_pickle=False)
    else:
        content.savefig(file, dpi=120, format="png")
