"""Larger problems, where enumeration cannot go: the same answer for every P, and mixing that does not suffer from P."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice

import numba
import numpy as np
import pytest
from enumeration import judge
from flat import Flat
from flat import check as flat_check

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import Gaussian, gaussian
from unbounded.models.mixtures import kernel
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.model import RowRecipe
from unbounded.round import rounds
from unbounded.setup import Setup

N_ROWS = 200
KAPPA, DOF, SCALE = 0.5, 30.0, 28.0  # covariances nearly known: clusters come and go within a few rounds
BATCH = 100  # rounds, many autocorrelation times: batch means are independent
ROOM = 40  # more clusters than any draw has
MEASURES = {"dp": (1.0, 0.0), "py": (0.5, 0.25)}


APART, OVERLAPPING = 3.0, 1.2  # half the distance between two neighbours, in standard deviations


def four_clusters(apart: float = APART) -> np.ndarray:
    rng = np.random.default_rng(7)
    centres = apart * np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    return centres[rng.integers(0, 4, N_ROWS)] + rng.standard_normal((N_ROWS, 2))


# ---- the reference: Neal's Algorithm 3, from the textbook


@numba.njit(cache=True)
def log_student(x, y, m, sums):
    """Log predictive of the row (x, y) given m rows with sums (x, y, xx, xy, yy): a bivariate t. Prior mean 0."""
    kappa, dof = KAPPA + m, DOF + m
    a, b = sums[0] / kappa, sums[1] / kappa
    ratio = (kappa + 1.0) / kappa
    s = (SCALE + sums[2] - kappa * a * a) * ratio
    t = (sums[3] - kappa * a * b) * ratio
    u = (SCALE + sums[4] - kappa * b * b) * ratio
    determinant = s * u - t * t
    x, y = x - a, y - b
    distance = (u * x * x - 2.0 * t * x * y + s * y * y) / determinant
    constant = math.lgamma(0.5 * (dof + 1.0)) - math.lgamma(0.5 * (dof - 1.0)) - math.log(math.pi)
    return constant - 0.5 * math.log(determinant) - 0.5 * (dof + 1.0) * math.log1p(distance)


@numba.njit(cache=True)
def add(sums, x, y, sign):
    for j, value in enumerate((x, y, x * x, x * y, y * y)):
        sums[j] += sign * value


@numba.njit(cache=True)
def collapsed_gibbs(X, labels, alpha, sigma, uniforms):
    """Algorithm 3 in place; returns K, the sum of squared cluster sizes and the largest size after every sweep."""
    sweeps, n = uniforms.shape
    counts = np.zeros(ROOM)
    sums = np.zeros((ROOM, 5))
    for i in range(n):
        counts[labels[i]] += 1
        add(sums[labels[i]], X[i, 0], X[i, 1], 1)
    trace = np.empty((sweeps, 3))
    log_weights = np.empty(ROOM)
    for sweep in range(sweeps):
        for i in range(n):
            x, y = X[i, 0], X[i, 1]
            counts[labels[i]] -= 1
            add(sums[labels[i]], x, y, -1)
            atoms, free, top = 0, -1, -np.inf
            for k in range(ROOM):
                log_weights[k] = -np.inf
                if counts[k] > 0:
                    atoms += 1
                    log_weights[k] = math.log(counts[k] - sigma) + log_student(x, y, counts[k], sums[k])
                elif free < 0:
                    free = k
                top = max(top, log_weights[k])
            sums[free] = 0.0
            log_weights[free] = math.log(alpha + sigma * atoms) + log_student(x, y, 0.0, sums[free])
            chosen = pick(log_weights, max(top, log_weights[free]), uniforms[sweep, i])
            labels[i] = chosen
            counts[chosen] += 1
            add(sums[chosen], x, y, 1)
        trace[sweep, 0] = (counts > 0).sum()
        trace[sweep, 1] = (counts**2).sum()
        trace[sweep, 2] = counts.max()
    return trace


@numba.njit(cache=True)
def pick(log_weights, top, u):
    """An atom with probability proportional to its weight; few have any."""
    total = 0.0
    for k in range(len(log_weights)):
        if log_weights[k] > -np.inf:
            log_weights[k] = math.exp(log_weights[k] - top)
            total += log_weights[k]
        else:
            log_weights[k] = 0.0
    left, last = u * total, 0
    for k in range(len(log_weights)):
        if log_weights[k] > 0.0:
            last = k
            left -= log_weights[k]
            if left < 0.0:
                break
    return last


QUESTIONS = ["K", "sum of squares", "largest"]


@cache
def reference(measure, sweeps, apart=APART):
    """(means [30, 3], a draw of the labels for every one of 30 chains)."""
    X, rng, means, ends = four_clusters(apart), np.random.default_rng(0), [], []
    for _ in range(30):
        labels = np.zeros(len(X), np.int64)
        trace = collapsed_gibbs(X, labels, *MEASURES[measure], rng.random((300 + sweeps, len(X))))
        means.append(trace[300:].mean(axis=0))
        ends.append(labels)
    return np.array(means), ends


# ---- the sampler


def trace_of(X, measure, rule, n_shards, starts, n_rounds, **options):
    """[chains, rounds, 3]: the traces of chains that start from the reference's draws; sweeps alone, unless asked."""
    likelihood = Gaussian(mean=0.0, kappa=KAPPA, dof=DOF, scale=SCALE).bind(describe(X))
    engine = build("serial", RowRecipe(X, likelihood, n_shards))
    out = np.empty((len(starts), n_rounds, 3))
    for c, labels in enumerate(starts):
        setup = Setup(PitmanYor(*MEASURES[measure]), likelihood, len(X), n_shards, c)
        model = HybridMixture(setup, rule=rule, **{"jumps": None} | options)
        for i, state in enumerate(islice(rounds(model, engine, model.begin(engine, labels)), n_rounds)):
            counts = state.table.counts[state.occupied]
            out[c, i] = len(counts), (counts**2).sum(), counts.max()
    engine.close()
    return out


