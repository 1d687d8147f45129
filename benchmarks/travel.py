"""How far chains travel (make bench-travel): wrong starts, rounds until they are healed, and what jumps cost.

    python benchmarks/travel.py heal [--quick] [-j 16] [--only pairs] [--seeds 2]
                                         rounds and CPU seconds until a chain has the score of the true labels
    python benchmarks/travel.py cost     a round's jumps as a share of its sweep: later on, and in a default fit

Healed: the log density of new rows is within 0.02 nats of that given the true labels, and the number of clusters above
0.1% of the rows within 10% of theirs; merged pairs: all of them. Data: Gaussian clusters with covariances of their own;
the seed is that of data, start and chain.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Gaussian
from unbounded.models.labelled.labels import Atoms
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import MOST_ROUNDS, Jumps
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.round import rounds
from unbounded.setup import Setup

SHARDS = 4
SIZES = ((90_000, 16, 20), (45_000, 64, 30))
COSTS = (
    *((100_000, d, k) for d in (2, 16) for k in (20, 200)),
    *((40_000, 64, k) for k in (20, 200)),
)
STARTS = ("pairs", "one", "kmeans", "prior")
ROUNDS, SOON, NEW_ROWS = 200, 20, 5_000
NEAR = 0.02  # nats a row
TURNS, LATE = 48, 16 * MOST_ROUNDS
KINDS = {"both": (True, True), "cuts": (True, False), "neighbours": (False, True)}
PARTS = range(32), range(LATE, LATE + 32 * MOST_ROUNDS), range(750)


def clusters(n: int, d: int, k: int, seed: int) -> tuple[Any, Any]:
    """Rows and their true labels."""
    rng = np.random.default_rng(seed)
    means, spreads = 3.0 * rng.normal(size=(k, d)), rng.normal(size=(k, d, d)) / np.sqrt(d) + 0.5 * np.eye(d)
    labels = rng.integers(k, size=n)
    noise = rng.normal(size=(n, d))
    return means[labels] + np.einsum("nij,nj->ni", spreads[labels], noise), labels


def start(name: str, X: Any, truth: Any, model: HybridMixture, seed: int) -> Any:
    if name == "one":
        return np.zeros_like(truth)
    if name == "pairs":
        return np.where(truth < 4, truth // 2, truth)
    if name == "prior":
        return model.measure.simulate(model.measure.start(), len(X), np.random.default_rng(seed))
    from sklearn.cluster import KMeans

    return KMeans(50, n_init=1, random_state=seed).fit_predict(X)


class Trial(NamedTuple):
    rows: int
    columns: int
    clusters: int
    start: str
    seed: int


class Healed(NamedTuple):
    rounds: int  # 0: not
    seconds: float
    clusters: int  # above 0.1%


def score(model: HybridMixture, state: Any, new: Any) -> float:
    """Mean log density of new rows, given the clusters there are."""
    counts = state.table.counts[state.occupied].astype(float)
    log_p = model.kernel.predictive(Atoms(counts, state.table.statistics[state.occupied]), new)
    return float(logsumexp(log_p + np.log(counts / counts.sum())[:, None], axis=0).mean())


def heal(trial: Trial, jumps: Jumps | None) -> Healed:
    n, d, k, name, seed = trial
    X, truth = clusters(n + NEW_ROWS, d, k, seed)
    X, new, truth = X[:n], X[n:], truth[:n]
    model = HybridMixture(Setup(DirichletProcess(), Gaussian().bind(describe(X)), n, SHARDS, seed), jumps=jumps)
    engine = build("serial", model.recipe(X))
    aim = score(model, model.begin(engine, truth), new) - NEAR
    chain = rounds(model, engine, model.begin(engine, start(name, X, truth, model, seed)))
    most = 0 if name == "pairs" else k // 10
    spent, healed, large = 0.0, 0, 0
    for done in range(1, ROUNDS + 1):
        began = time.process_time()
        state = next(chain)
        spent += time.process_time() - began
        large = int((state.table.counts > 0.001 * n).sum())
        if abs(large - k) <= most and score(model, state, new) > aim:
            healed = done
            break
    engine.close()
    return Healed(healed, spent, large)


def heal_all(trials: list[Trial], jumps: Jumps | None, workers: int) -> None:
    found: dict[tuple[int, int, str], list[Healed]] = {}
    with ProcessPoolExecutor(workers) as pool:
        for trial, healed in zip(trials, pool.map(partial(heal, jumps=jumps), trials), strict=True):
            found.setdefault((trial.rows, trial.columns, trial.start), []).append(healed)
            when = (
                f"{healed.rounds:3d} rounds, {healed.seconds:5.1f} CPU s"
                if healed.rounds
                else f"not in {ROUNDS} rounds"
            )
            print(f"{trial}: {when}, {healed.clusters} clusters", flush=True)
    for (n, d, name), all_of_them in found.items():
        times = np.array([healed.rounds or np.inf for healed in all_of_them])
        seconds = np.median([healed.seconds for healed in all_of_them])
        within, least = (SOON, 0.9) if name == "pairs" else (ROUNDS, 1.0)
        in_time = int((times <= within).sum())
        verdict = "pass" if in_time >= least * len(times) else "FAIL"
        print(
            f"{n:,} x {d} from {name:6s}: {verdict}: within {within} rounds {in_time} of {len(times)} "
            f"(target: {least:.0%}), median {np.median(times):.0f} rounds, {seconds:.1f} CPU s",
            flush=True,
        )


def cost(n: int, d: int, k: int) -> str:
    """CPU seconds of jumps of either kind and of what else a round takes on the shards, and what the schedule makes of
    them: from then on when gaps no longer grow, and in all rounds of a default fit."""
    X, truth = clusters(n, d, k, 1)
    usual, model = Jumps(), HybridMixture(Setup(DirichletProcess(), Gaussian().bind(describe(X)), n, SHARDS, 1))
    model = replace(model, jumps=replace(usual, every=1))
    engine = build("serial", model.recipe(X))
    state = model.begin(engine, truth)
    spent: dict[tuple[bool, bool], list[float]] = {}
    sweeps = []
    for turn in range(TURNS):
        round_ = turn if turn < TURNS // 3 else LATE + turn  # at first both kinds, then one of them
        began = time.process_time()
        state = model.jump(replace(state, round=round_), engine)
        jumped = time.process_time()
        message = model.global_step(state)
        drawn = time.process_time()
        gathered = engine.run(model.local_step, message)
        if turn >= 4:
            spent.setdefault(model.jumps.due(round_, n, d), []).append(jumped - began)
            sweeps.append(time.process_time() - drawn)
        state = model.gather(state, message, gathered)
    engine.close()
    each, sweep = {kinds: np.mean(times) for kinds, times in spent.items()} | {(False, False): 0.0}, np.mean(sweeps)
    shares = [np.mean([each[usual.due(r, n, d)] for r in part]) / sweep for part in PARTS]
    kinds = ", ".join(f"{name} {1e3 * each[due]:.1f}" for name, due in KINDS.items())
    told = ", ".join(
        f"{share:.0%} of rounds {part[0]} to {part[-1]}" for share, part in zip(shares, PARTS, strict=True)
    )
    return f"ms of jumps: {kinds}; of a sweep {1e3 * sweep:.1f}; {told} (target: 50%)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("heal", "cost"))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one seed")
    parser.add_argument("--without", action="store_true", help="without jumps, to compare")
    parser.add_argument("--only", choices=STARTS, help="one start")
    parser.add_argument("--seeds", type=int, help="of each start; by default 10 of pairs, 5 of others")
    parser.add_argument("-j", type=int, default=1, dest="workers", help="processes")
    chosen = parser.parse_args()
    if chosen.what == "cost":
        for n, d, k in COSTS:
            print(f"{n:,} x {d}, {k} clusters: {cost(n, d, k)}", flush=True)
        return
    trials = [
        Trial(n // 10 if chosen.quick else n, d, k, name, seed)
        for n, d, k in SIZES
        for name in STARTS if chosen.only in (None, name)
        for seed in range(chosen.seeds or (1 if chosen.quick else 10 if name == "pairs" else 5))
    ]  # fmt: skip
    heal_all(trials, None if chosen.without else Jumps(), chosen.workers)


if __name__ == "__main__":
    main()
