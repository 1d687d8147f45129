"""What all experiments share: what is asked for, what was found, and the files that say so.

A figure is drawn from the tables that a run has saved, and from nothing else: when the run ends, and again, from a
digest of them, whenever the site is built.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded.arrays import Array
from unbounded.engines.local import available_cores

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Rows = list[dict[str, Any]]
SIZES = ("quick", "small", "full")
ENOUGH = 2.0  # standard errors that a difference must have to count as one


@dataclass(frozen=True)
class Request:
    """jobs: how many chains run at once; each is one after another in itself, and times are CPU seconds."""

    out: Path
    size: str = "full"
    data: Path | None = None
    seed: int = 0
    jobs: int = 1

    @property
    def quick(self) -> bool:
        return self.size == "quick"


@dataclass(frozen=True)
class Run:
    """What a run has left behind: tables, and how it was made."""

    folder: Path
    size: str
    sizes: Any
    cores: int

    def table(self, name: str = "plotted") -> DataFrame:
        import pandas as pd

        return pd.read_csv(self.folder / f"{name}.csv")

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the data."""
        quick = ["quick run: small sizes"] if self.size == "quick" else []
        return quick + (list(self.table("notes")["note"]) if (self.folder / "notes.csv").exists() else [])


@dataclass(frozen=True)
class Finding:
    """A statement that can be wrong, and what was measured; held is None where the run cannot tell.

    claim: the key of what the paper says (claims.py), where the statement is a reading of that; else it is ours.
    """

    statement: str
    held: bool | None
    evidence: str
    claim: str | None = None

    def __str__(self) -> str:
        return f"{_WORDS[self.held]}: {self.statement} ({self.evidence})"


_WORDS = {True: "held", False: "did not hold", None: "undecided"}


@dataclass(frozen=True)
class Experiment:
    """about: what is done, in a sentence. `run` takes sizes: full ones are the paper's, small ones stand beside.
    `draw` makes the figures of a run, by name."""

    name: str
    about: str
    quick: Any
    small: Any
    full: Any
    run: Callable[[Any, Request], Sequence[Finding]]
    draw: Callable[[Run], dict[str, Figure]]

    def sizes(self, size: str) -> Any:
        if size not in SIZES:
            raise ValueError(f"the size must be one of {', '.join(SIZES)}, got {size!r}.")
        return getattr(self, size)


def perform(experiment: Experiment, request: Request) -> str:
    """Run it, draw its figures, write its verdict beside them, and return the verdict in words."""
    request.out.mkdir(parents=True, exist_ok=True)
    began, sizes = time.perf_counter(), experiment.sizes(request.size)
    findings = experiment.run(sizes, request)
    record = {
        "experiment": experiment.name, "about": experiment.about, "verdict": overall(findings),
        "findings": [asdict(finding) for finding in findings], "size": request.size, "sizes": repr(sizes),
        "seed": request.seed, "cores": available_cores(), "jobs": request.jobs, "commit": commit(),
        "data": request.data is not None, "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    (request.out / "verdict.json").write_text(json.dumps(record, indent=2) + "\n")
    lines = [f"{experiment.name}: {record['verdict']}", experiment.about, *map(str, findings)]
    text = "\n".join(lines) + "\n"
    (request.out / "verdict.txt").write_text(text)
    for name, whole in experiment.draw(Run(request.out, request.size, sizes, available_cores())).items():
        _save_figure(whole, request.out / name)
    return text


def _save_figure(whole: Figure, path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "unbounded"}):
        whole.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    whole.savefig(path.with_suffix(".png"), dpi=110)


def commit() -> str:
    """Of the code that runs: a short hash, with + where files have changed since; "" outside of a repository."""
    here = Path(__file__).parent
    words = [["git", "rev-parse", "--short=10", "HEAD"], ["git", "status", "--porcelain", "-uno", "../src", "."]]
    try:
        head, changed = (subprocess.run(w, cwd=here, capture_output=True, text=True, check=True).stdout for w in words)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.strip() + ("+" if changed.strip() else "")


def spread(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], jobs: int) -> list[Any]:
    """function(*task) for each of them, in their order; with several jobs, in as many processes."""
    tasks = list(tasks)
    if jobs <= 1 or len(tasks) <= 1:
        return [function(*task) for task in tasks]
    with ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn")) as pool:
        return [future.result() for future in [pool.submit(function, *task) for task in tasks]]


def overall(findings: Sequence[Finding]) -> str:
    decided = {finding.held for finding in findings} - {None}
    if not decided:
        return "undecided"
    if len(decided) == 2:
        return "held in part"
    where = " where decided" if None in {finding.held for finding in findings} else ""
    return _WORDS[decided.pop()] + where


def about(claim: str, finding: Finding) -> Finding:
    """The finding as a reading of what the paper says."""
    return replace(finding, claim=claim)


def more(statement: str, larger: Any, smaller: Any, unit: str = "") -> Finding:
    """Is one quantity larger than another one, by differences over seeds (pairs in the same order)?"""
    gaps = np.asarray(larger, float) - np.asarray(smaller, float)
    mean, error = float(gaps.mean()), standard_error(gaps)
    held = None if len(gaps) < 2 or abs(mean) <= ENOUGH * error else mean > 0
    held = False if len(gaps) > 1 and not gaps.any() else held  # the same to the last bit
    return Finding(statement, held, f"difference {mean:+.3g} ± {error:.2g}{unit and ' '}{unit} over {len(gaps)} pairs")


def no_worse(statement: str, this: Any, other: Any, margin: float, unit: str = "") -> Finding:
    """Is one quantity at least another one, less a margin, by differences over seeds?"""
    gaps = np.asarray(this, float) - np.asarray(other, float)
    mean, error = float(gaps.mean()), standard_error(gaps)
    held = True if mean - ENOUGH * error > -margin else False if mean + ENOUGH * error < -margin else None
    evidence = f"difference {mean:+.3g} ± {error:.2g}{unit and ' '}{unit}, margin {margin:g}, over {len(gaps)} pairs"
    return Finding(statement, held if len(gaps) > 1 else None, evidence)


def standard_error(values: Array) -> float:
    """Of the mean over the first axis; of one value it is not known."""
    values = np.asarray(values, float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf


def save_rows(rows: Rows, request: Request, name: str = "plotted") -> None:
    import pandas as pd

    pd.DataFrame(rows).to_csv(request.out / f"{name}.csv", index=False, float_format="%.7g")


def save_notes(notes: Sequence[str], request: Request) -> None:
    save_rows([{"note": note} for note in notes], request, "notes")


def say(text: str) -> None:
    print(text, flush=True)