def autocorrelation_time(traces: np.ndarray) -> float:
    """Integrated autocorrelation time of [chains, rounds], with Sokal's window: stop at five times the estimate."""
    x = traces - traces.mean()
    n = x.shape[1]
    rho = np.array([(x[:, : n - lag] * x[:, lag:]).mean() for lag in range(n // 2)]) / (x**2).mean()
    times = 2.0 * np.cumsum(rho) - 1.0
    inside = np.flatnonzero(np.arange(len(times)) >= 5.0 * times)
    return float(times[inside[0]]) if len(inside) else np.inf


SIZES = [
    pytest.param("dp", 16, 300, {}, id="short"),
    pytest.param("dp", 30, 1500, {}, id="long-dp", marks=pytest.mark.long),
    pytest.param("py", 30, 1500, {"jumps": Jumps()}, id="long-py-jumps", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("measure", "chains", "n_rounds", "options"), SIZES)
def test_any_number_of_shards_agrees_with_collapsed_gibbs(measure, chains, n_rounds, options):
    X = four_clusters()
    means, starts = reference(measure, 3 * n_rounds)
    truth, truth_error = means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))
    times = {}
    for n_shards in (1, 4, 16):
        traces = trace_of(X, measure, Ghosts(), n_shards, starts[:chains], n_rounds, **options)
        times[n_shards] = autocorrelation_time(traces[:, :, 0])
        batches = traces.reshape(-1, BATCH, 3).mean(axis=1)
        verdict = judge(QUESTIONS, batches, truth, times[n_shards], BATCH / 8, truth_error)
        k = traces[:, :, 0].mean()
        print(f"{measure} P={n_shards}: E[K] {k:.2f}, truth {truth[0]:.2f}, time {times[n_shards]:.1f}; {verdict}")
        assert verdict.passed, f"P={n_shards}: {verdict}"
    assert max(times[4], times[16]) < 2.5 * times[1], times


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"jumps": Jumps()}], ids=["sweeps", "jumps"])
def test_three_rows_a_shard_on_overlapping_clusters(options):
    """64 shards of 200 rows, where clusters come and go all the time: long enough to see 3% of E[K]."""
    X, n_rounds = four_clusters(OVERLAPPING), 1500
    means, starts = reference("dp", 20 * n_rounds, OVERLAPPING)
    truth, truth_error = means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))
    traces = trace_of(X, "dp", Ghosts(), 64, starts, n_rounds, **options)
    chains = traces.mean(axis=1)
    time = autocorrelation_time(traces[:, :, 0])
    verdict = judge(QUESTIONS, chains, truth, time, n_rounds / 8, truth_error)
    error = np.hypot(chains[:, 0].std(ddof=1) / np.sqrt(len(chains)), truth_error[0])
    print(f"P=64: E[K] {chains[:, 0].mean():.3f}, truth {truth[0]:.3f}, error {error:.3f}, time {time:.1f}; {verdict}")
    assert error < 0.01 * truth[0]
    assert verdict.passed, str(verdict)


