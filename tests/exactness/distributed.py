"""Enumeration on engines whose workers are elsewhere: one case of each shape of Z.

mpiexec -n 2 python -m unbounded.engines.mpi tests/exactness/distributed.py mpi
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import enumeration
import feature_problems
import feature_truth
import franchise_problems
import franchise_truth
import problems
from enumeration import Run, Verdict
from feature_truth import FeatureRun
from franchise_truth import GroupedRun

from unbounded.instantiation import Ghosts


def labels(engine: str) -> Verdict:
    return enumeration.check(problems.problem("bernoulli-holes", "py"), Run(Ghosts(5), 3, 2, engine))


def features(engine: str) -> Verdict:
    return feature_truth.check(feature_problems.problem("gaussian-3", "bb-2", 3), FeatureRun(Ghosts(), 2, 1, engine))


def tables(engine: str) -> Verdict:
    return franchise_truth.check(
        franchise_problems.problem("bernoulli", "fixed"), GroupedRun("franchise", Ghosts(1), 2, 1, engine)
    )


def words(engine: str) -> Verdict:
    return franchise_truth.check(
        franchise_problems.problem("words", "fixed"), GroupedRun("direct", Ghosts(2), 2, 1, engine)
    )


CASES: list[Callable[[str], Verdict]] = [labels, features, tables, words]


if __name__ == "__main__":
    wrong = []
    for case in CASES:
        verdict = case(sys.argv[1])
        print(f"{case.__name__}: {verdict}", flush=True)
        wrong += [case.__name__] if verdict.failures else []
    sys.exit(f"not the posterior: {', '.join(wrong)}" if wrong else 0)
