"""Folds and flips of 0/1 columns (docs/features.md, "Folds"): an atom is folded into others, or unfolded from them.

One atom may stand for several (B = A_1 + A_2, used wherever either of them is present) while others subtract the excess
(-A_1, -A_2). A fold removes B and replaces the column z_l of every atom l of a set S by z_B xor z_l. Its reverse draws
a set S and a new column B, and does the same. B is drawn by coins of unknown bias, one for each way in which a row may
use the atoms of S, so that its probability is known in closed form.

Both are accepted by the Metropolis-Hastings rule with loadings and weights integrated out; atoms have a random order.

Where there is an intercept, a flip replaces z_l by 1 - z_l: the rows that used the atom are now those that do not. It
is a fold of the always-on column, and the driver has all that it takes to decide about it. The same holds for adding or
removing a column of ones.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import betaln, gammaln

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message
from unbounded.models.features.column_moves import Flip, Proposal, folded_columns
from unbounded.models.features.launch import JumpState, Pool, first_stage_log_ratio, jump_state, select_columns
from unbounded.models.features.state import PATTERN
from unbounded.randomness import generator, key

FOLDS = 0.9  # chance of a fold; unfolding is needed for balance
LIKELY, UNLIKELY = 0.9, 0.03  # chance that an atom is in S, if its loadings suggest it or not
ALIKE, SAME = 0.3, 0.9  # cosines of loadings
LOG_FOLDS = math.log(FOLDS) - math.log1p(-FOLDS)
KINDS = 5


def fold(here: JumpState, engine: Engine, pool: Pool, doubt: float, turn: int) -> JumpState:
    """The state after one proposal; the pool decides about it first."""
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
    first = first_stage_log_ratio(_gain(here, pool, proposal), doubt)
    if not math.log(rng.random()) < first:
        return here
    own = state.sources()
    gathered = engine.run(model.together(model.kernel.fold), Message(proposal, own))
    new_size = size - 1 if folds else size + 1
    after = model.assemble(state.round, state.hyper, state.scales, gathered)
    if len(after.occupied) < new_size:  # an atom lost its last row
        return here
    there = jump_state(model, after)
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


def flips(here: JumpState, engine: Engine) -> JumpState:
    """The state after one attempt to flip each column. Shards are told once, if anything was accepted."""
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
    flip = _toggle_constant_column(there, Flip(flipped), rng)
    if not flipped.any() and flip.gone < 0 and not flip.new:
        return here
    own = state.sources()
    gathered = engine.run(model.together(model.kernel.flip), Message(flip, own))
    return jump_state(model, model.assemble(state.round, state.hyper, state.scales, gathered))


def _toggle_constant_column(here: JumpState, flip: Flip, rng: np.random.Generator) -> Flip:
    """Propose adding or removing an all-ones column, which the intercept can absorb.

    Such a column explains nothing, and removing it row by row would pass through improbable states.
    """
    statistics, size = here.statistics, here.size
    n, own = statistics.n_rows, float(statistics.n_rows) * here.model.measure.log_entries(np.array([[1]]))
    ones = [k for k in range(size) if statistics.members[k] == n and statistics.products[k, k] == n]
    if rng.random() < 0.5:
        more = np.insert(np.arange(size + 1), size, size)  # a copy of the always-on column
        other = JumpState(here.model, here.state, select_columns(statistics, more), here.entries + own)
        log_ratio = other.log_target - here.log_target - math.log(len(ones) + 1.0)  # mutant: ones more
        return flip._replace(new=True) if math.log(rng.random()) < log_ratio else flip
    if not ones:
        return flip
    gone = int(rng.choice(ones))
    other = JumpState(
        here.model, here.state, select_columns(statistics, here.without(np.array([gone]))), here.entries - own
    )
    log_ratio = other.log_target - here.log_target + math.log(len(ones))
    return flip._replace(gone=gone) if math.log(rng.random()) < log_ratio else flip


def _flipped(here: JumpState, k: int) -> JumpState | None:
    """The state with column k flipped, if it has both zeros and ones and nothing else."""
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
    return JumpState(here.model, here.state, statistics, entries)


# ---- which atoms


def _inclusion(here: JumpState, folded: int, kind: int) -> Array:
    """Chance of every atom to be in S. Favoured are atoms whose loadings point against those of B (kind 0), along them
    (1), either way (2), nearly in the same direction (3), or none (4)."""
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
    """Log probability of column B under coins with uniform bias; counts: [coin, tails or heads]."""
    return float(betaln(counts[:, 0] + 1.0, counts[:, 1] + 1.0).sum())


def _gain(here: JumpState, pool: Pool, proposal: Proposal) -> float:
    """The gain in log likelihood of all rows, estimated by the pool."""
    always, old = pool.Z[here.size :], pool.Z[: here.size].astype(np.uint8)
    new = np.concatenate([folded_columns(proposal, old, pool.chosen)[0], always])
    before, after = (_log_joint(here, pool, Z) for Z in (pool.Z, new))
    return after - before


def _log_joint(here: JumpState, pool: Pool, Z: Array) -> float:
    members, products, sums = (pool.share * part for part in (Z.sum(axis=1), Z @ Z.T, Z @ pool.rows))
    statistics = here.statistics._replace(members=members, products=products, sums=sums)
    return here.model.likelihood.log_joint(here.state.scales, statistics)
