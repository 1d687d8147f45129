"""What all experiments share: what is asked for, what was found, and the files that say so."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.engines.local import available_cores

Rows = list[dict[str, Any]]
ENOUGH = 2.0  # standard errors that a difference must have to count as one


@dataclass(frozen=True)
class Request:
    out: Path
    quick: bool = False
    data: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """A statement that can be wrong, and what was measured; held is None where the run cannot tell."""

    statement: str
    held: bool | None
    evidence: str

    def __str__(self) -> str:
        return f"{_WORDS[self.held]}: {self.statement} ({self.evidence})"


_WORDS = {True: "held", False: "did not hold", None: "undecided"}


@dataclass(frozen=True)
class Experiment:
    """claim: of the paper, or ours; quick and full: sizes that `run` takes."""

    name: str
    claim: str
    quick: Any
    full: Any
    run: Callable[[Any, Request], Sequence[Finding]]


def perform(experiment: Experiment, request: Request) -> str:
    """Run it, write its verdict beside its figures, and return the verdict in words."""
    request.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    findings = experiment.run(experiment.quick if request.quick else experiment.full, request)
    record = {
        "experiment": experiment.name, "claim": experiment.claim, "verdict": overall(findings),
        "findings": [asdict(finding) for finding in findings], "quick": request.quick, "seed": request.seed,
        "cores": available_cores(), "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    (request.out / "verdict.json").write_text(json.dumps(record, indent=2) + "\n")
    lines = [f"{experiment.name}: {record['verdict']}", f"claim: {experiment.claim}", *map(str, findings)]
    text = "\n".join(lines) + "\n"
    (request.out / "verdict.txt").write_text(text)
    return text


def overall(findings: Sequence[Finding]) -> str:
    decided = {finding.held for finding in findings} - {None}
    if not decided:
        return "undecided"
    if len(decided) == 2:
        return "held in part"
    where = " where decided" if None in {finding.held for finding in findings} else ""
    return _WORDS[decided.pop()] + where


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


def say(text: str) -> None:
    print(text, flush=True)
