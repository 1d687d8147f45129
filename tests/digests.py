"""Digests of short chains of every model, likelihood, rule, sampler, engine and precision.

    python tests/digests.py [part of a name ...]            prints a line for each chain: name, digest
    python tests/digests.py --save FOLDER [part ...]        also leaves unfinished run directories there
    python tests/digests.py --resume FOLDER [part ...]      goes on with them and prints what they end as
    mpiexec -n 2 python -m unbounded.engines.mpi tests/digests.py mpi

Two commits that print the same lines on one machine sample the same chains, bit for bit; another CPU may round
otherwise, so the digests themselves are no test. Only public names are used: the script runs on any commit.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import unbounded as ub

N, NEW = 160, 12
PUBLISHED = ("cold", "warm", "decreasing", "hot")
SETTINGS = {
    "n_shards": 3,
    "n_chains": 1,
    "n_warmup": 8,
    "n_draws": 6,
    "n_snapshots": 4,
    "keep_assignments": True,
    "random_state": 3,
}
SAVED_DRAWS = 3


class Case(NamedTuple):
    name: str
    estimator: Any
    likelihood: Any
    X: Any
    options: Any = MappingProxyType({})
    groups: Any = None


def tables() -> dict[str, Any]:
    """Small data of every kind, with and without holes."""
    rng = np.random.default_rng(17)
    label = rng.integers(0, 3, N)
    centres = rng.normal(size=(3, 40)) * 4.0
    wide = centres[label] + rng.normal(size=(N, 40))
    shares = np.array([[0.9, 0.8, 0.2, 0.5], [0.1, 0.3, 0.9, 0.5], [0.5] * 4])[label]
    bits = (rng.random((N, 4)) < shares).astype(float)
    codes = ((label[:, None] + rng.integers(0, 2, (N, 2))) % 3).astype(float)
    words = rng.multinomial(12, np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.25] * 4])[label]).astype(float)
    counts = rng.poisson(np.array([[1.0, 6.0], [5.0, 1.0], [9.0, 9.0]])[label]).astype(float)
    loadings = rng.normal(size=(4, 6)) * 2.0
    sums = (rng.random((N, 4)) < 0.4) @ loadings + 0.3 * rng.normal(size=(N, 6))
    factors = rng.poisson((rng.random((N, 3)) < 0.4) @ rng.gamma(0.5, 8.0, (3, 6)) + 0.3).astype(float)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    documents = np.stack([rng.multinomial(25, rng.dirichlet(np.full(4, 0.3)) @ topics) for _ in range(40)])
    made = {
        "plane": wide[:, :2], "space": wide[:, :3], "wide": wide, "bits": bits, "codes": codes, "words": words,
        "counts": counts, "mixed": np.column_stack([wide[:, 0], bits[:, 0], wide[:, 1], codes[:, 0], counts[:, 0]]),
        "sums": sums, "factors": factors,
    }  # fmt: skip
    holes = {f"{name}-holes": np.where(rng.random(X.shape) < 0.08, np.nan, X) for name, X in made.items()}
    return made | holes | {
        "csr": sparse.csr_matrix(words), "documents": sparse.csr_matrix(documents),
        "groups": np.sort(rng.integers(0, 9, N)),
    }  # fmt: skip


def shards(sampler: str) -> dict[str, Any]:
    """The sampler, on one shard if its rows cannot be distributed."""
    one = sampler in ("collapsed", "algorithm8", "partially_collapsed")
    return {"sampler": sampler} | ({"n_shards": 1} if one else {})


def mixtures(data: dict[str, Any]) -> Iterator[Case]:
    product = ub.Product(("gaussian", [0, 2]), ("bernoulli", [1]), ("categorical", [3]), ("poisson", [4]))
    likelihoods = {
        "gaussian": "plane", "gaussian-3": "space", "gaussian-40": "wide", "diagonal_gaussian": "space",
        "bernoulli": "bits", "categorical": "codes", "multinomial": "words", "poisson": "counts",
    }  # fmt: skip
    rows = [(name, name.partition("-")[0], data[where]) for name, where in likelihoods.items()]
    rows += [(f"{name}-holes", name.partition("-")[0], data[f"{where}-holes"]) for name, where in likelihoods.items()]
    rows = [row for row in rows if row[0] not in ("multinomial-holes", "gaussian-40-holes")]
    rows += [("csr", "multinomial", data["csr"])]
    rows += [("product", product, data["mixed"]), ("product-holes", product, data["mixed-holes"])]
    for name, likelihood, X in rows:
        yield Case(f"dp {name}", ub.DirichletProcessMixture, likelihood, X)
        yield Case(f"py {name} one", ub.PitmanYorMixture, likelihood, X, {"init": "one", "sweeps_per_round": 2})
        yield Case(
            f"dp {name} float32", ub.DirichletProcessMixture, likelihood, X, {"dtype": "float32", "init": "prior"}
        )
    some = [row for row in rows if row[0] in ("gaussian", "gaussian-3-holes", "bernoulli", "csr", "product-holes")]
    rules = ["one_open", *(f"published-{schedule}" for schedule in PUBLISHED)]
    for name, likelihood, X in some:
        for rule in rules:
            options = {"instantiate": rule, "init": "one", "n_warmup": 12}
            yield Case(f"py {name} {rule}", ub.PitmanYorMixture, likelihood, X, options)
        for sampler in ("collapsed", "algorithm8", "asynchronous", "slice", "auxiliary"):
            if sampler != "auxiliary" or name not in ("gaussian-3-holes", "product-holes"):
                options = shards(sampler) | {"discount": 0.2}
                yield Case(f"py {name} {sampler}", ub.PitmanYorMixture, likelihood, X, options)
        for sampler in ("partially_collapsed", "subcluster", "uncollapsed"):
            yield Case(f"dp {name} {sampler}", ub.DirichletProcessMixture, likelihood, X, shards(sampler))
    repaired = shards("partially_collapsed") | {"sampler_options": {"repaired": True}}
    yield Case("dp repaired", ub.DirichletProcessMixture, "gaussian", data["plane"], repaired)
    yield Case("dp fixed", ub.DirichletProcessMixture, "gaussian", data["plane"], {"concentration": 0.7})
    yield Case("dp ghosts 5", ub.DirichletProcessMixture, "gaussian", data["plane"], {"instantiate": ub.Ghosts(5)})


def groups(data: dict[str, Any]) -> Iterator[Case]:
    hdp = ub.HierarchicalDirichletProcess
    rows = {"gaussian": "plane", "gaussian-holes": "plane-holes", "bernoulli": "bits", "multinomial": "csr"}
    cases: list[tuple[str, Any, Any, Any]] = [("words", None, data["documents"], None)]
    cases += [("words fixed", ub.Tokens(0.1), data["documents"], None)]
    cases += [(name, name.partition("-")[0], data[where], data["groups"]) for name, where in rows.items()]
    for name, likelihood, X, ids in cases:
        for form in ("direct", "franchise"):
            chosen = {"form": form}
            yield Case(f"hdp {name} {form}", hdp, likelihood, X, chosen, ids)
            yield Case(f"hdp {name} {form} 7", hdp, likelihood, X, chosen | {"init": 7, "dtype": "float32"}, ids)
            for rule in ("one_open", *(f"published-{schedule}" for schedule in PUBLISHED)):
                options = chosen | {"instantiate": rule, "init": 3, "n_warmup": 12}
                yield Case(f"hdp {name} {form} {rule}", hdp, likelihood, X, options, ids)
            yield Case(
                f"hdp {name} {form} collapsed", hdp, likelihood, X, chosen | shards("collapsed") | {"init": 3}, ids
            )
        asynchronous = {"sampler": "asynchronous", "init": 3}
        yield Case(f"hdp {name} asynchronous", hdp, likelihood, X, asynchronous, ids)


def features(data: dict[str, Any]) -> Iterator[Case]:
    measures = {
        "bb": ub.BetaBernoulliFeatures, "gp": ub.GammaPoissonFeatures, "bnb": ub.BetaNegativeBinomialFeatures,
    }  # fmt: skip
    rows = {"linear_gaussian": "sums", "poisson_factors": "factors"}
    for measure, estimator in measures.items():
        for likelihood, where in rows.items():
            for holes in ("", "-holes"):
                name, X = f"{measure} {likelihood}{holes}", data[where + holes]
                yield Case(name, estimator, likelihood, X)
                yield Case(f"{name} prior", estimator, likelihood, X, {"init": "prior", "sweeps_per_round": 2})
                yield Case(f"{name} float32", estimator, likelihood, X, {"init": "one", "dtype": "float32"})
                if not holes:
                    for rule in ("one_open", *(f"published-{schedule}" for schedule in PUBLISHED)):
                        options = {"instantiate": rule, "init": "one", "n_warmup": 12}
                        yield Case(f"{name} {rule}", estimator, likelihood, X, options)
                samplers = (
                    ("collapsed", "always_hot", "uncollapsed") if measure == "bb" else ("collapsed", "always_hot")
                )
                for sampler in samplers:
                    yield Case(f"{name} {sampler}", estimator, likelihood, X, {"init": "one"} | shards(sampler))
    intercept = ub.LinearGaussian(intercept=True)
    yield Case("bb intercept", ub.BetaBernoulliFeatures, intercept, data["sums"] + 3.0)
    yield Case("bb no jumps", ub.BetaBernoulliFeatures, "linear_gaussian", data["sums"], {"jumps": False})


def engines(data: dict[str, Any], names: tuple[str, ...]) -> Iterator[Case]:
    for engine in names:
        options = {"engine": engine, "n_workers": 2}
        yield Case(f"dp {engine}", ub.DirichletProcessMixture, "gaussian", data["plane-holes"], options)
        yield Case(f"hdp {engine}", ub.HierarchicalDirichletProcess, None, data["documents"], options)
        yield Case(f"bb {engine}", ub.BetaBernoulliFeatures, "linear_gaussian", data["sums-holes"], options)


def fitted(case: Case, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = case.estimator(case.likelihood, **SETTINGS | {"engine": "serial"} | dict(case.options) | options)
        return model.fit(case.X) if case.groups is None else model.fit(case.X, case.groups)


def said(case: Case, model: Any, predictions: bool = True) -> Iterator[Any]:
    """All that a fit says: traces and assignments of all draws and, where snapshots are alike, what it says of rows."""
    for name in sorted(map(str, model.posterior_.data_vars)):
        yield model.posterior_[name].values
    if not predictions:
        return
    for name in ("labels_", "assignments_", "components_", "topic_shares_", "proportions_"):
        if hasattr(model, name):
            yield getattr(model, name)
    rows = case.X[:NEW]
    given = (rows,) if case.groups is None else (rows, case.groups[:NEW])
    for name in ("score_samples", "predict_proba", "transform"):
        if hasattr(model, name):
            yield getattr(model, name)(*given)


def digest(values: Iterator[Any]) -> str:
    state = hashlib.blake2b(digest_size=8)
    for value in values:
        array = np.ascontiguousarray(value)
        state.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return state.hexdigest()


def run_of(folder: Path, case: Case) -> Path:
    return folder / case.name.replace(" ", "_")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of names; without any, all but Ray and MPI")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--resume", type=Path)
    chosen = parser.parse_args()
    data = tables()
    local = ("serial", "threads", "processes")
    cases = [*mixtures(data), *groups(data), *features(data), *engines(data, local)]
    far = [*engines(data, ("ray", "mpi"))]
    parts = chosen.parts
    wanted = [case for case in cases + far if any(part in case.name for part in parts)] if parts else cases
    began = time.process_time()
    for case in wanted:
        if chosen.save:
            fitted(case, n_draws=SAVED_DRAWS, checkpoint=run_of(chosen.save, case))
        if chosen.resume:
            try:
                again = fitted(case, checkpoint=run_of(chosen.resume, case))
                print(case.name, digest(said(case, again, predictions=False)), flush=True)
            except ub.RunError as refusal:  # chains that are not exact cannot be extended
                print(case.name, "refused:", "other n_draws" if "n_draws" in str(refusal) else refusal, flush=True)
            continue
        model = fitted(case)
        print(case.name, digest(said(case, model)), digest(said(case, model, predictions=False)), flush=True)
    print(f"{len(wanted)} chains, {time.process_time() - began:.0f} CPU seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
