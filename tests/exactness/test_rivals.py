"""The samplers that hybrid is compared with: exact ones agree with enumeration, approximate ones show their bias.

All of them: engines change no bit, a run resumes where it stopped, and the estimator says whether its draws are exact.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from enumeration import Run, check, compare, simulate
from flat import Flat
from flat import check as flat_check
from problems import CASES, problem
from scipy import sparse

from unbounded import Beta, DirichletProcessMixture, Gamma, PitmanYor, PitmanYorMixture, sources
from unbounded.chain import run
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import Ghosts
from unbounded.likelihoods import Bernoulli
from unbounded.models.labelled import labels as labelled
from unbounded.models.mixtures import start
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.models.mixtures.rivals import algorithm8
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.samplers import DIRICHLET, PITMAN_YOR
from unbounded.round import rounds
from unbounded.setup import Setup

EXACT = {"hybrid", "collapsed", "algorithm8", "auxiliary", "slice"}


def ran(sampler: str, n_shards: int = 1, sweeps: int = 1, **options: object) -> Run:
    return Run(Ghosts(), n_shards, sweeps, sampler=sampler, options=tuple(options.items()))


def names(parameters: tuple) -> str:
    return "-".join(str(word) for word in parameters)


# ---- exact ones

SHORT = [
    ("bernoulli", "py", 5, ran("collapsed")),
    ("bernoulli", "dp", 5, ran("algorithm8", auxiliary=1)),
    ("bernoulli", "py-sampled", 5, ran("algorithm8", 1, 2)),
    ("sharp", "py", 5, ran("algorithm8", auxiliary=2)),
    ("gaussian-hole", "dp", 4, ran("algorithm8")),
    ("multinomial-csr", "py-negative", 5, ran("algorithm8")),
    ("bernoulli", "dp", 5, ran("slice", 3)),
    ("bernoulli-holes", "py", 5, ran("slice", 2)),
    ("gaussian-hole", "py-negative", 4, ran("slice", 2)),
    ("bernoulli", "dp-sampled", 5, ran("slice")),
    ("bernoulli", "dp", 5, ran("auxiliary", 3)),
    ("bernoulli", "py", 5, ran("auxiliary", 2)),
    ("sharp", "py-high", 5, ran("auxiliary", 3, 2)),
    ("multinomial-csr", "dp", 5, ran("auxiliary", 2)),
    ("bernoulli", "py-sampled", 5, ran("auxiliary", 2)),
    ("sharp", "dp", 5, ran("partially_collapsed", repaired=True)),
]


@pytest.mark.parametrize("parameters", SHORT, ids=names)
def test_exact_samplers_agree_with_enumeration(parameters):
    case, measure, n, run = parameters
    verdict = check(problem(case, measure, n), run)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("size", [1, 2])
def test_blocks_of_algorithm_8(monkeypatch, size):
    """Atoms that a block of rows makes must be there for the next one."""
    monkeypatch.setattr(algorithm8, "BLOCK", size)
    verdict = check(problem("bernoulli", "py"), ran("algorithm8"))
    assert verdict.passed, str(verdict)


def test_blocks_of_rows_change_no_slice(monkeypatch):
    def labels():
        X = (np.random.default_rng(0).random((70, 3)) < 0.4).astype(float)
        model = Slice(Setup(DirichletProcess(1.0), Bernoulli().bind(describe(X)), 70, 2, 3))
        engine = build("serial", model.recipe(X))
        *_, state = islice(rounds(model, engine, model.begin(engine, np.arange(70) % 4)), 20)
        return model.assignments(state, engine).tolist()

    whole = labels()
    monkeypatch.setattr(labelled, "lanes_for", lambda *sizes: 8)
    assert labels() == whole


def test_other_atoms_above_a_slice_have_their_law():
    """Down to almost nothing they add up to all that is beside the occupied atoms: Gamma(alpha + K sigma)."""
    rng = np.random.default_rng(5)
    for measure, k in ((PitmanYor(1.5, 0.0), 3), (PitmanYor(0.7, 0.3), 2), (PitmanYor(-0.1, 0.3), 1)):
        hyper = measure.start()
        total = np.array([measure.rest_weights(hyper, k, 1e-7, rng).sum() for _ in range(4000)])
        shape = hyper.alpha + k * hyper.sigma
        error = np.sqrt(shape / len(total))
        assert abs(total.mean() - shape) < 5 * error
        assert abs(total.var() - shape) < 5 * np.sqrt((3 * shape**2 + 6 * shape - shape**2) / len(total))
        low = [measure.rest_weights(hyper, k, 2.0, rng) for _ in range(50)]
        assert all((weights >= 2.0).all() for weights in low)


def test_a_discount_that_takes_too_many_atoms_is_refused():
    measure = PitmanYor(1.0, 0.9)
    with pytest.raises(RuntimeError, match="large discounts"):
        measure.rest_weights(measure.start(), 5, 1e-12, np.random.default_rng(0))


def test_the_urn_of_processors():
    """Two clusters share a processor with probability (alpha / P + sigma) / (alpha + sigma)."""
    rng = np.random.default_rng(2)
    for alpha, sigma, p in ((0.8, 0.5, 3), (1.0, 0.0, 2)):
        measure = PitmanYor(alpha, sigma)
        homes = np.array([measure.deal(measure.start(), 2, p, rng) for _ in range(4000)])
        share = (alpha / p + sigma) / (alpha + sigma)
        assert abs((homes[:, 0] == homes[:, 1]).mean() - share) < 5 * np.sqrt(share * (1 - share) / 4000)
        assert np.abs(np.bincount(homes[:, 1], minlength=p) / 4000 - 1 / p).max() < 5 * np.sqrt(0.25 / 4000)


# ---- approximate ones

BIASED = [
    ("bernoulli", "dp", 5, ran("uncollapsed", 2, empty=1)),
    ("sharp", "dp", 5, ran("partially_collapsed")),
]


@pytest.mark.parametrize("parameters", BIASED, ids=names)
def test_approximate_samplers_fail_by_far(parameters):
    case, measure, n, run = parameters
    verdict = check(problem(case, measure, n), run)
    print(names(parameters), verdict)
    assert verdict.largest > 8, str(verdict)
    assert not verdict.passed


def distance(tiny, empty: int, chains: int, n_rounds: int) -> float:
    """Total variation between a chain's law and the posterior."""
    run = replace(ran("uncollapsed", 2, empty=empty), chains=chains, rounds=n_rounds)
    return 0.5 * float(np.abs(simulate(tiny, run).frequencies.mean(0) - tiny.probabilities).sum())


