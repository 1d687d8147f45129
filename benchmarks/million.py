"""The paper's million: 1,000,000 superposed images, P = 256 shards, 860 sweeps, a synchronisation after every 5.

    python benchmarks/million.py [rows]

Dubey et al. (2020) report one day on 256 processors. Reports the time with the start included, the peak of memory, the
features found, and the score of 10,000 fresh rows beside the score of the truth.
"""

from __future__ import annotations

import resource
import sys
import time
from itertools import islice

import numpy as np

from unbounded.arrays import ENTRIES
from unbounded.columns import describe
from unbounded.datasets import cambridge
from unbounded.engines import build
from unbounded.models.features import start as feature_start
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.model import Features
from unbounded.models.features.predictive import draw_of, log_density
from unbounded.models.features.state import FeatureShards
from unbounded.round import rounds
from unbounded.setup import Setup

N_SHARDS, SWEEPS, SWEEPS_PER_ROUND = 256, 860, 5
DRAWS = 8


def peak() -> float:
    """Largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compile_kernels() -> None:
    """A tiny run, so that the time below is not that of the compiler."""
    run(cambridge(2 * N_SHARDS, seed=2).X, n_rounds=2)


def run(X: np.ndarray, n_rounds: int) -> tuple[Features, list[dict[str, np.ndarray]], float]:
    likelihood = LinearGaussian().bind(describe(X))
    engine = build("threads", FeatureShards(X, likelihood, N_SHARDS, binary=True))
    model = HybridFeatures(
        Setup(BetaBernoulli(), likelihood, len(X), N_SHARDS, 0, n_rounds=n_rounds, sweeps=SWEEPS_PER_ROUND)
    )
    began = time.perf_counter()
    begun = feature_start.begin(model, engine, X, "grown")
    started = time.perf_counter() - began
    draws = []
    for state in islice(rounds(model, engine, begun), n_rounds):
        if state.round > n_rounds - DRAWS:
            draws.append({k: v for k, v in model.snapshot(state, engine).items() if k not in ENTRIES})
    engine.close()
    return model, draws, started


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    compile_kernels()
    libraries = peak()
    data = cambridge(n, noise=0.5, seed=0)
    size = data.X.nbytes / 2**20
    print(f"{n:,} x {data.X.shape[1]}: {size:.0f} MB of data; Python and its libraries {libraries:.0f} MB", flush=True)
    began, began_cpu = time.perf_counter(), time.process_time()
    model, draws, started = run(data.X, SWEEPS // SWEEPS_PER_ROUND)
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    print(f"{SWEEPS} sweeps, {N_SHARDS} shards: {wall:.1f} s ({started:.1f} s of it the start), {cpu:.1f} CPU s")
    print(f"peak memory beside the libraries {peak() - libraries:.0f} MB: {(peak() - libraries) / size:.2f}x the data")
    last = draws[-1]
    order = np.argsort(-last["members"])[:8]
    correlations = np.abs(np.corrcoef(last["loadings"][order], data.features)[len(order) :, : len(order)]).max(1)
    print(f"members of the features: {last['members'][order].tolist()}")
    print(f"correlation of the true features with the nearest found: {np.round(correlations, 5).tolist()}")
    fresh = cambridge(10_000, noise=0.5, seed=1).X
    logs = [log_density(draw_of(model.measure, model.likelihood, d, n, seed), fresh) for seed, d in enumerate(draws)]
    score = float(np.mean(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))))
    print(f"held-out score {score:.5f} per row, truth {data.log_density(fresh).mean():.5f}")


if __name__ == "__main__":
    main()
