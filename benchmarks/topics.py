"""Speed of the topic sampler as shares of what the machine can do, measured in the same run (make bench-topics).

The limit of a sparse sweep is a probe that only gathers: for every token, the sum of the likelihoods of its word under
the topics that its document has, times their counts, and the mass of all other topics. Nothing is drawn, nothing is
looked for, and nothing changes; like the sweep, it keeps no running sums.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np

from speed import Row, cpu_seconds
from unbounded import datasets, engines
from unbounded.columns import describe
from unbounded.compiled.jit import jit
from unbounded.models.groups.measure import HierarchicalMeasure, Law, Urn
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.rows import GroupRows, SweepKeys, Tail
from unbounded.models.groups.shard import GroupRecipe
from unbounded.models.groups.words import kernel
from unbounded.models.groups.words.likelihood import Tokens, by_word
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup


@jit
def _gather(words, labels, offsets, phi, smooth, atoms):
    """Only the gathers of a sparse sweep."""
    active, times, place = np.empty(atoms, np.int64), np.empty(atoms, phi.dtype), np.full(atoms, -1)
    value = 0.0
    for g in range(offsets.size - 1):
        n_active = 0
        for i in range(offsets[g], offsets[g + 1]):
            if place[labels[i]] < 0:
                active[n_active] = labels[i]
                times[n_active] = 0
                place[labels[i]] = n_active
                n_active += 1
            times[place[labels[i]]] += 1
        for i in range(offsets[g], offsets[g + 1]):
            w = words[i]
            total = phi.dtype.type(0)
            for j in range(n_active):
                total += times[j] * phi[np.uint64(w), np.uint64(active[j])]
            value += total + smooth[w, 0]
        for j in range(n_active):
            place[active[j]] = -1
    return value


class Bench:
    """A shard of documents whose labels are a draw, and a finite part that fits them."""

    def __init__(self, n_topics: int, dtype: str, n_documents: int = 4_000, n_words: int = 5_000, gamma: float = 1.0):
        data = datasets.topics(n_documents, 100, n_words, n_topics, 0.02)
        self.sizes = np.full(n_documents, 100)
        bound = Tokens(0.02).bind(describe(data.X))
        self.model = HybridGroups(Setup(HierarchicalMeasure(3.0, gamma), bound, self.sizes, 1, 0, dtype=dtype))
        recipe = GroupRecipe(data.words, self.sizes, bound, 1)
        self.engine = engines.build("serial", recipe)
        state = self.model.begin(self.engine, data.labels)
        state = next(islice(rounds(self.model, self.engine, state), 4, None))
        message = self.model.global_step(state)
        self.shared, self.own = message.shared, message.own[0]
        self.shard = recipe(0)
        self.shard.restore(*self.engine.save())
        codes = self.own.codes[self.shard.labels]
        self.labels = np.where(codes < self.own.usable, codes, 0).astype(np.int32)  # no private atoms, none held
        self.eta, self.turn = bound.eta, 0
        self.tail = Tail(bound.tail(17, 8)[0], np.zeros(16, np.int64), np.full(17, -np.inf))
        side = 1 if self.own.usable == self.shared.n_shared else 0
        self.sums = np.column_stack([self.shared.finite.smooth[:, side], bound.base])

    @property
    def n(self) -> int:
        return len(self.labels)

    def aliases(self, tables: bool = True) -> kernel.Aliases:
        parts = self.shared.finite.parts
        n = parts.shape[1]
        return kernel.build_aliases(
            parts, n, self.shard.kept(by_word).frequency, kernel.WORTH * n if tables else self.n + 1
        )

    def sweep(self, tables: bool = True) -> None:
        self.turn += 1
        law = Law(self.shared.masses, 1.0, 0.0, Urn(1.0, 1.0))
        finite = kernel.WordFinite(
            self.shared.finite, self.sums, self.aliases(tables), self.own.usable, self.shared.n_shared, law, self.eta
        )
        rows = GroupRows(self.shard.data, self.labels, self.shard.offsets, 0)
        keys = SweepKeys(key(0, "label", self.turn), key(0, "stick", self.turn))
        kernel.sweep(rows, 0, finite, self.tail, kernel.GroupScratch.of(finite, self.tail), keys)

    def gather(self) -> Any:
        phi, smooth, _ = self.shared.finite
        return _gather(self.shard.data, self.labels, self.shard.offsets, phi, smooth, self.shared.n_shared)


def sparse_share(n_topics: int, dtype: str, target: float) -> Row:
    bench = Bench(n_topics, dtype)
    limit, sweep = cpu_seconds(bench.gather, bench.sweep)
    used = np.mean([len(np.unique(part)) for part in np.split(bench.labels, np.cumsum(bench.sizes)[:-1])])
    return Row(
        f"topics K={n_topics} {dtype}, {used:.1f} topics per document",
        f"{limit / sweep:.0%} of the gathers alone, {sweep / bench.n * 1e9:.0f} ns per token",
        f">= {target:.0%}",
        limit / sweep >= target,
    )


def alias_share(n_topics: int, n_words: int, gamma: float) -> Row:
    """Sweeps in which frequent words draw from alias tables, which are built in that time, beside searches alone."""
    bench = Bench(n_topics, "float64", 20_000, n_words, gamma)
    before = bench.labels.copy()
    bench.sweep()
    moved = np.mean(bench.labels != before)
    tabled = np.isin(bench.shard.data, np.flatnonzero(bench.aliases().row >= 0)).mean()
    without, with_ = cpu_seconds(lambda: bench.sweep(tables=False), bench.sweep)
    return Row(
        f"topics K={n_topics}, {moved:.0%} of the tokens move, {tabled:.0%} have alias tables",
        f"{with_ / without:.2f}x the time of searches alone ({with_ / bench.n * 1e9:.0f} ns per token)",
        "<= 1.05x",
        with_ <= 1.05 * without,
    )


def two_threads(corpus: datasets.TopicsData, target: float = 0.0, turns: int = 12, n_rounds: int = 12) -> Row:
    """Wall time of whole rounds on one thread, the caller's, and on two, which take turns: of each the tenth
    percentile, a round in which nobody else wanted a core.

    The first two rounds of a turn bring the data back into the cache and do not count. The gathers alone, measured in
    the same way, say how much of a second core the machine gives at that time.
    """
    sizes = np.asarray(corpus.X.sum(1)).ravel()
    bound = Tokens().bind(describe(corpus.X))
    steps: list[Callable[[], Any]] = []
    rng, columns = np.random.default_rng(0), 2 * len(corpus.topics) + 64  # more than there will be topics
    probe = partial(_gather_shard, rng.random((bound.n_terms, columns)), rng.random((bound.n_terms, 2)))
    for name, workers in (("serial", 1), ("threads", 2)):
        model = HybridGroups(Setup(HierarchicalMeasure(), bound, sizes, 8, 0))
        engine = engines.build(name, GroupRecipe(corpus.words, sizes, bound, 8), workers)
        chain = rounds(model, engine, model.begin(engine, corpus.labels))
        steps += [partial(next, chain), partial(engine.map, probe)]
    times: list[list[float]] = [[] for _ in steps]
    for _, (step, taken) in product(range(turns), zip(steps, times, strict=True)):
        for j in range(n_rounds):
            began = time.perf_counter()
            step()
            if j >= 2:
                taken.append(time.perf_counter() - began)
    best = np.quantile(times, 0.1, axis=1)
    ratio, limit = best[0] / best[2], best[1] / best[3]
    name = f"rounds, {len(sizes):,} documents, {bound.n_terms:,} words, {len(corpus.topics)} topics"
    speed = f"{best[0] / corpus.words.size * 1e9:.0f} ns per token on one"
    reached = f"two threads {ratio:.2f}x one, gathers alone {limit:.2f}x ({speed})"
    return Row(name, reached, f">= {target}x" if target else "none", ratio >= target)


def _gather_shard(phi: Any, smooth: Any, shard: Any) -> float:
    return float(_gather(shard.data, shard.labels, shard.offsets, phi, smooth, phi.shape[1]))


def main() -> int:
    rows = [
        sparse_share(k, dtype, target) for dtype in ("float64", "float32") for k, target in ((100, 0.5), (500, 0.6))
    ]
    rows += [alias_share(*case) for case in ((1_200, 300, 20.0), (2_500, 300, 200.0))]
    rows.append(two_threads(datasets.topics(20_000, seed=1), 1.8))
    rows.append(two_threads(datasets.topics(40_000, seed=1), 1.8))
    rows.append(two_threads(datasets.topics(2_250, 200, 10_000, 150, seed=1)))
    for row in rows:
        print(f"{'ok  ' if row.ok else 'MISS'} {row.what:60s} {row.reached:74s} target {row.target}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