def test_the_published_rule_loses_atoms():
    """Atoms are born on one shard but die on all: with 16 shards far too few are left."""
    X = four_clusters()
    means, starts = reference("dp", 900)
    traces = trace_of(X, "dp", AsPublished("cold"), 16, starts[:24], 60)[:, 20:]
    verdict = judge(QUESTIONS, traces.mean(axis=1), means.mean(axis=0))
    print(f"published, P=16: E[K] {traces[:, :, 0].mean():.2f}, truth {means[:, 0].mean():.2f}; {verdict}")
    assert verdict.z[0] < -8, str(verdict)
    assert traces[:, :, 0].mean() < means[:, 0].mean() - 0.4


FLAT = [
    Flat(1.0, 0.0, 100, Ghosts(20)),
    Flat(2.0, 0.3, 150, Ghosts(30), 4, 2),
    Flat(-0.2, 0.5, 90, Ghosts(9), 3),
    Flat(0.5, 0.2, 60, OneOpen(), 3),
]


@pytest.mark.parametrize("flat", FLAT, ids=str)
def test_without_data_the_posterior_is_the_prior(flat):
    verdict = flat_check(flat)
    assert verdict.passed, str(verdict)


def test_a_sweep_may_make_more_atoms_than_it_has_room_for(monkeypatch):
    """With a high concentration the tail must grow within a sweep."""
    grown, compiled = 0, kernel.local_step

    def counted(specs, rows, finite, scope, tail, keys, *rest):
        nonlocal grown
        done = compiled(specs, rows, finite, scope, tail, keys, *rest)
        grown += done < len(keys) * len(rows.labels)
        return done

    monkeypatch.setattr(kernel, "local_step", counted)
    verdict = flat_check(Flat(1000.0, 0.0, 1000, Ghosts(250), chains=30, rounds=8))
    assert grown > 20
    assert verdict.passed, str(verdict)


def staged_chain(X, start, columns, monkeypatch):
    """(labels [rounds, n], the forms of the finite part) with the bounded form from so many columns on."""
    monkeypatch.setattr(gaussian, "STAGED_COLUMNS", columns)
    likelihood = Gaussian().bind(describe(X))
    engine = build("serial", RowRecipe(X, likelihood, 2))
    model = HybridMixture(Setup(PitmanYor(1.0, 0.0), likelihood, len(X), 2, 3))
    chain, forms = [], set()
    for state in islice(rounds(model, engine, model.begin(engine, start)), 15):
        chain.append(model.assignments(state, engine))
        forms.add(type(model.global_step(state).shared.finite).__name__)
    engine.close()
    return np.array(chain), forms


@pytest.mark.long
def test_bounds_in_many_columns_change_no_label(monkeypatch):
    """Leaving out atoms that cannot matter gives the chain that looks at all of them."""
    columns, rng = gaussian.STAGED_COLUMNS, np.random.default_rng(0)
    start = rng.integers(0, 16, 800)
    far, near = 8.0 * rng.standard_normal((8, columns)), 0.35 * rng.standard_normal((16, columns))
    X = far[start // 2] + near[start] + rng.standard_normal((800, columns))
    bounded, forms = staged_chain(X, start, columns, monkeypatch)
    dense, dense_forms = staged_chain(X, start, columns + 1, monkeypatch)
    assert forms == {"StagedGaussian"}
    assert dense_forms == {"ndarray"}
    assert (bounded[-1] != bounded[0]).sum() > 20
    np.testing.assert_array_equal(bounded, dense)
