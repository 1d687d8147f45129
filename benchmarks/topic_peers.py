"""Topics beside tomotopy and gensim in one run (make bench-topic-peers): same documents, same held-out halves.

Every system gets the same CPU time on one core and its own defaults. Quality is the perplexity of the second halves of
held-out documents given their first halves: each system's own inference of a document's proportions from the words
seen, then p(w) = sum_k share_k phi_kw for each other word. Words that no training document has are left out.

    python benchmarks/topic_peers.py [--seconds 40] [--data FOLDER] [corpus ...]

Corpora: synthetic (30 topics), and those of FOLDER (ap, bbc_news, 20newsgroups: counts_csr.npz).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from topic_measures import HELD_OUT, Corpus, perplexity, split, tokens
from unbounded import HierarchicalDirichletProcess, datasets, engines
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.predictive import Gibbs, Newcomers, completion, gibbs
from unbounded.models.groups.shard import GroupRecipe
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup


def with_truth(corpus: Corpus, truth: Any) -> Corpus:
    masses, shares_of = truth.weights * truth.concentration, np.ascontiguousarray(truth.topics.T)
    words, sizes = tokens(corpus.seen)
    _, shares = gibbs(Newcomers(shares_of, words, sizes), masses, Gibbs(100, 50, key(0, "truth")))
    return corpus._replace(truth=perplexity(corpus.rest, shares, truth.topics))


class Result(NamedTuple):
    name: str
    perplexity: float
    topics: str
    speed: float  # tokens per CPU second
    seconds: float


def ours(corpus: Corpus, seconds: float) -> Result:
    """As many rounds as the time allows by short fits before (the first compiles), half of them warm-up."""

    def fit(n_warmup: int, n_draws: int) -> tuple[Any, float]:
        began = time.process_time()
        settings = {"n_warmup": n_warmup, "n_draws": n_draws, "n_snapshots": 16, "n_workers": 1, "random_state": 1}
        return HierarchicalDirichletProcess(**settings).fit(corpus.train), time.process_time() - began

    fit(1, 1)
    model, short = fit(1, 1)
    n_rounds = max(4, int((0.75 * seconds - short) / seconds_of_a_round(model, corpus)))  # the rest: point estimates
    model, spent = fit(n_rounds // 2, n_rounds - n_rounds // 2)
    seen, rest = tokens(corpus.seen), tokens(corpus.rest)
    logs = [
        completion(model._likelihood, draw, seen, rest, 40, key(1, "peers", j)) for j, draw in enumerate_draws(model)
    ]
    value = float(np.exp(-(logsumexp(logs, axis=0) - np.log(len(logs))).mean()))
    sizes = model._snapshots[-1]["counts"]
    topics = f"{len(sizes)} ({(sizes > 0.001 * corpus.n_tokens).sum()})"
    return Result("unbounded", value, topics, corpus.n_tokens / seconds_of_a_round(model, corpus), spent)


def seconds_of_a_round(model: Any, corpus: Corpus, n_rounds: int = 20) -> float:
    """CPU time of a round from the last draw on."""
    words, sizes = tokens(corpus.train)
    sampler = HybridGroups(Setup(model._prior, model._likelihood, sizes, model.n_shards, 1))
    engine = engines.build("serial", GroupRecipe(words, sizes, model._likelihood, model.n_shards))
    chain = rounds(sampler, engine, sampler.begin(engine, model._snapshots[-1]["labels"]))
    next(islice(chain, 4, None))
    began = time.process_time()
    next(islice(chain, n_rounds - 1, None))
    engine.close()
    return (time.process_time() - began) / n_rounds


def enumerate_draws(model: Any) -> Any:
    return enumerate(draw for draw, _, _ in model._draws())


def tomotopy(corpus: Corpus, seconds: float, initial_k: int = 2, name: str = "tomotopy") -> Result:
    import tomotopy as tp

    model = tp.HDPModel(seed=1, initial_k=initial_k)
    for document in as_words(corpus.train):
        if document:
            model.add_doc(document)
    began, sweeps = time.process_time(), 0
    while time.process_time() - began < seconds:
        model.train(10, workers=1)
        sweeps += 10
    spent = time.process_time() - began
    live = np.array([model.is_live_topic(k) for k in range(model.k)])
    phi = np.zeros((model.k, corpus.train.shape[1]))
    columns = [int(word) for word in model.used_vocabs]
    for k in np.flatnonzero(live):
        phi[k, columns] = model.get_topic_word_dist(k)
    shares = np.array([model.infer(model.make_doc(d), iterations=100)[0] if d else live for d in as_words(corpus.seen)])
    shares = shares * live
    shares /= shares.sum(1, keepdims=True)
    sizes = np.array(model.get_count_by_topics())[live]
    topics = f"{live.sum()} ({(sizes > 0.001 * corpus.n_tokens).sum()})"
    return Result(name, perplexity(corpus.rest, shares, phi), topics, sweeps * corpus.n_tokens / spent, spent)


def gensim(corpus: Corpus, seconds: float) -> Result:
    from gensim.models import HdpModel

    def bags(X: Any) -> list[Any]:
        return [
            list(zip(X.indices[a:b].tolist(), X.data[a:b].astype(int).tolist(), strict=True))
            for a, b in pairwise(X.indptr)
        ]

    train = [bag for bag in bags(corpus.train) if bag]
    began, passes = time.process_time(), 1
    model = HdpModel(train, {w: str(w) for w in range(corpus.train.shape[1])}, random_state=1)
    while time.process_time() - began < seconds:
        model.update(train)
        passes += 1
    spent = time.process_time() - began
    plain = model.suggested_lda_model()
    gamma, _ = plain.inference(bags(corpus.seen))
    shares = gamma / gamma.sum(1, keepdims=True)
    value = perplexity(corpus.rest, shares, plain.get_topics())
    return Result("gensim", value, f"{shares.shape[1]} (truncation)", passes * corpus.n_tokens / spent, spent)


def as_words(X: Any) -> list[list[str]]:
    words, sizes = tokens(X)
    return [[str(w) for w in part] for part in np.split(words, np.cumsum(sizes)[:-1])]


def synthetic() -> Corpus:
    data = datasets.topics(20_000 + HELD_OUT, seed=1)
    return with_truth(split(data.X), data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*", default=["synthetic"])
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--data", type=Path, help="folder with a folder for each corpus")
    options = parser.parse_args()
    for name in options.corpora:
        corpus = synthetic() if name == "synthetic" else split(datasets.load(options.data / name / "counts_csr.npz"))
        truth = "" if corpus.truth is None else f"; the true topics {corpus.truth:.0f}"
        print(f"{name}: {corpus.train.shape[0]:,} documents, {corpus.n_tokens:,} tokens{truth}", flush=True)
        systems: list[Callable[[], Result]] = [
            lambda corpus=corpus: ours(corpus, options.seconds),
            lambda corpus=corpus: tomotopy(corpus, options.seconds),
            lambda corpus=corpus: gensim(corpus, options.seconds),
        ]
        results = [system() for system in systems]
        similar = int(results[0].topics.split()[0])
        results.append(tomotopy(corpus, options.seconds / 2, similar, f"tomotopy, {similar} topics to start"))
        for result in results:
            print(
                f"  {result.name:34s} perplexity {result.perplexity:7.0f}  topics (above 0.1%) {result.topics:18s}"
                f" {result.speed / 1e6:6.2f} M tokens per CPU s  {result.seconds:5.0f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main()
