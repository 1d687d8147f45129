"""Speed of the label kernel as shares of what the machine can do, measured in the same run (make bench-speed).

Times are CPU seconds of one thread, the least of several repetitions; limits and kernels take turns, so that a noisy
machine slows both. Two threads are compared by wall time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from unbounded import engines
from unbounded.columns import describe
from unbounded.compiled.jit import jit
from unbounded.compiled.lanes import lane_exp
from unbounded.likelihoods import Gaussian
from unbounded.models.labelled.labels import LabelShard, linear_part
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.kernel import CompiledLabels
from unbounded.models.mixtures.measure import DirichletProcess, TailLaw
from unbounded.models.mixtures.message import MixturePart, SweepKeys
from unbounded.models.mixtures.model import Mixture, RowRecipe
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup

REPEATS, SECONDS = 7, 2.0


@dataclass
class Row:
    what: str
    reached: str
    target: str
    ok: bool


def cpu_seconds(*functions: Callable[[], Any]) -> list[float]:
    """Least thread CPU time of each function, the functions taking turns: short ones many times."""
    best = [np.inf] * len(functions)
    for function in functions:
        function()
    repeats, end = 0, time.monotonic() + SECONDS
    while repeats < REPEATS or time.monotonic() < end:
        repeats += 1
        for i, function in enumerate(functions):
            began = time.thread_time_ns()
            function()
            best[i] = min(best[i], (time.thread_time_ns() - began) * 1e-9)
    return best


def gemm(dtype: Any, size: int = 1024) -> Callable[[], Any]:
    a = np.random.default_rng(0).random((size, size)).astype(dtype)
    out = np.empty_like(a)
    return lambda: np.dot(a, a, out=out)


@jit
def _exp_all(x, out):
    for _ in range(100):
        for i in range(x.size):
            out[i] = lane_exp(x[i])


def exps(dtype: Any, size: int = 4096) -> tuple[Callable[[], Any], int]:
    x = -np.random.default_rng(0).random(size).astype(dtype)
    out = np.empty_like(x)
    return (lambda: _exp_all(x, out)), 100 * size


class Bench:
    """A shard with K mobile atoms around K true clusters and, if asked, private atoms of its own."""

    def __init__(
        self, columns: int, atoms: int, dtype: Any, rows: int, private: int = 0, births: float = 0.0, dense: bool = True
    ):
        rng = np.random.default_rng(1)
        centres = 4.0 * rng.normal(size=(atoms + private, columns))
        z = rng.integers(0, atoms, rows).astype(np.int32)
        if private:
            few = np.arange(0, rows, 100)
            z[few] = atoms + rng.integers(0, private, len(few))
        X = centres[z] + rng.normal(size=(rows, columns))
        bound = Gaussian().bind(describe(X))
        self.kernel = CompiledLabels(bound)
        totals = self.kernel.totals(X, z, atoms + private)
        drawn = bound.draw(totals.counts[:atoms].astype(float), totals.statistics[:atoms], rng)
        log_weights = np.log(totals.counts[:atoms])
        eta = linear_part(bound, dtype, drawn, log_weights)
        finite = eta if dense else bound.finite(eta, drawn, log_weights)
        self.shard = LabelShard(0, 0, X, rows, bound.imputed)
        self.shard.put(z)
        self.part = MixturePart(finite, atoms, atoms, private, TailLaw(0.0, births), [])
        self.tail = self.kernel.prepare(self.shard, self.part)
        self.atoms, self.rows, self.n_terms = atoms, rows, bound.n_terms
        self.turn = 0

    def sweep(self) -> None:
        self.turn += 1
        keys = [SweepKeys(key(0, "label", self.turn), key(0, "tail", self.turn))]
        self.tail = self.kernel.sweep(self.shard, self.part._replace(keys=keys), self.tail)

    def statistics(self) -> None:
        labels = self.shard.labels
        self.kernel.totals(self.shard.data, labels, int(labels.max()) + 1)


def gemm_share(columns: int, atoms: int, dtype: Any, rows: int, target: float) -> Row:
    bench = Bench(columns, atoms, dtype, rows)
    limit, sweep, statistics = cpu_seconds(gemm(dtype), bench.sweep, bench.statistics)
    ideal = 2.0 * bench.n_terms * atoms * rows * limit / (2 * 1024**3)
    share, whole = ideal / sweep, ideal / (sweep + statistics)
    ns = sweep / rows / atoms * 1e9
    name = f"Gaussian labels D={columns} K={atoms} {np.dtype(dtype).name}"
    return Row(
        name, f"{share:.0%} of GEMM ({whole:.0%} with statistics), {ns:.1f} ns", f">= {target:.0%}", share >= target
    )


def staged_gain(columns: int, atoms: int, dtype: Any, rows: int) -> Row:
    """Bounding atoms by a quarter of the columns first, which is what fits use from 32 columns on."""
    dense, staged = Bench(columns, atoms, dtype, rows), Bench(columns, atoms, dtype, rows, dense=False)
    a, b = cpu_seconds(dense.sweep, staged.sweep)
    name = f"Gaussian labels D={columns} K={atoms} {np.dtype(dtype).name}, separated clusters"
    return Row(name, f"bounds first: {a / b:.1f}x one dense product", "> 1x", a > b)


def exp_ratio(atoms: int, dtype: Any) -> Row:
    bench = Bench(2, atoms, dtype, 100_000, dense=False)
    run_exps, count = exps(dtype)
    limit, sweep = cpu_seconds(run_exps, bench.sweep)
    ratio = sweep / (bench.rows * atoms) / (limit / count)
    return Row(
        f"Gaussian labels D=2 K={atoms} {np.dtype(dtype).name}", f"{ratio:.2f}x the exp limit", "<= 2x", ratio <= 2
    )


def births_cost() -> Row:
    with_births, without = Bench(16, 50, np.float64, 50_000, births=1.0), Bench(16, 50, np.float64, 50_000)
    a, b = cpu_seconds(with_births.sweep, without.sweep)
    return Row("births possible, no private atoms, D=16 K=50", f"{a / b - 1:+.1%}", "<= +10%", a / b <= 1.1)


def private_cost() -> Row:
    private, none = (
        Bench(16, 50, np.float64, 50_000, private=5, births=1.0),
        Bench(16, 50, np.float64, 50_000, births=1.0),
    )
    a, b = cpu_seconds(private.sweep, none.sweep)
    members = private.tail.members
    size = f"{int(members.sum())} rows in {int((members > 0).sum())} private atoms"
    return Row(f"5 private atoms, D=16 K=50 ({size})", f"{a / b:.2f}x a sweep without", "<= 2x", a / b <= 2)


def round_seconds(model: Mixture, X: Any, z: Any, workers: int, turns: int = 12) -> float:
    engine = engines.build("threads", RowRecipe(X, model.likelihood, model.n_shards), workers)
    state = model.begin(engine, z)
    chain = rounds(model, engine, state)
    next(chain)
    best = np.inf
    for _ in range(turns):
        began = time.perf_counter()
        next(chain)
        best = min(best, time.perf_counter() - began)
    engine.close()
    return best


def two_threads() -> Row:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 50, 200_000)
    X = 4.0 * rng.normal(size=(50, 16))[z] + rng.normal(size=(200_000, 16))
    likelihood = Gaussian().bind(describe(X))
    model = HybridMixture(Setup(DirichletProcess(), likelihood, len(X), 8, 0))
    pairs = [(round_seconds(model, X, z, 1), round_seconds(model, X, z, 2)) for _ in range(3)]
    speedup = max(one / two for one, two in pairs)
    return Row("rounds of 200,000 x 16, K=50: two threads", f"{speedup:.2f}x one", ">= 1.8x", speedup >= 1.8)


def main() -> None:
    f32, f64 = np.float32, np.float64
    with threadpool_limits(1, user_api="blas"):
        rows = [
            gemm_share(16, 50, f32, 50_000, 0.4),
            gemm_share(16, 200, f32, 20_000, 0.6),
            gemm_share(16, 50, f64, 50_000, 0.4),
            gemm_share(16, 200, f64, 20_000, 0.6),
            gemm_share(64, 200, f32, 10_000, 0.6),
            gemm_share(64, 200, f64, 10_000, 0.6),
            staged_gain(64, 200, f64, 10_000),
            exp_ratio(20, f64),
            exp_ratio(50, f64),
            births_cost(),
            private_cost(),
            two_threads(),
        ]
    if "--json" in sys.argv:
        print(json.dumps([row.__dict__ for row in rows], default=bool))
        return
    for row in rows:
        print(f"{'ok  ' if row.ok else 'MISS'} {row.what:62} {row.reached:48} target {row.target}", flush=True)


if __name__ == "__main__":
    main()
