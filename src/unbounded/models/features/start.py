"""Where a chain of features starts (docs/features.md, "The start"): it affects the burn-in, never exactness.

By default a pilot chain of the same model is run on up to a thousand rows, and then all rows choose among its atoms.
With jumps this only saves time, since the pilot's rounds are short: chains get there from any start. Without jumps, an
atom has to grow from a single row, which is a 1-in-n event, and the start matters: several pilots are run, and the most
probable one goes on with four times as many rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Data
from unbounded.contracts import Engine, Message
from unbounded.engines.local import Serial
from unbounded.family import Init, Notify, ignore_progress
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.kernels import kernel_for_few
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.model import Features
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeatureShard, FeatureState, all_shared
from unbounded.randomness import generator
from unbounded.round import advanced

NAMES = ("grown", "one", "prior")
PILOT_CELLS, PILOT_ROWS = 100_000, (300, 1_000)
PILOTS = {True: (1, 60), False: (3, 200)}  # chains and their rounds, with jumps and without
SETTLING = 10  # sweeps of all rows over the pilot's atoms
LARGEST_PRIOR = 50_000_000  # entries of Z


def begin(model: Features, engine: Engine, X: Data, init: Init, notify: Notify = ignore_progress) -> FeatureState:
    """The first state of a chain: from a name, or from a given Z."""
    check(init, model.n_rows, model.measure.binary)
    if not isinstance(init, str):
        return model.begin(engine, np.asarray(init))
    if init == "one":
        return model.begin(engine, np.ones((model.n_rows, 1), np.int64))
    if init == "prior":
        return _from_prior(model, engine)
    hybrid = model if isinstance(model, HybridFeatures) else HybridFeatures(model.setup)
    state = _grown(hybrid, engine, X, notify)
    if hybrid is model:
        return state
    return model.begin(engine, hybrid.assignments(state, engine), state.hyper, state.scales)


def check(init: Any, n_rows: int, binary: bool) -> None:
    """Refuse a start that is neither a known name nor a matrix of counts."""
    if isinstance(init, str):
        if init not in NAMES:
            raise ValueError(f"init must be one of {NAMES} or a matrix Z, got {init!r}.")
        return
    Z = np.asarray(init)
    if Z.ndim == 0:
        raise ValueError(f"init must be one of {NAMES} or a matrix Z, got {init!r}.")
    if Z.ndim != 2 or len(Z) != n_rows or not (np.issubdtype(Z.dtype, np.integer) or Z.dtype == bool):
        raise ValueError(f"init must be a matrix of integers with {n_rows} rows, got {Z.dtype} of shape {Z.shape}.")
    if (Z < 0).any() or (binary and (Z > 1).any()):
        raise ValueError(f"init must have entries {'0 and 1' if binary else '0, 1, 2, ...'} only.")


def _from_prior(model: Features, engine: Engine) -> FeatureState:
    rng = generator(model.seed, "start")
    hyper = model.measure.start()
    expected = model.measure.expected_atoms(hyper, model.n_rows) * model.n_rows
    if expected > LARGEST_PRIOR:
        raise ValueError(f"init='prior' would make a Z of {expected:.0f} entries; use another start.")
    return model.begin(engine, model.measure.simulate(hyper, model.n_rows, rng), hyper)


def _grown(model: Features, engine: Engine, X: Any, notify: Notify) -> FeatureState:
    """Run pilots, and let all rows choose among the atoms of the most probable one.

    Where there are no jumps, there are several pilots, and the best one goes on with more rows first.
    """
    rng = generator(model.seed, "start")
    most = max(PILOT_ROWS[0], min(PILOT_ROWS[1], PILOT_CELLS // X.shape[1]))
    order = rng.permutation(model.n_rows)
    few, more = np.sort(order[:most]), np.sort(order[: 4 * most])
    n_chains, n_rounds = PILOTS[model.likelihood.gram]
    seeds = [int(seed) for seed in rng.integers(2**62, size=n_chains)]
    chains = [_Pilot(model, X[few], seed) for seed in seeds]
    goes_on = n_chains > 1 and len(few) < model.n_rows
    total = n_chains * n_rounds + goes_on * (n_rounds // 3)
    joint = [chain.run(n_rounds, notify, c * n_rounds, total) for c, chain in enumerate(chains)]
    best = chains[int(np.argmax(joint))]
    if goes_on:
        wider = _Pilot(model, X[more], seeds[0])
        wider.state = _settle(wider.model, wider.engine, best.atoms())
        wider.run(n_rounds // 3, notify, n_chains * n_rounds, total)
        best = wider
    if best.model.n_rows < model.n_rows:
        return _settle(model, engine, best.atoms())
    return model.begin(engine, best.assignments(), best.state.hyper, best.state.scales)


class _Pilot:
    """A chain of some of the rows on one shard."""

    def __init__(self, model: Features, X: Any, seed: int):
        n, few = len(X), kernel_for_few(model.setup.device)
        setup = replace(model.setup, extent=n, n_shards=1, sweeps=2, seed=seed, device=few)
        self.model = HybridFeatures(setup)
        self.engine = Serial(self.model.recipe(X))
        # An intercept is a feature that all rows have: a second one would be hard to get rid of.
        self.state = self.model.begin(self.engine, np.ones((n, 1 - model.likelihood.fixed), np.int64))

    def run(self, n_rounds: int, notify: Notify, before: int, total: int) -> float:
        """Run some more rounds; returns the log joint density."""
        self.state = advanced(self.model, self.engine, self.state, n_rounds, notify, before, total)
        return self.model.scalars(self.state)["log_joint"]

    def assignments(self) -> Array:
        return self.model.assignments(self.state, self.engine)

    def atoms(self) -> _Atoms:
        """The atoms that more than two rows use."""
        state = self.state
        kept = state.occupied[state.table.members[state.occupied] > 2]
        statistics = self.model.statistics(state, np.concatenate([kept, state.always]))
        loadings = self.model.likelihood.expected(state.scales, statistics)
        return _Atoms(statistics.members[: len(kept)], self.model.n_rows, loadings, state.hyper, state.scales)


class _Atoms(NamedTuple):
    """The atoms of a pilot."""

    members: Array
    n_rows: int  # of the pilot
    loadings: Array  # always-on ones last
    hyper: FeatureHyper
    scales: Any


def _settle(model: Features, engine: Engine, found: _Atoms) -> FeatureState:
    """All rows choose among given atoms: a local step with everything mobile and no births."""
    n_atoms = len(found.members)
    rng = generator(model.seed, "settle")
    weights = model.measure.log_weights(found.hyper, found.members.astype(float), float(found.n_rows), rng)
    mobile = Mobile(rng.permutation(n_atoms), weights)
    message = model.closed_round(-1, mobile, found.scales, found.loadings, found.hyper)
    engine.map(partial(_clear, n_atoms=n_atoms, n_shared=len(found.loadings)))
    settling = replace(model, setup=replace(model.setup, sweeps=SETTLING))
    own = [all_shared(found.loadings)] * model.n_shards
    gathered = engine.run(settling.local_step, Message(message, own))
    return model.assemble(0, found.hyper, found.scales, gathered)


def _clear(shard: FeatureShard, n_atoms: int, n_shared: int) -> None:
    """Set Z to zero, but for always-on columns."""
    shard.Z = np.zeros((n_shared, shard.Z.shape[1]), shard.Z.dtype)
    shard.Z[n_atoms:] = 1
