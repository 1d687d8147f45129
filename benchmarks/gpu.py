"""Mixtures and features on a GPU: local steps, whole rounds, births, fits; beside the device's limits (docs/gpu.md).

    python benchmarks/gpu.py [limits steps rounds births fit memory features million] [--rows 1000000]

Times are medians of 20, in milliseconds, after a first run that compiles.
"""

from __future__ import annotations

import argparse
import time
import traceback
from dataclasses import replace
from itertools import islice, product
from statistics import median
from typing import Any

import numpy as np
import torch

import million
from unbounded import DirichletProcessMixture, Gaussian
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import Ghosts
from unbounded.models.features.gpu import bits
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import DirichletProcess, TailLaw
from unbounded.models.mixtures.message import MixturePart, SweepKeys
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup

TIMES = 20
SHAPES = ((16, 50), (64, 100))  # columns, clusters
# rows (of a million), shards, dtype, sweeps
FEATURES = (
    (1_000_000, 1, "float32", 1), (1_000_000, 256, "float32", 1), (1_000_000, 256, "float32", 5),
    (1_000_000, 256, "float64", 1), (10_000_000, 256, "float32", 1),
)  # fmt: skip


def timed(function: Any) -> float:
    """Median milliseconds on the device's clock."""
    function()
    times = []
    for _ in range(TIMES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return median(times)


def clusters(n: int, d: int, k: int, spread: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around k centres, and the centre of each."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += (spread * rng.standard_normal((k, d))).astype(np.float32)[labels]
    return X, labels


def limits(_: argparse.Namespace) -> None:
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    a = torch.randn(2**28, device="cuda")
    b = torch.empty_like(a)
    print(f"copy                   {8 * a.numel() / timed(lambda: b.copy_(a)) / 1e9:8.2f} TB/s")
    for kind, n, fast in ((torch.float32, 8192, False), (torch.float32, 8192, True), (torch.float64, 4096, False)):
        torch.backends.cuda.matmul.allow_tf32 = fast
        c = torch.randn((n, n), device="cuda", dtype=kind)
        name = "tf32" if fast else str(kind).removeprefix("torch.")
        print(f"product of {name:10s}  {2 * n**3 / timed(lambda c=c: c @ c) / 1e9:8.0f} TFLOP/s")


def model_of(X: np.ndarray, device: str, dtype: str, n_shards: int = 1, **more: Any) -> HybridMixture:
    likelihood = Gaussian().bind(describe(X))
    setup = Setup(DirichletProcess(1.0), likelihood, len(X), n_shards, 0, dtype=dtype, device=device)
    return HybridMixture(setup, Ghosts(), **more)


def steps(options: argparse.Namespace) -> None:
    """One sweep over all labels, with statistics, as a shard's local step has them; no host in between."""
    print(f"\nlocal steps of {options.rows:,} rows, Gaussian with full covariances (ms)")
    print(f"{'columns':>8s} {'clusters':>8s} {'dtype':>8s} {'labels':>9s} {'sums':>9s} {'both':>9s} {'TFLOP/s':>9s}")
    for d, k in SHAPES:
        X, labels = clusters(options.rows, d, k)
        for dtype in ("float32", "float64"):
            model = model_of(X, "cuda", dtype)
            kernel, shard = model.kernel, model.recipe(X)(0)
            shard.labels[:] = labels
            atoms = kernel.count(shard, k)
            parameters = model.likelihood.draw(atoms.counts.astype(float), atoms.statistics, np.random.default_rng(1))
            finite = kernel.finite(parameters, np.log(atoms.counts / len(X)))
            part = MixturePart(finite, k, k, 0, TailLaw(0.0, 0.0), [SweepKeys(key(1, "label"), key(1, "tail"))])
            tail = kernel.prepare(shard, part)
            sweep = timed(lambda m=(kernel, shard, part, tail): m[0].sweep(*m[1:]))
            sums = timed(lambda m=(kernel, shard, k): m[0].count(*m[1:]))
            rate = 2e-9 * len(X) * k * d * d / sweep
            agree = (shard.seen() == labels).mean()
            print(
                f"{d:8d} {k:8d} {dtype:>8s} {sweep:9.3f} {sums:9.3f} {sweep + sums:9.3f} {rate:9.0f}   "
                f"labels that are right {agree:.4f}",
                flush=True,
            )


def rounds_of(options: argparse.Namespace) -> None:
    """Whole rounds of a chain: what is not the local step is the host's."""
    print(f"\nwhole rounds of {options.rows:,} rows (wall ms, medians of {TIMES})")
    print(f"{'columns':>8s} {'clusters':>8s} {'device':>7s} {'jumps':>6s} {'round':>9s} {'global':>9s} {'local':>9s}")
    for d, k in SHAPES:
        X, labels = clusters(options.rows, d, k)
        for device, jumps in product(("cuda", "cpu"), (None, Jumps())):
            n_shards = 1 if device == "cuda" else 16
            model = model_of(X, device, "float32", n_shards, jumps=jumps)
            engine = build("threads" if n_shards > 1 else "serial", model.recipe(X))
            state = model.begin(engine, labels)
            state = next(islice(rounds(model, engine, state), 3, None))
            walls, phases = [], []
            for _ in range(TIMES if device == "cuda" else 5):
                begin = time.perf_counter()
                state = model.jump(state, engine)
                jumped = time.perf_counter()
                message = model.global_step(state, engine.parallel)
                told = time.perf_counter()
                state = model.gather(state, message, engine.run(model.local_step, message))
                end = time.perf_counter()
                walls.append(1e3 * (end - begin))
                phases.append((1e3 * (told - jumped), 1e3 * (end - told)))
            both = np.median(phases, axis=0)
            print(
                f"{d:8d} {k:8d} {device:>7s} {'yes' if jumps else 'no':>6s} {median(walls):9.2f} {both[0]:9.2f} "
                f"{both[1]:9.2f}   {len(state.occupied)} clusters",
                flush=True,
            )
            engine.close()


def births(options: argparse.Namespace) -> None:
    """Clusters that are new after a round, from the same state: on the CPU, and on the GPU."""
    X, labels = clusters(options.rows // 10, 4, 20, spread=2.0)
    found = {}
    for device in ("cpu", "cuda"):
        found[device] = []
        model = model_of(X, device, "float64", 1, jumps=None)
        engine = build("serial", model.recipe(X))
        for seed in range(40):
            model = model.reseeded(seed)
            message = model.global_step(state := model.begin(engine, labels))
            state = model.gather(state, message, engine.run(model.local_step, message))
            found[device].append(int(state.n_private.sum()))
    means = {device: np.mean(counts) for device, counts in found.items()}
    errors = {device: np.std(counts) / np.sqrt(len(counts)) for device, counts in found.items()}
    words = ", ".join(f"{device} {means[device]:.2f} +- {errors[device]:.2f}" for device in found)
    print(f"\nnew clusters after one round of {len(X):,} rows: {words}", flush=True)


def fit(options: argparse.Namespace) -> None:
    """A fit on the GPU, and on all cores of the machine, start included, with a score of rows that it did not see."""
    X, _ = clusters(options.rows + 10_000, 16, 50, spread=1.2)
    train, test = X[:-10_000], X[-10_000:]
    print(f"\na fit of {options.rows:,} x 16, 50 clusters, {options.draws} rounds, start included")
    for device, n_shards in (("cuda", 1), ("cuda", 1), ("cpu", 16)):
        chain = {"n_warmup": options.draws // 2, "n_draws": options.draws - options.draws // 2, "n_chains": 1}
        model = DirichletProcessMixture(
            Gaussian(), device=device, dtype="float32", n_shards=n_shards, random_state=1, init="grown",
            n_snapshots=5, **chain,
        )  # fmt: skip
        begin = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - begin
        score = model.score(test)
        print(f"{device:>5s} {seconds:8.2f} s  clusters {len(model.cluster_sizes_)}  score {score:.4f}", flush=True)


def memory(options: argparse.Namespace) -> None:
    """A hundred times the rows."""
    n = 100 * options.rows
    rng = np.random.default_rng(0)
    X = np.empty((n, 16), np.float32)
    labels = rng.integers(0, 20, n, dtype=np.int32)
    centres = (4.0 * rng.standard_normal((20, 16))).astype(np.float32)
    for start in range(0, n, 2**22):
        part = slice(start, start + 2**22)
        X[part] = rng.standard_normal(X[part].shape, dtype=np.float32) + centres[labels[part]]
    likelihood = Gaussian().bind(describe(X[: 10**6]))
    setup = Setup(DirichletProcess(1.0), likelihood, n, 1, 0, dtype="float32", device="cuda")
    model = HybridMixture(setup, Ghosts(), jumps=None)
    engine = build("serial", model.recipe(X))
    begin = time.perf_counter()
    state = model.begin(engine, labels)
    print(f"\n{n:,} x 16 on the device after {time.perf_counter() - begin:.1f} s", flush=True)
    for later in islice(rounds(model, engine, state), 3):
        print(f"  {time.perf_counter() - begin:.2f} s, {len(later.occupied)} clusters", flush=True)
    print(f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of device memory at most")


def features(options: argparse.Namespace) -> None:
    """Sweeps over 0/1 entries of 36 columns and ten features, with statistics; and what they come to on a CPU."""
    print(
        "\n0/1 features, 36 columns, 10 features (ms): on the device; from parameters to statistics on the host (wall)"
    )
    print(f"{'rows':>11s} {'shards':>7s} {'dtype':>8s} {'sweeps':>7s} {'sweep':>8s} {'sums':>8s} {'whole':>8s}")
    for n, n_shards, dtype, sweeps in FEATURES:
        n = n * options.rows // 1_000_000
        X, Z = images(n)
        model = feature_model(X, "cuda", dtype, n_shards, sweeps)
        engine = build("serial", model.recipe(X))
        state = model.begin(engine, Z)
        message = model.global_step(state)
        kernel, shards = model.kernel, engine._shards
        gathered = engine.run(model.local_step, message)
        memory, quiet = kernel.memory_of(shards), np.zeros(n_shards, bool)
        for shard in shards:
            shard.upload()
        columns, births = kernel._sent(memory, message.shared, message.own, quiet)
        births = births._replace(proposed=torch.zeros(n_shards, dtype=torch.int64, device="cuda"))
        sweep = timed(lambda m=(memory.rows, columns, births): bits.sweep(*m))
        added = memory.rows, memory.chunks, memory.units, len(message.shared.loadings)
        sums = timed(lambda m=added: bits.sums(*m))
        walls = []
        for _ in range(TIMES):
            begin = time.perf_counter()
            gathered = engine.run(model.local_step, message)
            walls.append(1e3 * (time.perf_counter() - begin))
        print(
            f"{n:11,d} {n_shards:7d} {dtype:>8s} {sweeps:7d} {sweep:8.3f} {sums:8.3f} {median(walls):8.3f}   "
            f"births proposed on {int(births.proposed.sum())} shards",
            flush=True,
        )
        if n <= 1_000_000:
            same_as_cpu(model, X, Z, dtype)
        del gathered, memory, engine, X, Z
        torch.cuda.empty_cache()


def same_as_cpu(model: HybridFeatures, X: np.ndarray, Z: np.ndarray, dtype: str) -> None:
    """How much of Z differs after one round from the same state, and how far statistics are from those of that Z."""
    parts = []
    for device in ("cuda", "cpu"):
        there = replace(model, setup=replace(model.setup, device=device))
        engine = build("threads", there.recipe(X))
        state = there.begin(engine, Z)
        message = there.global_step(state)
        after = there.gather(state, message, engine.run(there.local_step, message))
        parts.append((np.asarray(there.assignments(after, engine)), after))
        engine.close()
    (ours, state), (theirs, _) = parts
    same = ours.shape == theirs.shape
    exact = ours.astype(float).T @ (X.astype(np.float64) - model.likelihood.centre)
    apart = np.abs(state.table.sums[state.occupied] - exact).max() / np.abs(exact).max()
    share = float((ours != theirs).mean()) if same else np.nan
    print(f"    entries that differ from the CPU's: {share:.2e}; sums are off by {apart:.1e}, {dtype}", flush=True)


def tune(options: argparse.Namespace) -> None:
    """Other blocks and numbers of warps for the sweep over 0/1 entries."""
    X, Z = images(options.rows)
    for size, warps in product((64, 128, 256), (2, 4, 8)):
        if size < 32 * warps // 2:
            continue
        bits.ROWS, bits.WARPS = size, warps
        model = feature_model(X, "cuda", "float32", 1, 1)
        engine = build("serial", model.recipe(X))
        message = model.global_step(model.begin(engine, Z))
        memory = model.kernel.memory_of(engine._shards)
        columns, births = model.kernel._sent(memory, message.shared, message.own, np.zeros(1, bool))
        births = births._replace(proposed=torch.zeros(1, dtype=torch.int64, device="cuda"))
        sweep = timed(lambda m=(memory.rows, columns, births): bits.sweep(*m))
        added = memory.rows, memory.chunks, memory.units, len(message.shared.loadings)
        sums = timed(lambda m=added: bits.sums(*m))
        print(f"rows {size:4d} warps {warps}: sweep {sweep:.3f} ms, sums {sums:.3f} ms", flush=True)


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten features, and who has them."""
    rng = np.random.default_rng(0)
    loadings = (rng.random((10, 36)) < 0.3).astype(np.float32)
    Z = rng.random((n, 10), dtype=np.float32) < 0.4
    X = rng.standard_normal((n, 36), dtype=np.float32)
    X *= 0.5
    X += Z.astype(np.float32) @ loadings
    return X, Z.astype(np.uint8)


def feature_model(X: np.ndarray, device: str, dtype: str, n_shards: int, sweeps: int) -> HybridFeatures:
    likelihood = LinearGaussian(intercept=False).bind(describe(X[:1_000_000]))
    setup = Setup(BetaBernoulli(), likelihood, len(X), n_shards, 0, sweeps=sweeps, dtype=dtype, device=device)
    return HybridFeatures(setup, jumps=None)


def paper_million(options: argparse.Namespace) -> None:
    """The paper's million (benchmarks/million.py), with and without jumps, and where the time goes."""
    data = million.cambridge(options.rows, noise=0.5, seed=0)
    n_rounds = million.SWEEPS // million.SWEEPS_PER_ROUND
    begin = time.perf_counter()
    million.compile_kernels("cuda")
    million.run(data.X, 12, "cuda")
    print(f"\nthe paper's million; compiled in {time.perf_counter() - begin:.1f} s", flush=True)
    for jumps in (million.JUMPS, None):
        begin = time.perf_counter()
        found = million.run(data.X, n_rounds, "cuda", jumps=jumps)
        seconds = time.perf_counter() - begin
        print(f"{'with' if jumps else 'without'} jumps: {seconds:.2f} s, of which {found.phases}", flush=True)
        million.judge(data, found)


PARTS = {
    "limits": limits, "steps": steps, "rounds": rounds_of, "births": births, "fit": fit, "memory": memory,
    "features": features, "million": paper_million, "tune": tune,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=60)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        try:
            PARTS[part](options)
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
