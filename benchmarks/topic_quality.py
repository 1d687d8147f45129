"""Perplexity and coherence of topics (make bench-topic-quality): the HDP beside LDA, and one prior at a time.

    python benchmarks/topic_quality.py run --data FOLDER ap bbc_news --seeds 3 -j 2 --out results.jsonl
    python benchmarks/topic_quality.py run --data FOLDER ap --only "hdp" "hdp eta=0.05" "lda K=100" --rows 1000
    python benchmarks/topic_quality.py table results.jsonl more.jsonl

A system is a name and options, such as "lda K=100 alpha=0.1 eta=0.01":

    hdp      eta=, gamma=, alpha=: a number fixes one, A/B is a Gamma(A, B) prior; nothing is the default.
             base=uniform; rounds=; repeats=: how soon documents repeat themselves, a number or A/B
    lda      collapsed Gibbs sampling. K=, sweeps=; alpha=, eta=: pseudo-counts of a topic in a document, of a word in a
             topic; alpha=sampled and eta=sampled: symmetric; alpha=learned, eta=learned: asymmetric and sampled;
             alpha=sparse: K is a limit, as for a truncated HDP; eta=frequency: in proportion to the words' frequencies
    sklearn  LatentDirichletAllocation (variational). K=, alpha=, eta=, iterations=

An argument @FILE stands for the lines of that file.

All are measured alike: topic_measures.py. Every system has one core, and perplexity both of its last draw and of the
mean over draws. Results are JSON lines, one for each corpus, system and seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice, pairwise, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np
from scipy import sparse

import plain_lda
from topic_measures import Coherence, Corpus, report, split, tokens
from unbounded import datasets, engines
from unbounded.columns import describe
from unbounded.models.groups import point_estimate
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.predictive import Gibbs, Newcomers, fold_in_given, predictives
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.groups.words.reseat import log_completed
from unbounded.models.groups.words.start import grown
from unbounded.priors import Gamma
from unbounded.randomness import key
from unbounded.round import rounds
from unbounded.setup import Setup

SHARDS, N_DRAWS, SEEING = 8, 8, 40
PEERS = [
    "hdp",
    "hdp base=uniform",
    "hdp repeats=1/0.002",
    *(f"lda K={k} alpha=0.1 eta=0.01" for k in (50, 100, 200)),
    *(f"lda K={k} alpha=learned eta={eta}" for k in (50, 100, 200) for eta in (0.01, 0.05)),
    "lda K=100 alpha=0.1 eta=0.1",
    "lda K=100 alpha=learned eta=sampled",
    "lda K=100 alpha=learned eta=learned",
    *(f"sklearn K={k}" for k in (50, 100, 200)),
]


class Seen(NamedTuple):
    """What is measured of a fit: of every draw phi [words, K] and the pseudo-counts of topics in a new document."""

    phis: list[Any]
    masses: list[Any]
    after: list[float]  # how soon documents repeat themselves
    last: tuple[Any, Any]  # phi [K, words] and sizes of the topics of one draw
    mean: tuple[Any, Any]  # and of the estimate from all of them
    seconds: float
    facts: dict[str, Any]


def fit(corpus: Corpus, system: str, seed: int) -> dict[str, Any]:
    name, options = parsed(system)
    seen = {"hdp": hdp, "lda": lda, "sklearn": scikit}[name](corpus, seed, options)
    draws = zip(seen.phis, seen.masses, seen.after, strict=True)
    logs = np.array([completed(corpus, *draw, seed) for draw in draws])
    weights = tokens(corpus.rest)[1].sum()
    mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    found = {"perplexity": np.exp(-mean.sum() / weights), "perplexity_of_one": np.exp(-logs[-1].sum() / weights)}
    within, outside = Coherence(corpus.train), Coherence(corpus.others)
    return {
        **{name: round(float(value), 1) for name, value in found.items()},
        "cpu_seconds": round(seen.seconds, 1),
        "one": report(*seen.last, within),
        "mean": report(*seen.mean, within),
        "one_on_others": report(*seen.last, outside),
        **seen.facts,
    }


def parsed(system: str) -> tuple[str, dict[str, str]]:
    name, *options = system.split()
    return name, dict(option.split("=") for option in options)


def completed(corpus: Corpus, phi: Any, masses: Any, after: float, seed: int) -> Any:
    """[tokens of the rest]: log probability of each, given the tokens seen of its document."""
    words, sizes = tokens(corpus.seen)
    table = np.ascontiguousarray(phi)
    how, seen = Gibbs(SEEING, SEEING // 2, key(seed, "completion")), (words, sizes)
    _, shares = fold_in_given(Newcomers(table, *seen), masses, after, how)
    words, sizes = tokens(corpus.rest)
    document = np.repeat(np.arange(len(sizes)), sizes)
    logs = np.log(np.einsum("ik,ik->i", table[words], shares[document]))
    return logs if after == np.inf else log_completed(logs, (words, document), seen, after)


# ---- systems


def hdp(corpus: Corpus, seed: int, options: dict[str, str]) -> Seen:
    train, n_rounds = corpus.train, int(options.get("rounds", 600))
    words, sizes = tokens(train)
    repeats = prior(options["repeats"]) if "repeats" in options else None
    tokens_ = Tokens(prior(options.get("eta", "1/10")), options.get("base", "learned"), repeats)
    likelihood = tokens_.bind(describe(train))
    measure = HierarchicalMeasure(prior(options.get("alpha", "1/1")), prior(options.get("gamma", "1/1")))
    sampler = HybridGroups(Setup(measure, likelihood, sizes, SHARDS, seed, n_rounds=n_rounds))
    engine = engines.build("serial", sampler.recipe(words))
    began = time.process_time()
    first = grown(sampler, engine, words)
    started, facts = time.process_time() - began, {"topics_at_the_start": len(first.occupied)}
    snapshots = []
    for i, state in enumerate(islice(rounds(sampler, engine, first), n_rounds)):
        if i >= n_rounds // 2 and (n_rounds - 1 - i) % max(1, n_rounds // 2 // N_DRAWS) == 0:
            draw = sampler.draw(state)
            draw = draw._replace(statistics=sparse.csr_matrix(draw.statistics))
            snapshots.append((draw, sampler.assignments(state, engine)))
    spent = time.process_time() - began
    engine.close()
    draws, labels = zip(*snapshots, strict=True)
    facts |= {"seconds_of_the_start": round(started, 1), "hyper": [float(v) for v in draws[-1].hyper.array()[:3]]}
    after = [draw.hyper.content.after for draw in draws]
    facts |= {"repeats_after": after[-1]} if repeats else {}
    facts |= documents_of_topics(labels[-1], sizes)
    last = (draws[-1].statistics.toarray(), draws[-1].counts)
    phis = [predictives(likelihood, draw, words[:0]).table for draw in draws]
    return Seen(phis, [draw.masses for draw in draws], after, last, estimate(draws, labels, likelihood), spent, facts)


def prior(text: str) -> float | Gamma:
    if "/" not in text:
        return float(text)
    shape, rate = text.split("/")
    return Gamma(float(shape), float(rate))


def estimate(draws: Any, labels: Any, likelihood: Any) -> tuple[Any, Any]:
    """Topics as the estimator gives them: those of a reference draw, in whose terms all others are read."""
    named = point_estimate.reference(labels)
    phi = 0.0
    for draw, own in zip(draws, labels, strict=True):
        expected = point_estimate.spread(own, named).T @ draw.statistics + draw.hyper.content.pseudo
        phi = phi + expected / expected.sum(1, keepdims=True)
    return phi, np.bincount(named)


def documents_of_topics(labels: Any, sizes: Any) -> dict[str, Any]:
    """How many documents a topic has, as the exponential of the entropy of its tokens over them: medians by size."""
    document = np.repeat(np.arange(len(sizes)), sizes)
    uses = sparse.coo_matrix((np.ones(len(labels)), (labels, document))).tocsr()
    uses.sum_duplicates()
    n = np.asarray(uses.sum(1)).ravel()
    p = uses.multiply(1.0 / n[:, None]).tocsr()
    p.data = -p.data * np.log(p.data)
    effective, share = np.exp(np.asarray(p.sum(1)).ravel()), n / n.sum()
    edges = (0.0, 0.001, 0.003, 0.01, 0.03, 1.0)
    medians = [
        float(np.median(own)) if len(own := effective[(share > a) & (share <= b)]) else None for a, b in pairwise(edges)
    ]
    return {"documents_by_size": medians, "topics_per_document": float(np.diff(uses.tocsc().indptr).mean())}


def lda(corpus: Corpus, seed: int, options: dict[str, str]) -> Seen:
    words, sizes = tokens(corpus.train)
    settings = lda_settings(corpus, options)
    draws, spent = plain_lda.sample(words, sizes, corpus.train.shape[1], seed, settings)
    phis = [draw.phi for draw in draws]
    some = draws[-1].by_word.sum(0) > 0
    last = (draws[-1].by_word.T[some], draws[-1].by_word.sum(0)[some])
    facts = {"hyper": [float(draws[-1].alpha.sum()), float(draws[-1].eta.mean())]}
    never = [np.inf] * len(draws)
    return Seen(phis, [draw.alpha for draw in draws], never, last, (sum(phis).T[some], last[1]), spent, facts)


def lda_settings(corpus: Corpus, options: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"K": int(options.get("K", 100)), "sweeps": int(options.get("sweeps", 600))}
    settings |= {"draws": N_DRAWS, "sparse": options.get("alpha") == "sparse"}
    for name, usual in (("alpha", 0.1), ("eta", 0.01)):
        value = options.get(name, str(usual))
        kinds = ("sampled", "learned", "sparse", "frequency")
        settings |= {f"{name}_sampled": value in kinds, f"{name}_learned": value in ("learned", "sparse")}
        settings[name] = usual if settings[f"{name}_sampled"] else float(value)
    settings["base"] = base_of(corpus.train, options.get("eta", ""))
    return settings


def base_of(X: Any, name: str) -> Any:
    """Proportions of words: those of all tokens, or all the same."""
    return np.asarray(X.sum(0)).ravel() + 0.5 if name == "frequency" else np.ones(X.shape[1])


def scikit(corpus: Corpus, seed: int, options: dict[str, str]) -> Seen:
    from sklearn.decomposition import LatentDirichletAllocation

    k = int(options.get("K", 100))
    alpha, eta = (float(options[name]) if name in options else None for name in ("alpha", "eta"))
    settings = {"doc_topic_prior": alpha, "topic_word_prior": eta, "max_iter": int(options.get("iterations", 50))}
    model = LatentDirichletAllocation(k, learning_method="batch", random_state=seed, n_jobs=1, **settings)
    began = time.process_time()
    shares = model.fit_transform(corpus.train)
    spent = time.process_time() - began
    phi = model.components_ / model.components_.sum(1, keepdims=True)
    sizes = np.asarray(corpus.train.sum(1)).ravel() @ shares
    return Seen([phi.T], [np.full(k, alpha or 1.0 / k)], [np.inf], (phi, sizes), (phi, sizes), spent, {})


# ---- running and reading


class Job(NamedTuple):
    corpus: str
    system: str
    seed: int


def work(job: Job, folder: Path, rows: int | None) -> dict[str, Any]:
    corpus = split(datasets.load(folder / job.corpus / "counts_csr.npz"), rows)
    about = {"documents": corpus.train.shape[0], "tokens": corpus.n_tokens}
    return {**job._asdict(), **about, **fit(corpus, job.system, job.seed)}


def run(options: argparse.Namespace) -> None:
    """All jobs, systems in turn, so that what is not finished in time is missing evenly; kernels are compiled first."""
    jobs = [Job(*job[::-1]) for job in product(range(options.seeds), options.only or PEERS, options.corpora)]
    began = time.time()
    with options.out.open("a") as out, ProcessPoolExecutor(options.j, get_context("spawn")) as pool:
        for system in ("hdp rounds=2", "lda K=2 sweeps=30 alpha=learned"):
            pool.submit(work, Job(options.corpora[0], system, 0), options.data, 50).result()
        waiting = [pool.submit(work, job, options.data, options.rows) for job in jobs]
        try:
            for done in as_completed(waiting, options.limit and options.limit - (time.time() - began)):
                result = done.result()
                out.write(json.dumps(result) + "\n")
                out.flush()
                print(f"{time.time() - began:5.0f} s  {line(result)}", flush=True)
        except TimeoutError:
            print(f"{sum(not job.done() for job in waiting)} of {len(waiting)} are not finished in time.", flush=True)
            for process in pool._processes.values():
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)


def line(result: dict[str, Any]) -> str:
    one, mean = result["one"], result["mean"]
    return (
        f"{result['corpus']:12s} {result['system']:36s} {result['seed']}  perplexity {result['perplexity']:6.0f}"
        f"  NPMI by share {one['npmi_by_share']:.3f} {mean['npmi_by_share']:.3f}"
        f"  above 0.1% {one['npmi_above_0.1%']:.3f} {mean['npmi_above_0.1%']:.3f}"
        f"  topics {one['n_topics']} {one['n_above_0.1%']} {one['n_above_1%']}  {result['cpu_seconds']:.0f} CPU s"
    )


def show(files: Iterable[Path]) -> None:
    """A table of means over seeds: of NPMI the last draw's, and of all draws' estimate."""
    found = defaultdict(list)
    for file in files:
        for text in file.read_text().splitlines():
            result = json.loads(text)
            found[result["corpus"], result["documents"], result["system"]].append(result)

    def mean(results: list[Any], *path: str) -> str:
        values: list[Any] = results
        for name in path:
            values = [v[name] for v in values]
        return f"{np.mean(values):.3f}" if max(values) < 1 else f"{np.mean(values):.0f}"

    print("| corpus | system | seeds | perplexity (of one draw) | NPMI by share (estimate) | above 0.1% (estimate) "
          "| other documents: by share, above 0.1% | topics, > 0.1%, > 1% | CPU s |")  # fmt: skip
    print("|---" * 9 + "|")
    for (corpus, n, system), r in sorted(found.items()):
        pair = {
            name: f"{mean(r, 'one', name)} ({mean(r, 'mean', name)})" for name in ("npmi_by_share", "npmi_above_0.1%")
        }
        other = ", ".join(mean(r, "one_on_others", name) for name in pair)
        topics = ", ".join(mean(r, "one", name) for name in ("n_topics", "n_above_0.1%", "n_above_1%"))
        print(f"| {corpus} {n:,} | {system} | {len(r)} | {mean(r, 'perplexity')} ({mean(r, 'perplexity_of_one')}) | "
              f"{' | '.join(pair.values())} | {other} | {topics} | {mean(r, 'cpu_seconds')} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("corpora", nargs="+", help="folders in --data with counts_csr.npz")
    runs.add_argument("--data", type=Path, required=True)
    runs.add_argument("--only", nargs="+", help="systems; the default are the peers")
    runs.add_argument("--seeds", type=int, default=1)
    runs.add_argument("--rows", type=int, help="at most so many documents to train on")
    runs.add_argument("--out", type=Path, default=Path("topic_quality.jsonl"))
    runs.add_argument("--limit", type=float, help="stop after so many seconds, with what is finished by then")
    runs.add_argument("-j", type=int, default=1, help="processes")
    commands.add_parser("table").add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.command == "table":
        show(options.files)
    else:
        run(options)


if __name__ == "__main__":
    sys.exit(main())