def test_more_empty_atoms_are_less_biased():
    one, three, many = (distance(problem("bernoulli", "dp", 4), empty, 40, 120) for empty in (1, 3, 30))
    assert one > 1.5 * three > 1.5 * many
    assert one > 0.1
    assert many < 0.04


# ---- all of them

ROWS = (np.random.default_rng(1).random((40, 4)) < np.repeat([[0.9, 0.2], [0.1, 0.8]], 2, 1)[[0, 1] * 20]).astype(float)
FIVE = np.arange(40) % 5
BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 6, "n_snapshots": 3, "n_workers": 2, "random_state": 4}


def fitted(sampler, kind=DirichletProcessMixture, X=ROWS, likelihood="bernoulli", init=FIVE, **options):
    shards = {"n_shards": DIRICHLET[sampler].shards(3)}
    return kind(likelihood, sampler=sampler, init=init, keep_assignments=True, **BRIEF | shards | options).fit(X)


def everything(model):
    return model.posterior_.to_dict(), model.labels_.tobytes(), model.predict_proba(ROWS).tobytes()


def stop_at(monkeypatch, when: int) -> None:
    """Press Ctrl-C as the when-th draw is recorded."""
    record, count = run._record, [0]

    def watched(*args):
        count[0] += 1
        if count[0] == when:
            os.kill(os.getpid(), signal.SIGINT)
        return record(*args)

    monkeypatch.setattr(run, "_record", watched)


@pytest.mark.parametrize("sampler", DIRICHLET)
def test_engines_and_stops_change_no_bit(tmp_path, monkeypatch, sampler):
    whole = fitted(sampler, engine="serial")
    assert whole.exact_ == (sampler in EXACT)
    assert len(np.unique(whole.posterior_["assignments"][0], axis=0)) > 1
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert fitted(sampler, checkpoint=tmp_path).interrupted_
    assert everything(fitted(sampler, checkpoint=tmp_path, engine="threads")) == everything(whole)


@pytest.mark.parametrize("sampler", ["algorithm8", "auxiliary", "slice", "uncollapsed"])
def test_processes_change_no_bit(sampler):
    assert everything(fitted(sampler, engine="processes")) == everything(fitted(sampler, engine="serial"))


@pytest.mark.parametrize("sampler", PITMAN_YOR)
def test_pitman_yor_fits(sampler):
    model = fitted(sampler, PitmanYorMixture, concentration=0.5, discount=0.2, init="prior")
    assert model.exact_ == (sampler in EXACT)
    assert np.isfinite(model.score_samples(ROWS)).all()


