"""Moves of whole columns of Z together with their loadings and weights (docs/features.md, "Jumps").

Row by row, a column follows its loadings and they follow it: a column of noise keeps a direction of its own for
thousands of rounds, and where one atom stands for several and others take back what is too much, every way out passes
through improbable states. A jump replaces some columns R by others R' at once:

1. loadings and weights t of R are drawn from their law h given Z, all others integrated out;
2. they are changed into those of R', t', with a chance c;
3. a launch (launch.py), which sees t' and all other columns, draws the entries of R'; another one, which sees t, tells
   how probable those of R are.

Both ways the probability q of the entries is known, and with it the ratio of Metropolis and Hastings:

    p(Z', X) h(t' | Z') c(t' -> t) q(R | t) / p(Z, X) h(t | Z) c(t -> t') q(R' | t')

Whether t' can be better than t is asked of a random pool of rows first; most proposals end there.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logsumexp

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message
from unbounded.models.features.launch import Launches, Pool, Terms, apply, find, launch, look, of_columns
from unbounded.models.features.likelihood import FeatureStatistics
from unbounded.models.features.model import Features
from unbounded.models.features.state import FeatureState
from unbounded.randomness import generator, key

POOL = 1000
TRIES = 8  # in a round that has jumps
DEATH, DISCOVERY, ABSORPTION, MULTIPLE = range(4)
KINDS = (0.35, 0.2, 0.45, 0.0), (0.3, 0.2, 0.4, 0.1)  # their chances, for 0/1 entries and for counts
FEWER = 0.95  # chance that atoms get fewer; that of a discovery is the opposite
MOST = 3  # atoms that absorb another one
LIKELY, UNLIKELY = 0.75, 0.03  # chance that an atom whose loadings say so, or do not, is among them
ALIKE = 0.3  # cosine of loadings
SPREADS = 8  # standard deviations of proposed loadings, each half of the one before
FACTORS = (0.7, 0.2, 0.05)  # standard deviations of the log of a factor of counts
TINY = 0.02  # nats a row; an atom that is worth less than this counts as worth nothing
SLACK, DOUBT = 50.0, 0.05  # nats, and nats a row, by which the pool may be wrong
STEPS = 10  # of EM in a discovery


class Place(NamedTuple):
    """Where a chain of jumps is, and its log density with loadings and weights integrated out."""

    state: FeatureState
    statistics: FeatureStatistics
    log_target: float

    @property
    def size(self) -> int:
        return len(self.statistics.members) - self.state.fixed


class Guide(NamedTuple):
    """Around which loadings, and from which law of weights, a new atom is drawn."""

    loadings: Array  # [D]
    variance: float
    shapes: tuple[Array, Array]


class Change(NamedTuple):
    """Columns that go, and what comes in their place; of several, the first is the atom that is absorbed."""

    kind: int
    fewer: bool
    gone: Array  # positions among the occupied atoms
    old: Terms
    new: Terms
    sign: float = 1.0  # of loadings that absorb
    guide: Guide | None = None


def jump(model: Features, state: FeatureState, engine: Engine) -> FeatureState:
    """The state after some proposals, one after another."""
    rng, n = generator(model.seed, "jump", state.round), model.n_rows
    chosen = np.arange(n) if n <= POOL else np.unique(rng.integers(0, n, POOL))
    here = place(model, state)
    pool = look(model, state, engine, chosen)
    for turn in range(TRIES):
        there = _try(model, here, engine, pool, turn)
        if there is not here:
            here, pool = there, look(model, there.state, engine, chosen)
    return here.state


def place(model: Features, state: FeatureState) -> Place:
    statistics = model.everything(state)
    return Place(state, statistics, _log_target(model, state, statistics, state.table.entries))


def _log_target(model: Features, state: FeatureState, statistics: FeatureStatistics, entries: float) -> float:
    members = statistics.members[: len(statistics.members) - state.fixed].astype(float)
    prior = model.measure.log_prob(state.hyper, members, model.n_rows) + entries
    return float(prior + model.likelihood.log_joint(state.scales, statistics))


def _try(model: Features, here: Place, engine: Engine, pool: Pool, turn: int) -> Place:
    """The place after one proposal."""
    state = here.state
    rng = generator(model.seed, "try", state.round, turn)
    change = propose(model, here, pool, rng)
    if change is None:
        return here
    kept = np.setdiff1d(np.arange(len(here.statistics.members)), change.gone)
    others, seen = of_columns(here.statistics, kept), pool._replace(Z=pool.Z[kept])
    (old, before), (new, after) = (launch(model, state, seen, others, terms) for terms in (change.old, change.new))
    promise = _promise(after - before, model.n_rows)
    if not math.log(rng.random()) < promise:
        return here
    launches = Launches(change.gone, old, new, key(model.seed, "entries", state.round, turn))
    own = [state.sources(p) for p in range(model.n_shards)]
    found = engine.run(partial(find, model), Message(launches, own)).shared
    there = _there(model, here, kept, found)
    if there is None:
        return here
    back = _reverse(change, len(kept) - state.fixed)
    log_ratio = there.log_target - here.log_target + float(found["log_q"][0] - found["log_q"][1])
    log_ratio += _log_terms(model, there, back) + log_chance(model, there, back)
    log_ratio -= _log_terms(model, here, change) + log_chance(model, here, change)
    if not math.log(rng.random()) < log_ratio - promise:
        return here
    gathered = engine.run(partial(apply, model), Message(launches, own))
    return place(model, model.assemble(state.round, state.hyper, state.scales, gathered))


def _promise(gain: float, n_rows: int) -> float:
    """Log ratio of a first decision, by what the pool lets expect: the opposite for the way back."""
    return math.copysign(max(abs(gain) - SLACK - DOUBT * n_rows, 0.0), gain)


def _there(model: Features, here: Place, kept: Array, found: dict[str, Array]) -> Place | None:
    """The place that is proposed, with the old table: the columns that stay, then new ones, then always-on ones."""
    if not found["members"].all():
        return None  # a column without rows is none
    state, before = here.state, of_columns(here.statistics, kept)
    size, k = len(kept) - state.fixed, len(found["members"])
    order = np.concatenate([np.arange(size), np.arange(len(kept), len(kept) + k), np.arange(size, len(kept))])
    products = np.block([[before.products, found["cross"]], [found["cross"].T, found["products"]]])
    every = before._replace(
        members=np.append(before.members, found["members"]),
        products=products,
        sums=np.concatenate([before.sums, found["sums"]]),
    )
    statistics = of_columns(every, order)
    entries = state.table.entries - float(found["entries"][0]) + float(found["entries"][1])
    return Place(state, statistics, _log_target(model, state, statistics, entries))


def _reverse(change: Change, first: int) -> Change:
    gone = first + np.arange(len(change.new.weights))
    return change._replace(fewer=not change.fewer, gone=gone, old=change.new, new=change.old)


# ---- what is proposed


def propose(model: Features, here: Place, pool: Pool, rng: np.random.Generator) -> Change | None:
    """A change, if there are columns for it."""
    kind = int(rng.choice(4, p=KINDS[0 if model.measure.binary else 1]))
    fewer = bool(rng.random() < (1.0 - FEWER if kind == DISCOVERY else FEWER))
    sign = 1.0 if rng.random() < 0.5 else -1.0
    gone = _choose(model, here, Change(kind, fewer, np.empty(0, np.int64), *_nothing(here), sign), rng)
    if gone is None:
        return None
    change = Change(kind, fewer, gone, _draw_terms(model, here, gone, rng), _nothing(here)[0], sign)
    if kind == DISCOVERY:
        change = change._replace(guide=_guide(model, here, pool, gone, rng))
    return change._replace(new=_changed(model, here, change, rng))


def _nothing(here: Place) -> tuple[Terms, Terms]:
    none = Terms(np.empty((0, here.statistics.sums.shape[1])), np.empty(0))
    return none, none


def _choose(model: Features, here: Place, change: Change, rng: np.random.Generator) -> Array | None:
    """Columns that go."""
    size, kind = here.size, change.kind
    if kind in (DEATH, DISCOVERY):
        if not change.fewer:
            return change.gone
        return rng.choice(size, 1, p=_deaths(model, here)) if size else None
    if size == 0:
        return None
    if kind == MULTIPLE:
        return rng.integers(size, size=1)
    if not change.fewer:
        return np.sort(rng.permutation(size)[: rng.integers(1, MOST + 1)])
    absorbed = int(rng.integers(size))
    chosen = np.flatnonzero(rng.random(size) < _inclusion(model, here, absorbed, change.sign))
    return np.append(absorbed, chosen) if 0 < len(chosen) <= MOST else None


def _changed(model: Features, here: Place, change: Change, rng: np.random.Generator) -> Terms:
    """Loadings and weights of what comes."""
    kind, old, measure = change.kind, change.old, model.measure
    if kind == MULTIPLE:
        factor = math.exp(FACTORS[rng.integers(len(FACTORS))] * rng.standard_normal())
        return Terms(factor * old.loadings, old.weights - math.log(factor))
    if change.guide is not None and not change.fewer:
        noise = math.sqrt(change.guide.variance) * rng.standard_normal((1, old.loadings.shape[1]))
        return Terms(change.guide.loadings + noise, measure.draw_weights(*change.guide.shapes, rng))
    if change.fewer:  # all but the first stay, perhaps with another sign
        weights = measure.log_weights(here.state.hyper, _amounts(here, change), model.n_rows, rng)
        return Terms(change.sign * old.loadings[1:], weights)
    spread = math.sqrt(here.state.scales.loading) * 0.5 ** rng.integers(SPREADS)
    first = old.loadings.sum(axis=0) + spread * rng.standard_normal(old.loadings.shape[1])
    broad = np.ones(1 + len(old.weights))
    return Terms(np.vstack([first, change.sign * old.loadings]), measure.draw_weights(broad, broad, rng))


def log_chance(model: Features, here: Place, change: Change) -> float:
    """Log density of a change, given what is drawn of the columns that go."""
    kind, old, new, measure = change.kind, change.old, change.new, model.measure
    if kind == MULTIPLE:  # the volume of loadings grows by factor^D: half of it is here, half on the way back
        return 0.5 * old.loadings.size * float(new.weights[0] - old.weights[0])
    log_fewer = math.log(FEWER) - math.log1p(-FEWER)
    if change.fewer:
        shapes = measure.weight_shapes(here.state.hyper, _amounts(here, change), model.n_rows)
        value = _log_gone(model, here, change) + float(measure.log_weight_density(new.weights, *shapes).sum())
        return value - log_fewer if kind == DISCOVERY else value + log_fewer
    if change.guide is not None:
        apart, shapes = new.loadings - change.guide.loadings, change.guide.shapes
        value = _log_normal(apart, np.array([change.guide.variance]))
    else:
        broad = np.ones(len(new.weights))
        apart, shapes = new.loadings[0] - old.loadings.sum(axis=0), (broad, broad)
        value = _log_normal(apart, here.state.scales.loading * 0.25 ** np.arange(SPREADS))
        value += _log_sets(len(old.weights), here.size)
    return value + float(measure.log_weight_density(new.weights, *shapes).sum())


def _log_gone(model: Features, here: Place, change: Change) -> float:
    """Log probability that these columns are chosen to get fewer."""
    absorbed = change.gone[0]
    if change.kind != ABSORPTION:
        return math.log(_deaths(model, here)[absorbed])
    inclusion = _inclusion(model, here, absorbed, change.sign)
    inside = np.isin(np.arange(here.size), change.gone[1:])
    others = np.arange(here.size) != absorbed
    return float(np.log(np.where(inside, inclusion, 1.0 - inclusion)[others]).sum()) - math.log(here.size)


def _log_sets(count: int, size: int) -> float:
    """Log probability that these `count` of `size` atoms emit another one."""
    if count == 0:
        return 0.0
    log_count = math.log((MOST - count + 1.0 if count == size else 1.0) / MOST)
    return float(log_count - (gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)))


def _log_normal(apart: Array, variances: Array) -> float:
    """Log density of a mixture of spherical Gaussians around zero."""
    each = -0.5 * (apart.size * np.log(2.0 * math.pi * variances) + np.sum(apart**2) / variances)
    return float(logsumexp(each) - math.log(len(variances)))


def _amounts(here: Place, change: Change) -> Array:
    """How much there may be of the atoms that absorb: where they or the absorbed one are, or one of the two."""
    products, members = here.statistics.products, here.statistics.members
    first, rest = change.gone[0], change.gone[1:]
    both = products[first, rest] * (1.0 if change.sign > 0 else 2.0)
    return np.clip(members[first] + members[rest] - both, 1.0, here.statistics.n_rows)


def _deaths(model: Features, here: Place) -> Array:
    """Chance of every atom to be the one that dies: the less its loadings say, the more."""
    loadings = model.likelihood.posterior(here.state.scales, here.statistics)
    own = np.diagonal(loadings.covariance)[: here.size]
    squares = np.sum(loadings.mean[: here.size] ** 2, axis=1)
    gain = 0.5 * (squares / own - loadings.mean.shape[1] * np.log(here.state.scales.loading / own))
    weight = 1.0 / (TINY + np.maximum(gain, 0.0) / model.n_rows)
    return np.asarray(weight / weight.sum())


def _inclusion(model: Features, here: Place, absorbed: int, sign: float) -> Array:
    """Chance of every atom to absorb one: those that say a part of what it says, or (negative) take away from it."""
    loadings = model.likelihood.expected(here.state.scales, here.statistics)[: here.size]
    lengths = np.linalg.norm(loadings, axis=1, keepdims=True)
    unit = loadings / np.where(lengths > 0.0, lengths, 1.0)
    chance = np.where(sign * (unit @ unit[absorbed]) > ALIKE, LIKELY, min(UNLIKELY, 0.5 / here.size))
    chance[absorbed] = 0.0
    return np.asarray(chance)


# ---- loadings and weights


def _draw_terms(model: Features, here: Place, columns: Array, rng: np.random.Generator) -> Terms:
    """From their law given Z, all other loadings and weights integrated out."""
    state = here.state
    if not len(columns):
        return _nothing(here)[0]
    loadings = model.likelihood.posterior(state.scales, here.statistics)
    lower = np.linalg.cholesky(loadings.covariance[np.ix_(columns, columns)])
    drawn = loadings.mean[columns] + lower @ rng.standard_normal((len(columns), loadings.mean.shape[1]))
    members = here.statistics.members[columns].astype(float)
    return Terms(drawn, model.measure.log_weights(state.hyper, members, model.n_rows, rng))


def _log_terms(model: Features, here: Place, change: Change) -> float:
    """Log density of what `_draw_terms` draws of the columns that go."""
    state, measure, columns = here.state, model.measure, change.gone
    if not len(columns):
        return 0.0
    loadings = model.likelihood.posterior(state.scales, here.statistics)
    covariance = loadings.covariance[np.ix_(columns, columns)]
    apart = change.old.loadings - loadings.mean[columns]
    log_det = np.linalg.slogdet(2.0 * math.pi * covariance)[1]
    value = -0.5 * (apart.shape[1] * log_det + np.sum(apart * np.linalg.solve(covariance, apart)))
    members = here.statistics.members[columns].astype(float)
    shapes = measure.weight_shapes(state.hyper, members, model.n_rows)
    return float(value + measure.log_weight_density(change.old.weights, *shapes).sum())


def _guide(model: Features, here: Place, pool: Pool, gone: Array, rng: np.random.Generator) -> Guide:
    """What the pool says of another atom beside the columns that stay: EM from a main component of its residuals."""
    state, noise, m = here.state, here.state.scales.noise, len(pool.rows)
    kept = np.setdiff1d(np.arange(len(here.statistics.members)), gone)
    rest = pool.rows - pool.Z[kept].T @ model.likelihood.expected(state.scales, of_columns(here.statistics, kept))
    middle = rest.mean(axis=0)
    _, lengths, directions = np.linalg.svd(rest - middle, full_matrices=False)
    which = min(int(rng.geometric(0.5)), len(lengths)) - 1
    sign = 1.0 if rng.random() < 0.5 else -1.0
    step = directions[which] * (sign * 2.0 * lengths[which] / math.sqrt(m))
    base, chance = middle - 0.5 * step, 0.5
    for _ in range(STEPS):
        inside = expit(((rest - base) @ step - 0.5 * step @ step) / noise + math.log(chance / (1.0 - chance)))
        chance = float(np.clip(inside.mean(), 0.5 / m, 1.0 - 0.5 / m))
        base = (1.0 - inside) @ rest / ((1.0 - chance) * m)
        step = inside @ rest / (chance * m) - base
    amounts = np.array([max(chance * m, 1.0)])
    variance = noise / (min(chance, 1.0 - chance) * m)
    return Guide(step, variance, model.measure.weight_shapes(state.hyper, amounts, float(m)))
