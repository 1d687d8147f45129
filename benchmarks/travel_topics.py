"""How far chains of topics travel (make bench-travel): wrong starts, rounds until they are healed, what jumps cost.

    python benchmarks/travel_topics.py heal [--seeds 5] [-j 2] [--only words-direct] [--without]
    python benchmarks/travel_topics.py cost
    python benchmarks/travel_topics.py agree [--rounds 600] [-j 4]
        rank R-hat and effective sample size per CPU second of the second halves of chains from one topic, from few,
        from 200 random ones and from the default start; every fifth round is looked at

Words: 2,000 documents of 100 words from 30 topics, some of which are tiny. A true topic is matched by one that was
found if the cosine of their words is at least 0.8, one by one. Healed: at least 28 are matched, and the perplexity of
200 other documents, of which one half is seen, is within 3% of that of a chain from the true labels.
Rows: 20,000 in 100 groups, 20 Gaussian clusters in 8 columns. Healed: for each cluster there is an atom with 80% of
its rows, which are 80% of the atom's, and at most two more above 0.1%.
The seed is that of data, start and chain.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from mixing import Trace, report
from unbounded import datasets
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Gaussian
from unbounded.models.groups.jump import DEFAULT_JUMPS
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.predictive import Draw, completion
from unbounded.models.groups.start import begin
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup

SHARDS, ROUNDS, LOOK = 4, 200, 5
LATE = 400
ALIKE, NEAR, ENOUGH = 0.8, 1.03, 28
STARTS = ("one", "200", "default")
AGREE = ("one", "few", "200", "default")
KINDS = ("words-direct", "words-franchise", "rows-direct", "rows-franchise")


class Progress(NamedTuple):
    healed: bool
    text: str


class Words:
    def __init__(self, seed: int, n_documents: int = 2_000, held_out: int = 200):
        data = datasets.topics(n_documents + held_out, seed=seed)
        self.sizes = np.full(n_documents, 100)
        self.rows, self.truth, self.topics = (
            data.words[: 100 * n_documents],
            data.labels[: 100 * n_documents],
            data.topics,
        )
        self.likelihood: Any = Tokens().bind(describe(data.X[:n_documents]))
        held = data.words[100 * n_documents :].reshape(held_out, 2, 50)
        half, self.best = np.full(held_out, 50), 0.0
        self.seen, self.rest = ((np.ascontiguousarray(held[:, h].ravel()), half) for h in (0, 1))

    def perplexity(self, draw: Draw) -> float:
        likelihood = self.likelihood.at(draw.hyper.content)
        return float(np.exp(-completion(likelihood, draw, self.seen, self.rest, 20, key(1, "score")).mean()))

    def progress(self, model: Any, state: Any, engine: Any) -> Progress:
        draw = model.draw(state)
        self.best = self.best or self.perplexity(draw)  # the first is that of the true labels
        perplexity = self.perplexity(draw) / self.best
        phi = draw.statistics.toarray() + state.hyper.content.pseudo
        unit, true = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (phi, self.topics))
        likeness = unit @ true.T
        matched = int((likeness[linear_sum_assignment(-likeness)] >= ALIKE).sum())
        large = int((draw.counts > 0.001 * len(self.rows)).sum())
        text = f"{matched:2d} matched, perplexity {perplexity:.3f} of the truth's, {large:3d} topics above 0.1%"
        return Progress(matched >= ENOUGH and perplexity < NEAR, text)


class Rows:
    def __init__(self, seed: int, n: int = 20_000, k: int = 20, d: int = 8):
        rng = np.random.default_rng(seed)
        self.sizes = np.full(100, n // 100)
        shares = rng.dirichlet(np.full(k, 0.3), 100)
        self.truth = np.concatenate([rng.choice(k, size, p=p) for size, p in zip(self.sizes, shares, strict=True)])
        self.rows = 3.0 * rng.normal(size=(k, d))[self.truth] + rng.normal(size=(n, d))
        self.likelihood: Any = Gaussian().bind(describe(self.rows))

    def progress(self, model: Any, state: Any, engine: Any) -> Progress:
        labels = model.assignments(state, engine)
        table = np.zeros((labels.max() + 1, self.truth.max() + 1))
        np.add.at(table, (labels, self.truth), 1.0)
        own = table.max(0) > 0.8 * table.sum(0)
        pure = table.max(1) > 0.8 * table.sum(1)
        matched, large = int((own & pure[table.argmax(0)]).sum()), int((table.sum(1) > 0.001 * len(labels)).sum())
        healed = matched == table.shape[1] and large <= matched + 2
        return Progress(healed, f"{matched:2d} matched, {large:3d} atoms above 0.1%")


def start(name: str, data: Any, model: HybridGroups, engine: Any, seed: int) -> Any:
    if name == "one":
        return model.begin(engine, np.zeros_like(data.truth))
    if name == "truth":
        return model.begin(engine, data.truth)
    if name in ("default", "few"):
        model.begin(engine, np.zeros_like(data.truth))  # as fresh shards are
        return begin(model, engine, data.rows, "few" if name == "few" else "grown")
    return model.begin(engine, np.random.default_rng(seed).integers(int(name), size=len(data.truth)))


def built(kind: str, seed: int, without: bool) -> tuple[Any, HybridGroups, Any]:
    data: Any = Words(seed) if kind.startswith("words") else Rows(seed)
    setup = Setup(HierarchicalMeasure(), data.likelihood, data.sizes, SHARDS, seed)
    model = HybridGroups(setup, kind.split("-")[1], jumps=None if without else DEFAULT_JUMPS)
    return data, model, build("serial", model.recipe(data.rows))


def heal(kind: str, name: str, seed: int, without: bool) -> str:
    data, model, engine = built(kind, seed, without)
    chain = rounds(model, engine, model.begin(engine, data.truth))
    data.progress(model, next(islice(chain, 2 * LOOK, None)), engine)  # compiles, too
    began, looking = time.process_time(), 0.0
    chain = rounds(model, engine, start(name, data, model, engine, seed))
    healed, now = 0, Progress(False, "")
    for done, state in enumerate(islice(chain, ROUNDS), 1):
        if done % LOOK == 0:
            before = time.process_time()
            now = data.progress(model, state, engine)
            looking += time.process_time() - before
            healed = (healed or done) if now.healed else 0
    spent = time.process_time() - began - looking
    engine.close()
    found = f"healed from round {healed:3d} on" if healed else f"not healed in {ROUNDS} rounds"
    return f"{kind:15s} from {name:7s} seed {seed}: {found}, {spent:5.1f} CPU s; at the end {now.text}"


def cost(kind: str, round_: int) -> str:
    data, model, engine = built(kind, 1, False)
    first = replace(start("truth", data, model, engine, 1), round=round_)
    state, spent = first, dict.fromkeys(("jump", "sweep"), 0.0)
    for done in range(20 + 80):
        began = time.process_time()
        state = model.jump(state, engine)
        jumped = time.process_time()
        message = model.global_step(state)
        sent = time.process_time()
        gathered = engine.run(model.local_step, message)
        if done >= 20:
            spent["jump"] += jumped - began
            spent["sweep"] += time.process_time() - sent
        state = model.gather(state, message, gathered)
    engine.close()
    jump, sweep = (1e3 / 80 * spent[name] for name in ("jump", "sweep"))
    return f"{kind} from round {round_:3d}: jumps {jump:6.2f} ms a round, sweep {sweep:6.2f} ms: {jump / sweep:.0%}"


def trace(name: str, n_rounds: int) -> Trace:
    """Scalars of a chain on the documents of seed 1; the chain's own seed is that of its start."""
    data: Any = Words(1)
    setup = Setup(HierarchicalMeasure(), data.likelihood, data.sizes, SHARDS, AGREE.index(name))
    model = HybridGroups(setup)
    engine = build("serial", model.recipe(data.rows))
    chain, found, spent = rounds(model, engine, start(name, data, model, engine, 1)), [], 0.0
    for _ in range(n_rounds // LOOK):
        began = time.process_time()
        state = next(islice(chain, LOOK - 1, None))
        spent += time.process_time() - began
        live, table = state.occupied, state.table
        shares = table.counts[live] / len(data.rows)
        entropy = -(shares * np.log(shares)).sum()
        found.append((len(live), (shares > 0.001).sum(), entropy, -np.log(data.perplexity(model.draw(state)))))
    engine.close()
    names = ("clusters", "above 0.1%", "entropy", "held-out")
    return Trace(dict(zip(names, np.array(found, float).T, strict=True)), spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("heal", "cost", "agree"))
    parser.add_argument("--rounds", type=int, default=600, help="of chains that should agree")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help=f"kinds with this in them, of {', '.join(KINDS)}")
    parser.add_argument("--start", choices=STARTS, help="only this one")
    parser.add_argument("--without", action="store_true", help="without jumps, to compare")
    parser.add_argument("-j", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    kinds = [kind for kind in KINDS if chosen.only in kind]
    if chosen.what == "cost":
        for kind in kinds:
            for round_ in (0, LATE):
                print(cost(kind, round_), flush=True)
        return
    if chosen.what == "agree":
        with ProcessPoolExecutor(chosen.j) as pool:
            report("jumps", "2,000 documents", list(pool.map(partial(trace, n_rounds=chosen.rounds), AGREE)))
        return
    starts = [chosen.start] if chosen.start else STARTS
    tasks = [(*task, chosen.without) for task in product(kinds, starts, range(chosen.seeds))]
    with ProcessPoolExecutor(chosen.j) as pool:
        for line in pool.map(heal, *zip(*tasks, strict=True)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
