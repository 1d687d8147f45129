"""Where a chain of features starts (docs/features.md, "The start"). It never affects exactness, only the wait.

Growing an atom from a single row is a 1-in-n event, so with many rows the start decides. The default samples a pilot of
a few thousand rows first, with the model itself, then lets all rows choose among the pilot's atoms.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from unbounded.contracts import Array, Engine, Message
from unbounded.engines.local import Serial
from unbounded.instantiation import Ghosts
from unbounded.measures.features import Hyper
from unbounded.randomness import generator
from unbounded.samplers.features import Broadcast, Features, FeatureState, Own, shards
from unbounded.samplers.hybrid import rounds

NAMES = ("grown", "one", "prior")
PILOT_CELLS, PILOT_ROWS = 200_000, (500, 4_000)
PILOT_ROUNDS = 300
SETTLING = 10  # sweeps of all rows over the pilot's atoms
LARGEST_PRIOR = 50_000_000  # entries of Z


def begin(model: Features, engine: Engine, X: Any, init: Any) -> FeatureState:
    """The first state of a chain: from a name, or from a given Z."""
    check(init, model.n_rows, model.measure.binary)
    if not isinstance(init, str):
        return model.begin(engine, np.asarray(init))
    if init == "one":
        return model.begin(engine, np.ones((model.n_rows, 1), np.int64))
    if init == "prior":
        return _from_prior(model, engine)
    return _grown(model, engine, X)


def check(init: Any, n_rows: int, binary: bool) -> None:
    """Refuse a start that is neither a name nor a matrix of counts."""
    if isinstance(init, str):
        if init not in NAMES:
            raise ValueError(f"init must be one of {NAMES} or a matrix Z, got {init!r}.")
        return
    Z = np.asarray(init)
    if Z.ndim != 2 or len(Z) != n_rows or not (np.issubdtype(Z.dtype, np.integer) or Z.dtype == bool):
        raise ValueError(f"init must be a matrix of integers with {n_rows} rows, got {Z.dtype} of shape {Z.shape}.")
    if (Z < 0).any() or (binary and (Z > 1).any()):
        raise ValueError(f"init must have entries {'0 and 1' if binary else '0, 1, 2, ...'} only.")


def _from_prior(model: Features, engine: Engine) -> FeatureState:
    rng = generator(model.seed, "start")
    hyper = model.measure.start()
    expected = hyper.alpha * model.measure.expected(hyper.c, model.n_rows) * model.n_rows
    if expected > LARGEST_PRIOR:
        raise ValueError(f"init='prior' would make a Z of {expected:.0f} entries; use another start.")
    return model.begin(engine, model.measure.simulate(hyper, model.n_rows, rng), hyper)


def pilot_rows(n_rows: int, n_columns: int) -> int:
    return min(n_rows, max(PILOT_ROWS[0], min(PILOT_ROWS[1], PILOT_CELLS // n_columns)))


def _grown(model: Features, engine: Engine, X: Any) -> FeatureState:
    rng = generator(model.seed, "start")
    n_pilot = pilot_rows(model.n_rows, X.shape[1])
    rows = np.sort(rng.choice(model.n_rows, n_pilot, replace=False))
    pilot = replace(
        model, n_rows=n_pilot, n_shards=1, rule=Ghosts(), sweeps=2, n_rounds=4 * PILOT_ROUNDS, jumps=True,
        seed=int(rng.integers(2**62)),
    )  # fmt: skip
    few = Serial(shards(X[rows], model.likelihood, 1, model.measure.binary))
    try:
        state = pilot.begin(few, np.ones((n_pilot, 1), np.int64))
        *_, state = islice(rounds(pilot, few, state), PILOT_ROUNDS)
        if n_pilot == model.n_rows:
            return model.begin(engine, pilot.assignments(state, few), state.hyper, state.scales)
        kept = state.occupied[state.table.members[state.occupied] > 2]
        everything = pilot.statistics(state, np.concatenate([kept, state.always]))
        loadings = model.likelihood.expected(state.scales, everything)
    finally:
        few.close()
    return _settle(model, engine, everything.members[: len(kept)], loadings, state.hyper, state.scales)


def _settle(
    model: Features, engine: Engine, members: Array, loadings: Array, hyper: Hyper, scales: Any
) -> FeatureState:
    """All rows choose among given atoms: a local step with everything mobile and no births."""
    n_atoms, n_shared = len(members), len(loadings)
    rng = generator(model.seed, "settle")
    n_pilot = pilot_rows(model.n_rows, loadings.shape[1])
    weights = model.measure.log_weights(hyper, members.astype(float), float(n_pilot), rng)
    closed = model.measure.law(hyper, model.n_rows, open_=False)
    broadcast = Broadcast(
        -1, (model.likelihood.family(scales, loadings, n_atoms, model.dtype),), weights, (rng.permutation(n_atoms),),
        n_atoms, n_shared, (closed, closed), scales, loadings, model.keys(-1),
    )  # fmt: skip

    def clear(shard: Any) -> None:
        shard.Z = np.zeros((n_shared, shard.Z.shape[1]), shard.Z.dtype)
        shard.Z[n_atoms:] = 1

    engine.map(clear)
    settling = replace(model, sweeps=SETTLING)
    own = Own(np.arange(n_shared), False, False, np.empty((0, loadings.shape[1])))
    gathered = engine.run(settling.local_step, Message((broadcast, hyper), [own] * model.n_shards))
    return model.assemble(0, hyper, scales, n_shared, gathered)
