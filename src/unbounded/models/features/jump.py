"""Moves of whole columns of Z together with their loadings and weights (docs/features.md, "Jumps").

Row by row, a column follows its loadings and they follow it: a column of noise keeps a direction of its own for
thousands of rounds, and where one atom stands for several while others subtract the excess, every way out passes
through improbable states. A jump replaces some columns R by others R' at once:

1. loadings and weights t of R are drawn from their law h given Z, all others integrated out;
2. loadings and weights t' of R' are proposed from t with density c;
3. a launch (launch.py), which sees t' and all other columns, draws the entries of R'; another one, which sees t, says
   how probable those of R are.

The probability q of the entries is known in both directions, and with it the Metropolis-Hastings ratio:

    p(Z', X) h(t' | Z') c(t' -> t) q(R | t) / p(Z, X) h(t | Z) c(t -> t') q(R' | t')

A random pool of rows decides first whether t' can be better than t (delayed acceptance); most proposals end there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Message
from unbounded.models.features.column_moves import Launches
from unbounded.models.features.fold import flips, fold
from unbounded.models.features.launch import (
    AtomDraws,
    Guide,
    JumpState,
    Pool,
    fetch,
    first_stage_log_ratio,
    fit,
    jump_state,
    launch,
    select_columns,
)
from unbounded.models.features.model import Features
from unbounded.models.features.state import FeatureState
from unbounded.randomness import generator, key

DEATH, ABSORPTION, DISCOVERY, MULTIPLE = range(4)
# Numbers of columns that are replaced, and of new ones, with the chance of each pair.
FITS = (
    *((0, 1), (1, 1), (1, 2), (2, 2), (3, 1), (4, 1)),
    *((1, 4), (2, 4), (3, 2), (3, 4), (4, 3), (4, 4), (5, 4), (6, 4), (7, 4), (8, 4)),
)
CHANCES = 0.15, 0.1, 0.08, 0.07, *12 * (0.05,)
RARE = 0.02  # share of the rows: atoms that fewer rows use are replaced as often as if so many did
MOST = 4  # atoms that absorb another one
LIKELY, UNLIKELY = 0.9, 0.03  # chance that an atom is among them, if its loadings suggest it or not
ALIKE = 0.3  # cosine of loadings
NEAR = 0.05  # relative distance from a sum of loadings that counts as no distance
STRICT = 10.0  # how strongly atoms with larger cosines are preferred for being replaced together
SPREADS = 8  # standard deviations of proposed loadings, each half of the one before
FACTORS = (2.0, 1.5, 3.0)  # by which loadings grow while counts shrink
BROAD = 0.2  # both shapes of a broad law of weights
MANY_ROWS, EARLY = 10_000, (50, 8)  # first rounds, all with jumps: with up to so many rows, and with more
EVERY, EVERY_ROWS = (24, 64), 1_200_000  # later: rounds between jumps (least, most), and these rounds times the rows
FIRST = 2  # times as many proposals in the first round, before columns of noise have taken anything over
TINY = 0.02  # nats a row: an atom that gains less than this counts as useless


@dataclass(frozen=True)
class Jumps:
    """How much is tried in a round; none of it depends on Z.

    By default there are more rounds with jumps where rows are few and rounds short.
    """

    early: int | None = None  # how many of the first rounds have jumps; all of them do
    every: int | None = None  # later, one in so many rounds has jumps; gaps double until then
    tries: int = 4  # proposals in such a round; more in the first one
    folds: int = 3  # proposed folds; counts have no folds, and as many more tries instead
    pool: int = 1000  # rows that the driver sees: one half to find columns with, the other to judge them by
    ahead: float = 0.95  # chance of the informed direction; the reverse is hardly ever accepted, and needed for balance
    kinds: tuple[float, float, float, float] = (0.25, 0.3, 0.4, 0.05)  # deaths, absorptions, discoveries, multiples
    slack: float = 50.0  # nats by which the pool may be wrong
    doubt: float = 0.03  # nats a row by which it may be wrong besides

    def due(self, round_: int, n_rows: int) -> bool:
        early = EARLY[n_rows > MANY_ROWS] if self.early is None else self.early
        every = max(EVERY[0], min(EVERY[1], EVERY_ROWS // n_rows)) if self.every is None else self.every
        if round_ < early:
            return True
        last, gap = early - 1, 2
        while gap < every and last < round_:
            last, gap = last + gap, 2 * gap
        return round_ == last or (round_ > last and (round_ - last) % every == 0)


class Change(NamedTuple):
    """Columns to remove, and new ones in their place; an atom that is absorbed comes first."""

    kind: int
    ahead: bool
    gone: Array  # positions among the occupied atoms
    old: AtomDraws
    new: AtomDraws
    sign: float  # of loadings that absorb
    guide: Guide | None = None  # of a discovery


def jump(model: Features, state: FeatureState, engine: Engine, jumps: Jumps) -> FeatureState:
    """The state after a number of proposals, one after another."""
    if not jumps.due(state.round, model.n_rows):
        return state
    rng, n = generator(model.seed, "jump", state.round), model.n_rows
    chosen = np.arange(n) if n <= jumps.pool else np.unique(rng.integers(0, n, jumps.pool))
    here = flips(jump_state(model, state), engine)
    pool, doubt = fetch(model, here.state, engine, chosen), jumps.slack + jumps.doubt * n
    n_folds = jumps.folds if model.measure.binary else 0
    tries = [partial(fold, turn=turn) for turn in range(n_folds)]
    n_tries = (jumps.tries + jumps.folds - n_folds) * (FIRST if state.round == 0 else 1)
    tries += [partial(_try, jumps=jumps, turn=turn) for turn in range(n_tries)]
    for one in tries:
        there = one(here, engine, pool, doubt)
        if there is not here:
            here, pool = there, fetch(model, there.state, engine, chosen)
    return here.state


def _try(here: JumpState, engine: Engine, pool: Pool, doubt: float, jumps: Jumps, turn: int) -> JumpState:
    """The state after one proposal."""
    model, state = here.model, here.state
    rng = generator(model.seed, "try", state.round, turn)
    change = _propose(here, pool, jumps, rng)
    if change is None:
        return here
    kept = here.without(change.gone)
    others, seen = select_columns(here.statistics, kept), pool.half(1)
    seen = seen._replace(Z=seen.Z[kept])
    (old, before), (new, after) = (launch(model, state, seen, others, terms) for terms in (change.old, change.new))
    first = first_stage_log_ratio(after - before, doubt)
    if not math.log(rng.random()) < first:
        return here
    launches = Launches(change.gone, old, new, key(model.seed, "entries", state.round, turn))
    own = state.sources()
    found = engine.run(model.together(model.kernel.find), Message(launches, own)).shared
    there = _proposed_state(here, kept, found)
    if there is None:
        return here
    back = _reverse(change, there.size)
    log_ratio = there.log_target - here.log_target
    log_ratio += float(found["log_q"][0] - found["log_q"][1])  # mutant: jump entries
    log_ratio += _log_draws(there, back) - _log_draws(here, change)  # mutant: jump draws
    log_ratio += _log_chance(there, back) - _log_chance(here, change)
    log_ahead = math.log(jumps.ahead) - math.log1p(-jumps.ahead)
    log_ratio += -log_ahead if change.ahead else log_ahead  # mutant: jump ahead
    if not math.log(rng.random()) < log_ratio - first:  # mutant: jump decision
        return here
    gathered = engine.run(model.together(model.kernel.apply), Message(launches, own))
    return jump_state(model, model.assemble(state.round, state.hyper, state.scales, gathered))


def _proposed_state(here: JumpState, kept: Array, found: Arrays) -> JumpState | None:
    """The columns that stay, then new ones, then always-on ones; None if a new column has no rows.

    Its `state`, which says where columns are on the shards, is still the old one.
    """
    if not found["members"].all():
        return None
    state, before = here.state, select_columns(here.statistics, kept)
    size, k = len(kept) - state.fixed, len(found["members"])
    order = np.concatenate([np.arange(size), np.arange(len(kept), len(kept) + k), np.arange(size, len(kept))])
    products = np.block([[before.products, found["cross"]], [found["cross"].T, found["products"]]])
    every = before._replace(
        members=np.append(before.members, found["members"]),
        products=products,
        sums=np.concatenate([before.sums, found["sums"]]),
    )
    statistics = select_columns(every, order)
    # mutant: jump counts
    entries = state.table.entries - float(found["entries"][0]) + float(found["entries"][1])
    return JumpState(here.model, state, statistics, entries)


def _reverse(change: Change, size: int) -> Change:
    k = len(change.new.weights)
    return change._replace(ahead=not change.ahead, gone=np.arange(size - k, size), old=change.new, new=change.old)


# ---- what is proposed


def _propose(here: JumpState, pool: Pool, jumps: Jumps, rng: np.random.Generator) -> Change | None:
    """A change, or None if there are no columns for the kind that was drawn."""
    chances = np.array(jumps.kinds) * ([1, 1, 1, 0] if here.model.measure.binary else 1)
    kind, ahead = int(rng.choice(4, p=chances / chances.sum())), bool(rng.random() < jumps.ahead)
    none = AtomDraws(np.empty((0, here.statistics.sums.shape[1])), np.empty(0))
    change = Change(kind, ahead, np.empty(0, np.int64), none, none, 1.0 if rng.random() < 0.5 else -1.0)
    if kind == DISCOVERY:
        return _discover(here, pool, change, rng)
    gone = _choose(here, change, rng)
    if gone is None:
        return None
    change = change._replace(gone=gone, old=_draw_atoms(here, gone, rng) if len(gone) else none)
    if kind == MULTIPLE:
        factor = FACTORS[rng.integers(len(FACTORS))] ** (1.0 if ahead else -1.0)
        return change._replace(new=AtomDraws(factor * change.old.loadings, change.old.weights - math.log(factor)))
    return change._replace(new=(_absorbed if ahead else _emitted)(here, change, rng))


def _choose(here: JumpState, change: Change, rng: np.random.Generator) -> Array | None:
    """Columns to remove: an atom that dies or is absorbed, with those that absorb it; or those that emit one."""
    size = here.size
    if change.kind == DEATH and not change.ahead:
        return change.gone
    if size == 0:
        return None
    if change.kind == MULTIPLE:
        return rng.integers(size, size=1)
    if change.kind == DEATH:
        return rng.choice(size, 1, p=_deaths(here))
    if not change.ahead:
        return np.sort(rng.permutation(size)[: rng.integers(1, MOST + 1)])
    chances, inclusion = _absorptions(here, change.sign)
    absorbed = int(rng.choice(size, p=chances))
    chosen = np.flatnonzero(rng.random(size) < inclusion[absorbed])
    return np.append(absorbed, chosen) if 0 < len(chosen) <= MOST else None


def _absorbed(here: JumpState, change: Change, rng: np.random.Generator) -> AtomDraws:
    """All atoms but the first again, perhaps with the opposite sign, and with weights drawn around what Z suggests."""
    weights = here.model.measure.log_weights(here.state.hyper, _amounts(here, change), here.model.n_rows, rng)
    loadings = change.sign * change.old.loadings[1:]  # mutant: absorption sign
    return AtomDraws(loadings, weights)


def _emitted(here: JumpState, change: Change, rng: np.random.Generator) -> AtomDraws:
    """The same atoms, perhaps with the opposite sign, and another one near the sum of their loadings; broad weights."""
    old = change.old.loadings
    spread = math.sqrt(here.state.scales.loading) * 0.5 ** rng.integers(SPREADS)
    first = old.sum(axis=0) + spread * rng.standard_normal(old.shape[1])
    broad = np.full(1 + len(old), BROAD)
    return AtomDraws(np.vstack([first, change.sign * old]), here.model.measure.draw_weights(broad, broad, rng))


def _discover(here: JumpState, pool: Pool, change: Change, rng: np.random.Generator) -> Change | None:
    """Replace columns by those that fit the pool beside all others; in the reverse direction, by any."""
    measure, state = here.model.measure, here.state
    possible = _possible(here, change.ahead)
    if not possible.any():
        return None
    sizes = FITS[rng.choice(len(FITS), p=possible / possible.sum())]
    k, k_new = sizes if change.ahead else sizes[::-1]
    gone = change.gone
    if k > 0:
        gone = _similar(here, k, rng) if change.ahead else rng.permutation(here.size)[:k]
    seen = pool.half(0)
    guide = fit(here.model, state, seen._replace(Z=seen.Z[here.without(gone)]), sizes[1], rng)
    noise = rng.standard_normal((k_new, pool.rows.shape[1]))
    if change.ahead:
        loadings = guide.loadings + np.sqrt(guide.variances)[:, None] * noise
        new = AtomDraws(loadings, measure.draw_weights(*guide.shapes, rng))
    else:
        spreads = math.sqrt(state.scales.loading) * 0.5 ** rng.integers(SPREADS, size=(k_new, 1))
        broad = np.full(k_new, BROAD)
        new = AtomDraws(spreads * noise, measure.draw_weights(broad, broad, rng))
    old = _draw_atoms(here, gone, rng) if k else change.old
    return change._replace(gone=gone, old=old, new=new, guide=guide)


def _log_chance(here: JumpState, change: Change) -> float:
    """Log density of a change given the draws of the removed columns, without the chances of its kind and direction."""
    if change.kind == MULTIPLE:
        # The volume of loadings grows by factor^D: half of its log is here, half in the reverse direction.
        # mutant: multiple volume
        return 0.5 * change.old.loadings.size * float(change.new.weights[0] - change.old.weights[0])
    if change.kind == DISCOVERY:
        return _log_discovery(here, change)
    return (_log_absorption if change.ahead else _log_emission)(here, change)


def _log_absorption(here: JumpState, change: Change) -> float:
    shapes = here.model.measure.weight_shapes(here.state.hyper, _amounts(here, change), here.model.n_rows)
    value = float(here.model.measure.log_weight_density(change.new.weights, *shapes).sum())
    absorbed = change.gone[0]
    if change.kind == DEATH:
        return value + math.log(_deaths(here)[absorbed])  # mutant: death choice
    chances, inclusion = _absorptions(here, change.sign)
    inside = np.isin(np.arange(here.size), change.gone[1:])
    value += math.log(chances[absorbed])
    return value + float(np.log(np.where(inside, inclusion[absorbed], 1.0 - inclusion[absorbed])).sum())


def _log_emission(here: JumpState, change: Change) -> float:
    old, new, broad = change.old, change.new, np.full(len(change.new.weights), BROAD)
    value = float(here.model.measure.log_weight_density(new.weights, broad, broad).sum())
    value += _log_any(here, new.loadings[:1] - old.loadings.sum(axis=0))
    if change.kind == DEATH:
        return value
    count = len(old.weights)
    value += math.log((MOST - count + 1.0 if count == here.size else 1.0) / MOST)  # mutant: emission set
    return value - _log_choices(here.size, count)


def _log_discovery(here: JumpState, change: Change) -> float:
    """The order of the removed columns is part of the change."""
    k, (loadings, weights) = len(change.gone), change.new
    value = -math.log(_possible(here, change.ahead).sum())  # mutant: discovery sizes
    if not change.ahead:
        broad = np.full(len(weights), BROAD)
        value += _log_any(here, loadings) + float(here.model.measure.log_weight_density(weights, broad, broad).sum())
        return value - _log_choices(here.size, k) - float(gammaln(k + 1.0))  # mutant: discovery order
    assert change.guide is not None
    apart, variances = loadings - change.guide.loadings, change.guide.variances
    value += float(here.model.measure.log_weight_density(weights, *change.guide.shapes).sum())
    value -= 0.5 * float(np.sum(apart.shape[1] * np.log(2.0 * math.pi * variances) + np.sum(apart**2, 1) / variances))
    return value + _log_similar(here, change.gone)


def _possible(here: JumpState, ahead: bool) -> Array:
    """Chances of FITS; none for those that replace more columns than there are."""
    replaced = np.array(FITS)[:, 0 if ahead else 1]
    return np.where(replaced <= here.size, CHANCES, 0.0)


def _log_choices(size: int, count: int) -> float:
    """Log of the number of sets of this size."""
    return float(gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0))


def _log_any(here: JumpState, loadings: Array) -> float:
    """Log density of loadings of unknown size: for each column, a mixture of spherical Gaussians."""
    variances = here.state.scales.loading * 0.25 ** np.arange(SPREADS)
    squares = np.sum(loadings**2, axis=1, keepdims=True)
    each = -0.5 * (loadings.shape[1] * np.log(2.0 * math.pi * variances) + squares / variances)
    return float((logsumexp(each, axis=1) - math.log(SPREADS)).sum())  # mutant: any spread


def _amounts(here: JumpState, change: Change) -> Array:
    """Expected members of the absorbing atoms: rows that use them or the absorbed one; or, if loadings change sign,
    exactly one of the two."""
    products, members = here.statistics.products, here.statistics.members
    first, rest = change.gone[0], change.gone[1:]
    both = products[first, rest] * (1.0 if change.sign > 0 else 2.0)
    return np.clip(members[first] + members[rest] - both, 1.0, here.statistics.n_rows)


def _deaths(here: JumpState) -> Array:
    """Chance of every atom to be the one that dies: larger, the less its loadings explain."""
    loadings = here.loadings
    own = np.diagonal(loadings.covariance)[: here.size]
    squares = np.sum(loadings.mean[: here.size] ** 2, axis=1)
    gain = 0.5 * (squares / own - loadings.mean.shape[1] * np.log(here.state.scales.loading / own))
    weight = 1.0 / (TINY + np.maximum(gain, 0.0) / here.model.n_rows)
    return np.asarray(weight / weight.sum())


def _similar(here: JumpState, count: int, rng: np.random.Generator) -> Array:
    """An atom that many rows use, then others one by one, preferably those whose loadings are in line with its own."""
    first = int(rng.choice(here.size, p=_common(here)))
    weight = _in_line(here, first)
    if count == 1:
        return np.array([first])
    others = rng.choice(here.size, count - 1, replace=False, p=weight / weight.sum())
    return np.append(first, others)


def _log_similar(here: JumpState, chosen: Array) -> float:
    """Log probability that `_similar` chooses these atoms, in this order."""
    if not len(chosen):
        return 0.0
    weight, value = _in_line(here, chosen[0]), math.log(_common(here)[chosen[0]])  # mutant: common choice
    for atom in chosen[1:]:
        value += math.log(weight[atom] / weight.sum())  # mutant: similar choice
        weight[atom] = 0.0
    return value


def _common(here: JumpState) -> Array:
    """Chance of every atom to be replaced, by how many rows use it."""
    weight = np.maximum(here.statistics.members[: here.size] / here.statistics.n_rows, RARE)
    return np.asarray(np.minimum(weight, 1.0) / np.minimum(weight, 1.0).sum())


def _in_line(here: JumpState, atom: int) -> Array:
    weight = np.exp(STRICT * np.abs(_cosines(here, atom)))
    weight[atom] = 0.0
    return np.asarray(weight)


def _cosines(here: JumpState, atom: int) -> Array:
    loadings = here.loadings.mean[: here.size]
    lengths = np.linalg.norm(loadings, axis=1, keepdims=True)
    unit = loadings / np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(unit @ unit[atom])


def _absorptions(here: JumpState, sign: float) -> tuple[Array, Array]:
    """(chance of every atom to be absorbed, chance of every other one to be among those that absorb it).

    An atom is absorbed by those whose loadings point along its own (or, with a negative sign, against them); one whose
    loadings are about their sum is the most likely.
    """
    loadings, size = here.loadings.mean[: here.size], here.size
    likely = sign * np.stack([_cosines(here, atom) for atom in range(size)]) > ALIKE
    np.fill_diagonal(likely, False)
    apart = np.sum((loadings - sign * likely @ loadings) ** 2, axis=1)
    weight = 1.0 / (NEAR + apart / np.maximum(np.sum(loadings**2, axis=1), 1e-300))
    inclusion = np.where(likely, LIKELY, min(UNLIKELY, 0.5 / size))
    np.fill_diagonal(inclusion, 0.0)
    return weight / weight.sum(), inclusion


# ---- loadings and weights


def _draw_atoms(here: JumpState, columns: Array, rng: np.random.Generator) -> AtomDraws:
    """Draws from the law given Z, all other loadings and weights integrated out."""
    state = here.state
    loadings = here.loadings
    lower = np.linalg.cholesky(loadings.covariance[np.ix_(columns, columns)])
    drawn = loadings.mean[columns] + lower @ rng.standard_normal((len(columns), loadings.mean.shape[1]))
    members = here.statistics.members[columns].astype(float)
    return AtomDraws(drawn, here.model.measure.log_weights(state.hyper, members, here.model.n_rows, rng))


def _log_draws(here: JumpState, change: Change) -> float:
    """Log density of the removed columns under `_draw_atoms`."""
    state, measure, columns = here.state, here.model.measure, change.gone
    if not len(columns):
        return 0.0
    loadings = here.loadings
    covariance = loadings.covariance[np.ix_(columns, columns)]
    apart = change.old.loadings - loadings.mean[columns]
    log_det = np.linalg.slogdet(2.0 * math.pi * covariance)[1]
    value = -0.5 * (apart.shape[1] * log_det + np.sum(apart * np.linalg.solve(covariance, apart)))
    members = here.statistics.members[columns].astype(float)
    shapes = measure.weight_shapes(state.hyper, members, here.model.n_rows)
    return float(value + measure.log_weight_density(change.old.weights, *shapes).sum())
