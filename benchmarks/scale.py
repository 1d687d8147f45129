"""Every core, every machine: what a fit reaches beside what it should reach, measured in one run.

    python benchmarks/scale.py [part ...] [--workers W] [--rows N] [--tokens N]

Parts: sums (what 100 and 1,000 workers would send to each other), traffic (what real ones send), cores (threads beside
as many separate processes that do the same work), global (the driver's step), tokens (a corpus from a source, small and
large: time and the driver's memory), draws (memory of a fit that keeps draws), million (the paper's, on 16 cores).
Without any: all that the machine is large enough for. Absolute times are printed with every ratio.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import million
import unbounded as ub
from memory import Watched
from speed import Row
from unbounded import datasets, engines
from unbounded.chain.store import RunStore
from unbounded.columns import describe
from unbounded.contracts import Message, Summary, in_this_thread
from unbounded.engines import parcels
from unbounded.engines.local import Helpers, available_cores
from unbounded.engines.routes import Route
from unbounded.engines.worker import Add, assign_blocks
from unbounded.likelihoods import Gaussian
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.round import Clock, rounds
from unbounded.setup import Setup

SHARDS, SHARDS_PER_WORKER = 64, 4
WARM, ROUNDS = 9, 16  # rounds before anything is timed, and those that are


@dataclass(frozen=True)
class Size:
    workers: int
    rows: int
    tokens: int


# ---- sums over workers


@dataclass(frozen=True)
class Plan:
    """What the fixed tree comes to on so many workers, in messages of one sum each."""

    routes: list[Route]

    @classmethod
    def of(cls, workers: int, shards: int) -> Plan:
        return cls(assign_blocks(shards, workers))

    @property
    def messages(self) -> int:
        return sum(len(route.leaving) for route in self.routes)

    @property
    def busiest(self) -> int:
        """Most messages that come to one worker."""
        return max(route.expected for route in self.routes)

    @property
    def depth(self) -> int:
        """Messages one after another on the longest way: a worker sends its last node when it has received all."""
        late = [0] * len(self.routes)
        for w in range(len(self.routes) - 1, -1, -1):  # nodes go to lower numbers
            for (_, stop), to in self.routes[w].leaving.items():
                waits = late[w] if stop > self.routes[w].block.stop else 0
                late[to] = max(late[to], waits + 1)
        return max(late)


def sums(size: Size) -> Iterator[Row]:
    """200 Gaussian clusters in 64 columns, and 1,000 topics of 100,000 words of which a tenth occurs."""
    gaussian = 200 * (64 * 65 // 2 + 64 + 1) * 8
    topics = 1_000 * 10_000 * 12
    for what, bytes_ in (("200 clusters, 64 columns", gaussian), ("1,000 topics, 10,000 words each", topics)):
        for workers in (16, 100, 1_000):
            plan = Plan.of(workers, SHARDS_PER_WORKER * workers)
            limit = int(np.ceil(np.log2(workers)))
            megabytes = bytes_ / 1e6
            reached = (
                f"driver {megabytes:,.1f} MB (all sums: {workers * megabytes:,.0f}), busiest worker "
                f"{plan.busiest * megabytes:,.1f} MB in, {plan.messages} messages, depth {plan.depth}"
            )
            target = f"driver 1 sum, busiest worker {limit}, depth {limit}"
            yield Row(f"simulated, {workers:,} workers, {what}", reached, target, plan.depth <= limit + 1)


class _Shard:
    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, arrays: object) -> None: ...


@dataclass(frozen=True)
class _Shards:
    n_shards: int

    def __call__(self, p: int) -> _Shard:
        return _Shard()


_seen = {"in": 0, "out": 0}


def _count(shard: _Shard) -> None:
    """From here on, this worker counts what it opens and what it packs."""
    unpack, pack = parcels.unpack, parcels.pack

    def counted_unpack(parcel: Any, *which: int) -> Any:
        things = unpack(parcel, *which)
        _seen["in"] += sum(_bytes(thing) for thing in things)
        return things

    def counted_pack(*things: Any) -> Any:
        _seen["out"] += sum(_bytes(thing) for thing in things[1:])
        return pack(*things)

    if parcels.unpack.__name__ == "unpack":
        parcels.unpack, parcels.pack = counted_unpack, counted_pack
    _seen.update({"in": 0, "out": 0})


def _bytes(thing: Any) -> int:
    """Of the arrays of a node of the tree, for another worker or from one."""
    is_node = isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], Add)
    return sum(value.nbytes for value in thing[1].values()) if is_node else 0


def _counted(shard: _Shard) -> dict[str, int]:
    return dict(_seen)


def _answer(shard: _Shard, shared: int, own: Any) -> Summary:
    return Summary({"statistics": np.ones(shared)}, {})


def traffic(size: Size) -> Iterator[Row]:
    """What real processes open that others have packed, in sums of 1 MB; shards that do not divide evenly, too."""
    for workers, shards in ((2, 8), (4, 16), (8, 32), (8, 27), (16, 64)):
        plan, engine = Plan.of(workers, shards), engines.build("processes", _Shards(shards), workers)
        try:
            engine.map(_count)
            began = time.perf_counter()
            engine.run(_answer, Message(2**17, [None] * shards))
            took = time.perf_counter() - began
            told = engine.map(_counted)
        finally:
            engine.close()
        each = [told[route.block.start] for route in plan.routes]
        received, sent = ([seen[way] / 2**20 for seen in each] for way in ("in", "out"))
        reached = f"{sum(sent):.0f} MB sent, {max(received):.0f} MB into the busiest, {1e3 * took:.0f} ms"
        target = f"{plan.messages} MB sent, {plan.busiest} MB into the busiest"
        exact = round(sum(sent)) == plan.messages and round(max(received)) == plan.busiest
        yield Row(f"measured, {workers} processes, {shards} shards", reached, target, exact)


# ---- cores


def mixture(n: int, shards: int) -> tuple[Any, Any, Any]:
    data = datasets.gaussian_mixture(n, 16, 50, seed=0)
    likelihood = Gaussian().bind(describe(data.X))
    model = HybridMixture(Setup(DirichletProcess(), likelihood, n, shards, 0))
    return model, data.X, data.labels


def words(n: int, shards: int) -> tuple[Any, Any, Any]:
    corpus = datasets.topics(n // 10, seed=0)  # 100 tokens each: ten times as many tokens as rows
    sizes = np.asarray(corpus.X.sum(1)).ravel().astype(np.int64)
    model = HybridGroups(Setup(HierarchicalMeasure(), Tokens().bind(describe(corpus.X)), sizes, shards, 0))
    return model, corpus.words, corpus.labels


def features(n: int, shards: int) -> tuple[Any, Any, Any]:
    data = datasets.cambridge(n, seed=0)
    likelihood = LinearGaussian().bind(describe(data.X))
    model = HybridFeatures(Setup(BetaBernoulli(), likelihood, n, shards, 0))
    return model, data.X, data.Z


MODELS: dict[str, Callable[[int, int], tuple[Any, Any, Any]]] = {
    "features": features, "mixtures": mixture, "words": words
}  # fmt: skip


class Timed(NamedTuple):
    """Median seconds of a round without its jumps, the share of jumps in all rounds, and where the time went."""

    sweep: float
    jumps: float
    seconds: dict[str, float]


def timed(made: tuple[Any, Any, Any], engine_name: str, workers: int, n_rounds: int, ready: Any = None) -> Timed:
    """After some rounds, of which each may have jumps; ready: a barrier for those who begin together."""
    model, X, start = made
    engine, clock, times = engines.build(engine_name, model.recipe(X), workers), Clock(), []
    try:
        chain = rounds(model, engine, model.begin(engine, start), clock)
        list(islice(chain, WARM))
        if ready is not None:
            ready.wait()
        clock.seconds, clock.rounds = dict.fromkeys(clock.seconds, 0.0), 0
        for _ in range(n_rounds):
            before = clock.seconds["jump"]
            began = time.perf_counter()
            next(chain)
            times.append(time.perf_counter() - began - (clock.seconds["jump"] - before))
    finally:
        engine.close()
    seconds = {name: value / n_rounds for name, value in clock.seconds.items() if value > 0.0}
    return Timed(float(np.median(times)), clock.seconds["jump"] / sum(clock.seconds.values()), seconds)


def _apart(name: str, n: int, shards: int, ready: Any, out: Any) -> None:
    out.put(timed(MODELS[name](n, shards), "serial", 1, ROUNDS, ready).sweep)


def apart(name: str, size: Size) -> float:
    """Median seconds of a round of the slowest of W processes, each with its part of the rows and shards."""
    context = multiprocessing.get_context("spawn")
    ready, out = context.Barrier(size.workers), context.Queue()
    n, shards = size.rows // size.workers, max(1, SHARDS // size.workers)
    others = [context.Process(target=_apart, args=(name, n, shards, ready, out)) for _ in range(size.workers)]
    for other in others:
        other.start()
    times = [out.get() for _ in others]
    for other in others:
        other.join()
    return max(times)


def cores(size: Size) -> Iterator[Row]:
    """Threads beside separate processes that do the same work, and the share of jumps in a round."""
    for name, make in MODELS.items():
        made = make(size.rows, SHARDS)
        one = timed(made, "serial", 1, 3)
        threads = timed(made, "threads", size.workers, ROUNDS)
        separate = apart(name, size)
        ratio = separate / threads.sweep
        times = (1e3 * seconds for seconds in (threads.sweep, separate, one.sweep))
        reached = "{:.2f} ({:.1f} ms; separate {:.1f} ms; one core {:.0f} ms)".format(ratio, *times)
        yield Row(f"{name}, {size.workers} threads to {size.workers} processes", reached, ">= 0.90", ratio >= 0.9)
        parts = ", ".join(f"{phase} {1e3 * seconds:.1f}" for phase, seconds in threads.seconds.items())
        reached = f"{100 * threads.jumps:.0f}% of all time (ms a round: {parts})"
        yield Row(f"{name}, jumps on {size.workers} threads", reached, "<= 20%", threads.jumps <= 0.2)
        processes = timed(made, "processes", size.workers, ROUNDS)
        what, ratio = f"{name}, engine='processes' to separate processes", separate / processes.sweep
        yield Row(what, f"{ratio:.2f} ({1e3 * processes.sweep:.1f} ms)", ">= 0.90", ratio >= 0.9)


# ---- the global step


def global_step(size: Size) -> Iterator[Row]:
    """500 clusters in 64 columns: what the driver draws, beside the rest of a round of so many rows."""
    n, atoms = max(size.rows // 4, 50_000), 500
    X = (
        np.random.default_rng(0).normal(size=(n, 64))
        + 2.0 * np.random.default_rng(1).normal(size=(atoms, 64))[np.arange(n) % atoms]
    )
    likelihood = Gaussian().bind(describe(X))
    model = HybridMixture(Setup(DirichletProcess(), likelihood, n, SHARDS, 0), jumps=None)
    engine, clock = engines.build("threads", model.recipe(X), size.workers), Clock()
    try:
        state = model.begin(engine, np.arange(n) % atoms)
        one = fastest(lambda: model.global_step(state))
        chain = rounds(model, engine, state, clock)
        next(chain)
        clock.seconds = dict.fromkeys(clock.seconds, 0.0)
        list(islice(chain, 3))
    finally:
        engine.close()
    at_a_million = clock.seconds["local"] * 1e6 / n
    share = clock.seconds["global"] / (clock.seconds["global"] + clock.seconds["gather"] + at_a_million)
    reached = (
        f"{100 * share:.0f}% of a round of 1M rows ({1e3 * clock.seconds['global'] / 3:.0f} of "
        f"{1e3 * at_a_million / 3:.0f} ms; one thread {1e3 * one:.0f} ms)"
    )
    yield Row(f"global step, K = 500, D = 64, {size.workers} threads", reached, "<= 10%", share <= 0.1)
    yield topics_step(size)


def topics_step(size: Size, n_topics: int = 1_000, n_words: int = 100_000) -> Row:
    """Draws of all topics, a tenth of whose words occur; a round of 100M tokens is (time of a token) times that."""
    rng = np.random.default_rng(0)
    words = np.sort(rng.integers(n_words, size=(n_topics, n_words // 10)), axis=1)
    counts = sparse.csr_matrix(
        (np.ones(words.size, np.int32), words.ravel(), np.arange(n_topics + 1) * words.shape[1]), (n_topics, n_words)
    )
    counts.sum_duplicates()
    likelihood = Tokens().bind(describe(sparse.csr_matrix(np.ones((1, n_words)))))
    helpers = Helpers(size.workers)

    def draw(spread: Any) -> Any:
        return likelihood.topics(counts, np.arange(n_topics), np.ones(n_topics), n_topics, np.uint64(1), "f4", spread)

    draw(helpers)
    many, one = fastest(lambda: draw(helpers), 2), fastest(lambda: draw(in_this_thread), 1)
    helpers.close()
    reached = f"{1e3 * many:.0f} ms (one thread {1e3 * one:.0f} ms)"
    return Row(f"topics, {n_topics:,} x {n_words:,} words, {size.workers} threads", reached, "no target", True)


def fastest(function: Callable[[], Any], tries: int = 3) -> float:
    """Seconds."""
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


# ---- corpora from a source


def write_corpus(folder: Path, n_tokens: int, n_words: int = 2_000, n_topics: int = 20) -> Path:
    """Documents of 128 tokens in pieces of about a million tokens; nothing as large as the corpus is in memory."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    topics = np.cumsum(rng.dirichlet(np.full(n_words, 0.05), n_topics), axis=1)
    for piece, first in enumerate(range(0, n_tokens // 128, 8192)):
        size = min(8192, n_tokens // 128 - first)
        topic = rng.integers(n_topics, size=(size, 2))[np.arange(size)[:, None], rng.integers(2, size=(size, 128))]
        drawn = np.empty((size, 128), np.int64)
        for k in range(n_topics):
            drawn[topic == k] = np.searchsorted(topics[k], rng.random(int((topic == k).sum())))
        rows = np.repeat(np.arange(size), 128)
        counts = sparse.csr_matrix(
            (np.ones(rows.size), (rows, np.minimum(drawn.ravel(), n_words - 1))), (size, n_words)
        )
        sparse.save_npz(folder / f"{piece:06d}.npz", counts, compressed=False)
    return folder


def corpus_fit(folder: Path, workers: int) -> tuple[float, float, float]:
    """(seconds a round, seconds of everything, most megabytes of the driver) of a short fit."""
    with tempfile.TemporaryDirectory() as run, Watched() as watched:
        began = time.perf_counter()
        ub.HierarchicalDirichletProcess(
            n_shards=SHARDS, n_warmup=4, n_draws=8, n_chains=1, n_snapshots=4, random_state=0,
            engine="processes", n_workers=workers, checkpoint=run,
        ).fit(ub.open_source(folder))  # fmt: skip
        took = time.perf_counter() - began
        seconds = RunStore(run).chain(0).clock()
    return sum(seconds.seconds[name] for name in ("global", "local", "gather")) / seconds.rounds, took, watched.peak


def tokens(size: Size) -> Iterator[Row]:
    """The driver's memory by token, and whether a token costs the same in a large corpus."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = 1_000_000, size.tokens
        found = {n: corpus_fit(write_corpus(Path(folder) / str(n), n), size.workers) for n in (small, large)}
    slope = (found[large][2] - found[small][2]) * 2**20 / (large - small)
    yield Row(f"driver, {small:,} to {large:,} tokens", f"{slope:.2f} bytes a token", "<= 2", slope <= 2.0)
    ratio = found[large][0] / large / (found[small][0] / small)
    reached = (
        f"{ratio:.2f}x ({1e9 * found[large][0] / large:.1f} ns a token and round; whole fit {found[large][1]:.0f} s)"
    )
    yield Row(f"time of a token, {small:,} to {large:,} tokens", reached, "<= 1.3x", ratio <= 1.3)


def draws(size: Size) -> Iterator[Row]:
    """Memory beside the data of a fit that keeps the labels of 500 draws."""
    data = datasets.gaussian_mixture(size.rows, 16, 20, seed=0)
    options = {"n_chains": 1, "n_warmup": 5, "n_draws": 500, "keep_assignments": True, "random_state": 0}
    with Watched() as watched:
        ub.DirichletProcessMixture("diagonal_gaussian", jumps=False, **options).fit(data.X)
    share = (watched.peak - watched.before) * 2**20 / data.X.nbytes
    reached = f"{share:.2f}x ({watched.peak - watched.before:.0f} MB beside {data.X.nbytes / 2**20:.0f} MB of data)"
    yield Row(f"500 kept draws of {size.rows:,} x 16 rows", reached, "<= 0.5x beside the data", share <= 0.5)


def paper(size: Size) -> Iterator[Row]:
    million.compile_kernels()
    data = datasets.cambridge(1_000_000, noise=0.5, seed=0)
    for engine in ("threads", "processes"):
        began = time.perf_counter()
        found = million.run(data.X, million.SWEEPS // million.SWEEPS_PER_ROUND, engine_name=engine)
        took = time.perf_counter() - began
        what, reached = f"the paper's million, {size.workers} {engine}", f"{took:.1f} s ({found.phases})"
        yield Row(what, reached, "<= 8 s on 16 cores", took <= 8.0)


PARTS: dict[str, Callable[[Size], Iterator[Row]]] = {
    "sums": sums, "traffic": traffic, "cores": cores, "global": global_step, "tokens": tokens, "draws": draws,
    "million": paper,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them where none is named")
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--rows", type=int, help="of mixtures and features; a tenth of the tokens of words")
    parser.add_argument("--tokens", type=int, help="of the larger corpus")
    asked = parser.parse_args()
    large = asked.workers >= 16
    size = Size(
        asked.workers,
        asked.rows or (1_000_000 if large else 200_000),
        asked.tokens or (100_000_000 if large else 10_000_000),
    )
    print(f"{size.workers} workers, {size.rows:,} rows, {size.tokens:,} tokens; {available_cores()} cores", flush=True)
    failed = 0
    for part in asked.parts or [name for name in PARTS if large or name != "million"]:
        began = time.perf_counter()
        try:
            for row in PARTS[part](size):
                print(
                    f"{'ok  ' if row.ok else 'MISS'} {row.what:62s} {row.reached:96s} target {row.target}", flush=True
                )
        except Exception:  # the others may still have something to say
            traceback.print_exc()
            failed = 1
        print(f"     {part}: {time.perf_counter() - began:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
