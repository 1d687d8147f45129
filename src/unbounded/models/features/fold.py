"""Folds and flips of 0/1 columns (docs/features.md, "Folds"): an atom is folded into others, or unfolded from them.

Where one atom stands for several (B = A_1 + A_2, used wherever one of them is there) and others take away what is too
much (-A_1, -A_2), a fold takes B out and replaces the column z_l of every atom l of a set S by z_B xor z_l. Its reverse
draws a set S and a new column B, and does the same. B is drawn by coins of unknown bias, one for each way in which a
row may use the atoms of S, so that its probability is known in closed form.

Both are accepted by the Metropolis-Hastings rule with loadings and weights integrated out; atoms have a random order.

Where there is an intercept, a flip says the same the other way round: z_l becomes 1 - z_l, the rows that had the atom
are those that had not. It is a fold of the always-on column, and all that decides about it is at the driver. The same
holds for a column of ones, which is born or dies.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import betaln, gammaln

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message
from unbounded.models.features.column_moves import Flip, Proposal, folded_columns
from unbounded.models.features.launch import Place, Pool, of_columns, place, promise
from unbounded.models.features.state import PATTERN
from unbounded.randomness import generator, key

FOLDS = 0.9  # chance of a fold; unfolding is needed for balance
LIKELY, UNLIKELY = 0.9, 0.03  # chance that an atom whose loadings say so, or do not, is in S
ALIKE, SAME = 0.3, 0.9  # cosines of loadings
LOG_FOLDS = math.log(FOLDS) - math.log1p(-FOLDS)
KINDS = 5


def fold(here: Place, engine: Engine, pool: Pool, doubt: float, turn: int) -> Place:
    """The place after one proposal, which the pool decides about first."""
    model, state = here.model, here.state
    rng = generator(model.seed, "fold", state.round, turn)
    size = len(state.occupied)
    kind = int(rng.integers(KINDS))
    folds = bool(rng.random() < FOLDS)
    if folds and size == 0:
        return here
    if folds:
        folded = int(rng.integers(size))
        inclusion = _inclusion(here, folded, kind)
        chosen = np.flatnonzero(rng.random(size) < inclusion)
        log_forward = _log_choice(inclusion, chosen, folded)
    else:
        folded = -1
        chosen = np.sort(rng.permutation(size)[: _set_size(size, rng)])
        log_forward = _log_set(len(chosen), size)
    proposal = Proposal(folded, chosen, rng.random(2**PATTERN), key(model.seed, "unfold", state.round, turn))
    first = promise(_gain(here, pool, proposal), doubt)
    if not math.log(rng.random()) < first:
        return here
    own = state.sources()
    gathered = engine.run(model.together(model.kernel.fold), Message(proposal, own))
    new_size = size - 1 if folds else size + 1
    after = model.assemble(state.round, state.hyper, state.scales, gathered)
    if len(after.occupied) < new_size:  # an atom lost its last row
        return here
    there = place(model, after)
    log_ratio = there.log_target - here.log_target
    log_coins = _log_coins(gathered.shared["coins"])
    if folds:
        # mutant: fold log ratio
        log_ratio += math.log(size) + _log_set(len(chosen), new_size) + log_coins - log_forward - LOG_FOLDS
    else:
        inclusion = _inclusion(there, size, kind)
        log_ratio += _log_choice(inclusion, chosen, size) - math.log(new_size) - log_forward - log_coins + LOG_FOLDS
    if math.log(rng.random()) >= log_ratio - first:  # mutant: fold decision
        return here
    engine.run(model.together(partial(model.kernel.fold, keep=True)), Message(proposal, own))
    return there


def flips(here: Place, engine: Engine) -> Place:
    """The place after the flip of every column was tried once; rows are touched once, if anything was accepted."""
    model, state = here.model, here.state
    if not state.fixed:
        return here
    rng = generator(model.seed, "flip", state.round)
    there, flipped = here, np.zeros(here.size, bool)
    for k in rng.permutation(here.size):
        other = _flipped(there, int(k))
        if other is not None and math.log(rng.random()) < other.log_target - there.log_target:  # mutant: flip decision
            there = other
            flipped[k] = True
    flip = _ones(there, Flip(flipped), rng)
    if not flipped.any() and flip.gone < 0 and not flip.new:
        return here
    own = state.sources()
    gathered = engine.run(model.together(model.kernel.flip), Message(flip, own))
    return place(model, model.assemble(state.round, state.hyper, state.scales, gathered))


def _ones(here: Place, flip: Flip, rng: np.random.Generator) -> Flip:
    """With one column of ones more, or less. The intercept can add to all rows what it adds: it says nothing, and it
    would never go one row after another."""
    statistics, size = here.statistics, here.size
    n, own = statistics.n_rows, float(statistics.n_rows) * here.model.measure.log_entries(np.array([[1]]))
    ones = [k for k in range(size) if statistics.members[k] == n and statistics.products[k, k] == n]
    if rng.random() < 0.5:
        more = np.insert(np.arange(size + 1), size, size)  # the column that is always on, once more
        other = Place(here.model, here.state, of_columns(statistics, more), here.entries + own)
        log_ratio = other.log_target - here.log_target - math.log(len(ones) + 1.0)  # mutant: ones more
        return flip._replace(new=True) if math.log(rng.random()) < log_ratio else flip
    if not ones:
        return flip
    gone = int(rng.choice(ones))
    other = Place(here.model, here.state, of_columns(statistics, here.without(np.array([gone]))), here.entries - own)
    log_ratio = other.log_target - here.log_target + math.log(len(ones))
    return flip._replace(gone=gone) if math.log(rng.random()) < log_ratio else flip


def _flipped(here: Place, k: int) -> Place | None:
    """The place with 1 - z in the column k, if its entries are 0 and 1, both of them."""
    members, products, sums = (part.copy() for part in here.statistics[:3])
    n, m, entry = here.statistics.n_rows, members[k], np.array([[1]])
    if m == n or products[k, k] != m:
        return None
    members[k] = n - m  # mutant: flip members
    products[k] = products[-1] - products[k]  # the last column is always on
    products[:, k] = products[k]
    products[k, k] = n - m
    sums[k] = sums[-1] - sums[k]
    entries = here.entries + float(n - 2 * m) * here.model.measure.log_entries(entry)  # mutant: flip entries
    statistics = here.statistics._replace(members=members, products=products, sums=sums)
    return Place(here.model, here.state, statistics, entries)


# ---- which atoms


def _inclusion(here: Place, folded: int, kind: int) -> Array:
    """Chance of every atom to be in S, by its loadings: those that take away from B (kind 0), say a part of what B says
    (1), either (2), the same as B (3), or none in particular (4)."""
    loadings, size = here.loadings.mean, here.size
    lengths = np.linalg.norm(loadings[:size], axis=1, keepdims=True)
    unit = loadings[:size] / np.where(lengths > 0.0, lengths, 1.0)
    cosines = unit @ unit[folded]
    low, high = ((-ALIKE, 2.0), (-2.0, ALIKE), (-ALIKE, ALIKE), (-2.0, SAME), (-2.0, 2.0))[kind]
    likely = (cosines < low) | (cosines > high)
    chance = np.where(likely, LIKELY, min(UNLIKELY, 0.5 / size))
    chance[folded] = 0.0
    return chance


def _log_choice(inclusion: Array, chosen: Array, folded: int) -> float:
    inside = np.zeros(len(inclusion), bool)
    inside[chosen] = True
    others = np.arange(len(inclusion)) != folded
    return float(np.log(np.where(inside, inclusion, 1.0 - inclusion)[others]).sum())


def _set_size(size: int, rng: np.random.Generator) -> int:
    return min(int(rng.geometric(0.5)) - 1, size)


def _log_set(count: int, size: int) -> float:
    """Log probability that unfolding chooses a given set of `count` among `size` atoms."""
    log_count = -(count + 1.0 if count < size else count) * math.log(2.0)  # mutant: set size
    return float(log_count - (gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)))


def _log_coins(counts: Array) -> float:
    """Log probability of the column B: coins with uniform bias; counts [coin, no or yes]."""
    return float(betaln(counts[:, 0] + 1.0, counts[:, 1] + 1.0).sum())


def _gain(here: Place, pool: Pool, proposal: Proposal) -> float:
    """What the log likelihood of all rows would gain if they were like those of the pool."""
    always, old = pool.Z[here.size :], pool.Z[: here.size].astype(np.uint8)
    new = np.concatenate([folded_columns(proposal, old, pool.chosen)[0], always])
    before, after = (_log_joint(here, pool, Z) for Z in (pool.Z, new))
    return after - before


def _log_joint(here: Place, pool: Pool, Z: Array) -> float:
    members, products, sums = (pool.share * part for part in (Z.sum(axis=1), Z @ Z.T, Z @ pool.rows))
    statistics = here.statistics._replace(members=members, products=products, sums=sums)
    return here.model.likelihood.log_joint(here.state.scales, statistics)