@pytest.mark.parametrize("sampler", DIRICHLET)
def test_sparse_rows_that_join_the_clusters_of_a_pilot(monkeypatch, sampler):
    monkeypatch.setattr(start, "PILOT_ROWS", 20)
    words = sparse.csr_matrix(np.random.default_rng(0).poisson(0.7, (30, 6)).astype(float))
    model = fitted(sampler, X=words, likelihood="multinomial", engine="serial", init="grown")
    assert model.posterior_["assignments"].shape == (1, 6, 30)
    assert len(model.labels_) == 30


def test_auxiliary_processors_refuse_what_cannot_move(tmp_path):
    with pytest.raises(ValueError, match="missing values"):
        fitted("auxiliary", X=CASES["gaussian-hole"][0], likelihood="gaussian", init="one")
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(ValueError, match="no source"):
        fitted("auxiliary", X=sources.open(tmp_path / "rows.npy"))


# ---- the longer grid

LIKELIHOODS = ("gaussian-1", "gaussian-2", "mixed", "poisson", "categorical-holes", "diagonal-holes", "multinomial-csr")
IMPUTED = ("gaussian-holes", "gaussian-empty-row", "mixed-holes")


def grid(sampler: str) -> list[Run]:
    runs = {
        "collapsed": [ran(sampler)],
        "algorithm8": [ran(sampler, auxiliary=1), ran(sampler, 1, 2), ran(sampler, auxiliary=10)],
        "slice": [ran(sampler), replace(ran(sampler, 2), dtype="float32"), ran(sampler, 3)],
        "auxiliary": [ran(sampler), ran(sampler, 2, 3), ran(sampler, 3)],
    }[sampler]
    return [replace(run, seed=10 + i) for i, run in enumerate(runs)]


def joined(tiny, runs) -> None:
    """Each way to run on its own, and all chains together."""
    tallies = [simulate(tiny, run) for run in runs]
    verdicts = [compare(tiny, tally, run.rounds) for tally, run in zip(tallies, runs, strict=True)]
    failed = [f"{run}: {verdict}" for run, verdict in zip(runs, verdicts, strict=True) if not verdict.passed]
    together = compare(tiny, tallies[0].joined(*tallies[1:]), runs[0].rounds)
    print(tiny.name, runs[0].sampler, f"mean rms {np.mean([v.rms for v in verdicts]):.2f}", together)
    assert not failed, "\n".join(failed)
    assert together.passed, str(together)


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["collapsed", "algorithm8", "slice", "auxiliary"])
@pytest.mark.parametrize("measure", ["dp", "py"])
@pytest.mark.parametrize("case", LIKELIHOODS)
def test_exact_samplers_on_every_likelihood(case, measure, sampler):
    joined(problem(case, measure), grid(sampler))


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["algorithm8", "slice"])
@pytest.mark.parametrize("case", IMPUTED)
def test_imputed_holes(case, sampler):
    joined(problem(case, "py-negative"), grid(sampler)[:2])


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["collapsed", "algorithm8", "slice", "auxiliary"])
@pytest.mark.parametrize("case", ["bernoulli", "gaussian-1"])
def test_sampled_hyper_parameters(case, sampler):
    """The slice sampler needs a prior that leaves the discount small."""
    low = replace(problem(case, "py-sampled"), measure=PitmanYor(Gamma(1.5, 1.0), Beta(2.0, 20.0)))
    for tiny in (problem(case, "dp-sampled"), low if sampler == "slice" else problem(case, "py-sampled")):
        joined(tiny, grid(sampler)[:2])


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["collapsed", "algorithm8", "slice", "auxiliary"])
@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 0.0), (2.0, 0.2)])
def test_many_rows_without_data(alpha, sigma, sampler):
    """More rows than a block holds, and processors with many clusters: the posterior is the prior."""
    verdict = flat_check(Flat(alpha, sigma, 100, Ghosts(), DIRICHLET[sampler].shards(4), rounds=150, sampler=sampler))
    print(sampler, alpha, sigma, verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.long
def test_the_bias_of_ten_empty_atoms():
    """About .15, .05 and .02 in total variation for 1, 3 and 10."""
    tiny = problem("bernoulli", "dp", 4)
    one, three, ten = (distance(tiny, empty, 100, 1000) for empty in (1, 3, 10))
    print(f"total variation {one:.3f}, {three:.3f}, {ten:.3f}")
    assert one > 2 * three > 4 * ten
    assert not check(tiny, replace(ran("uncollapsed", 2, empty=10), chains=100, rounds=1500)).passed
