"""Do chains from different starts agree, how soon, and how good are they beside a peer (make bench-mixing)?

    python benchmarks/mixing.py agree [--cpu 100] [-j 16] [--samplers jumps,none,slice] [--data "10,000 x 8"]
        rank R-hat and effective sample size per CPU second, over chains from {one, k-means 50, prior, default}
    python benchmarks/mixing.py quality [--only cifar] [--soon] [-j 5]
        held-out log density and CPU seconds of a default fit, beside scikit-learn's BayesianGaussianMixture with 50
        components; and the CPU seconds, start included, after which a single draw of ours is better than its fit, for
        both starts that a default fit has. --soon: this and scikit-learn's fit alone

`agree`: the first half of every chain is left out; the others are cut to the length of the shortest. Effective sample
sizes of chains that do not agree (R-hat above 1.05) are those of a chain that has not travelled, and say little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import BayesianGaussianMixture

import unbounded as ub
from travel import clusters, score
from unbounded.chain.diagnostics import diagnose
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Gaussian
from unbounded.models.mixtures import start
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.round import rounds
from unbounded.setup import Setup

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
AGREE = {"10,000 x 2, overlapping": (10_000, 2, 20), "10,000 x 8": (10_000, 8, 20)}
STARTS = ("one", "kmeans", "prior", "default")
HELD_OUT, MOST_ROUNDS = 1_000, 400
SAMPLER = {"jumps": ("hybrid", {}), "none": ("hybrid", {"jumps": None})} | {
    name: (name, {}) for name in ("slice", "auxiliary", "subcluster", "collapsed")
}


# ---- agreement


class Chain(NamedTuple):
    sampler: str
    data: str
    start: str


class Trace(NamedTuple):
    scalars: dict[str, np.ndarray]
    seconds: float


def run(chain: Chain, cpu: float) -> Trace:
    n, d, k = AGREE[chain.data]
    X, _ = clusters(n + HELD_OUT, d, k, 1)
    X, new = X[:n], X[n:]
    name, options = SAMPLER[chain.sampler]
    shards = 1 if name == "collapsed" else 4
    setup = Setup(DirichletProcess(), Gaussian().bind(describe(X)), n, shards, STARTS.index(chain.start))
    model = DIRICHLET[name].build(setup, **options)
    engine = build("serial", model.recipe(X))
    init: Any = {"default": "grown"}.get(chain.start, chain.start)
    if chain.start == "kmeans":
        init = KMeans(50, n_init=1, random_state=0).fit_predict(X).astype(int)
    state = start.begin(model, engine, X, init)
    turns = rounds(model, engine, state)
    next(turns)  # compiles
    began, found = time.process_time(), []
    while time.process_time() - began < cpu:
        state = next(turns)
        counts = state.table.counts[state.occupied].astype(float)
        shares = counts / n
        entropy = -(shares * np.log(shares)).sum()
        found.append((len(counts), (shares > 0.001).sum(), entropy, score(model, state, new)))
    engine.close()
    names = ("clusters", "above 0.1%", "entropy", "held-out")
    return Trace(dict(zip(names, np.array(found, float).T, strict=True)), time.process_time() - began)


def agree(samplers: list[str], data: list[str], cpu: float, workers: int) -> None:
    chains = [Chain(sampler, name, begin) for name in data for sampler in samplers for begin in STARTS]
    with ProcessPoolExecutor(workers) as pool:
        traces = dict(zip(chains, pool.map(partial(run, cpu=cpu), chains), strict=True))
    for name in data:
        for sampler in samplers:
            report(sampler, name, [traces[Chain(sampler, name, begin)] for begin in STARTS])


def report(sampler: str, data: str, traces: list[Trace]) -> None:
    length = min(len(trace.scalars["clusters"]) // 2 for trace in traces)
    seconds = sum(trace.seconds * length / len(trace.scalars["clusters"]) for trace in traces)
    print(f"{data}, {sampler}: {length} draws of each chain", flush=True)
    for name in traces[0].scalars:
        draws = np.stack([trace.scalars[name][-length:] for trace in traces])
        r_hat, ess = 1.0, float(draws.size)  # of what never moves, and is the same in all chains
        if np.ptp(draws) > 0:
            r_hat, ess = diagnose(draws).r_hat, diagnose(draws).ess_bulk
        means = ", ".join(f"{value:.4g}" for value in draws.mean(1))
        verdict = "pass" if r_hat < 1.05 else "FAIL"
        print(
            f"  {name:10s} {verdict} R-hat {r_hat:6.3f}, ESS per CPU s {ess / seconds:7.3f}; means {means}", flush=True
        )


# ---- quality


def generated(n: int, d: int, k: int) -> np.ndarray:
    return clusters(n, d, k, 3)[0]


def cifar() -> np.ndarray:
    return np.load(DATA / "cifar100" / "train_pca64.npy")[:22_000].astype(float)


def pbmc() -> np.ndarray:
    found = np.load(DATA / "pbmc68k_reduced" / "pca_labels.npz")
    name = next(name for name in found.files if found[name].ndim == 2)
    return found[name].astype(float)


QUALITY: dict[str, Callable[[], np.ndarray]] = {
    "100,000 x 2": partial(generated, 100_000, 2, 20),
    "90,000 x 16": partial(generated, 90_000, 16, 20),
    "45,000 x 64": partial(generated, 45_000, 64, 30),
    "cifar": cifar,
    "pbmc": pbmc,
}


class Fit(NamedTuple):
    score: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.score:.4f} in {self.seconds:.1f} CPU s"


def fitted(model: Any, train: np.ndarray, test: np.ndarray) -> Fit:
    began = time.process_time()
    model.fit(train)
    seconds = time.process_time() - began
    return Fit(float(model.score(test)), seconds)


def ahead(train: np.ndarray, test: np.ndarray, aim: float, begin: str) -> str:
    """When a chain from this start has a draw that is better."""
    began = time.process_time()
    model = DIRICHLET["hybrid"].build(Setup(DirichletProcess(), Gaussian().bind(describe(train)), len(train), 8, 0))
    engine = build("serial", model.recipe(train))
    state = start.begin(model, engine, train, begin)
    base = float(np.mean(model.likelihood.log_base(test)))  # what densities of rows have beside those of scaled ones
    text = f"from {begin} (start {time.process_time() - began:.2f} CPU s)"
    turns = rounds(model, engine, state)
    for done in range(MOST_ROUNDS):
        spent = time.process_time() - began
        found = score(model, state, test) + base
        began += time.process_time() - began - spent  # looking costs nothing
        if found > aim:
            engine.close()
            return f"{text} ahead after {spent:.2f} CPU s and {done} rounds, {found:.4f}"
        state = next(turns)
    engine.close()
    return f"{text} not ahead after {spent:.2f} CPU s and {MOST_ROUNDS} rounds, {found:.4f}"


def compare(name: str, soon: bool) -> str:
    X = QUALITY[name]()
    held = np.random.default_rng(0).random(len(X)) < 0.1
    train, test = X[~held], X[held]
    began = time.process_time()
    ub.DirichletProcessMixture(n_warmup=2, n_draws=2, engine="serial", random_state=0).fit(X[:2_500])
    compiled = time.process_time() - began
    theirs = fitted(
        BayesianGaussianMixture(n_components=50, random_state=0, weight_concentration_prior_type="dirichlet_process"),
        train,
        test,
    )
    ours = "" if soon else f"ours {fitted(ub.DirichletProcessMixture(engine='serial', random_state=0), train, test)}; "
    chains = "; ".join(ahead(train, test, theirs.score, begin) for begin in ("grown", "one"))
    return f"{name}: {ours}scikit-learn {theirs}; one chain {chains}; a short fit to compile: {compiled:.1f} CPU s"


def quality(only: str | None, soon: bool, workers: int) -> None:
    with ProcessPoolExecutor(workers) as pool:
        for line in pool.map(partial(compare, soon=soon), [only] if only else QUALITY):
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("agree", "quality"))
    parser.add_argument("--cpu", type=float, default=100.0, help="CPU seconds of a chain")
    parser.add_argument("--data", choices=AGREE, help="one of them")
    parser.add_argument("--samplers", default=",".join(SAMPLER))
    parser.add_argument("--only", choices=QUALITY)
    parser.add_argument("--soon", action="store_true", help="no default fits")
    parser.add_argument("-j", type=int, default=1, dest="workers", help="processes")
    chosen = parser.parse_args()
    if chosen.what == "agree":
        agree(chosen.samplers.split(","), [chosen.data] if chosen.data else list(AGREE), chosen.cpu, chosen.workers)
    else:
        quality(chosen.only, chosen.soon, chosen.workers)


if __name__ == "__main__":
    main()
