"""Every model gives the same bits on every engine, whatever happens to its workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
from fits import FITS, clusters, everything, images

from unbounded import engines
from unbounded.columns import describe
from unbounded.likelihoods import Gaussian
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.mixtures import model as mixture
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.round import rounds
from unbounded.setup import Setup

WAYS = [("threads", 2), ("processes", 4)]
FEWER = [("processes", 1), ("processes", 2)]


@pytest.mark.parametrize("name", FITS)
def test_engines_and_workers_change_no_bit(name, serial, nothing_compiled):
    """Nor do workers compile anything that the driver has compiled. How a sum is shared among workers has nothing to do
    with what is added (`test_tree.py` has every way): one model is enough for their number."""
    with nothing_compiled():
        for engine, workers in WAYS + (FEWER if name == "mixture" else []):
            assert everything(FITS[name](engine=engine, n_workers=workers)) == serial[name]


@pytest.mark.parametrize(
    ("before", "after"), [(("processes", 2), ("serial", None)), (("threads", 2), ("processes", 3))]
)
@pytest.mark.parametrize("name", ["mixture", "features"])
def test_resumed_on_another_engine(name, before, after, serial, interrupted, tmp_path):
    with interrupted(draw=3):
        part = FITS[name](engine=before[0], n_workers=before[1], checkpoint=tmp_path)
    assert part.interrupted_
    assert part.posterior_.sizes["draw"] == 4
    assert everything(FITS[name](engine=after[0], n_workers=after[1], checkpoint=tmp_path)) == serial[name]


# ---- kills at random moments


def mixture_chain():
    X = np.tile(clusters(), (200, 1))  # so that most kills come in the middle of a sweep
    likelihood = Gaussian().bind(describe(X))
    model = HybridMixture(Setup(DirichletProcess(), likelihood, len(X), 5, 1))
    return model, mixture.RowRecipe(X, likelihood, 5), np.arange(len(X)) % 7


def feature_chain():
    X = np.tile(images(), (50, 1))
    likelihood = LinearGaussian().bind(describe(X))
    model = HybridFeatures(Setup(BetaBernoulli(), likelihood, len(X), 5, 1))
    return model, model.recipe(X), np.random.default_rng(0).integers(0, 2, (len(X), 4))


class Killer(threading.Thread):
    """Kills workers at random moments of a chain, sometimes one that has only just been started again."""

    def __init__(self, pids, kills, seed):
        super().__init__(daemon=True)
        self.pids, self.kills, self.rng, self.round, self.done = pids, kills, np.random.default_rng(seed), 0, 0

    def run(self):
        while self.done < self.kills:
            seen = self.round
            time.sleep(self.rng.random() * 0.2)
            self.kill()
            if self.rng.random() < 0.3:
                time.sleep(self.rng.random() * 2.0)
                self.kill()
            while self.round < seen + 2:
                time.sleep(0.001)

    def kill(self):
        with suppress(ProcessLookupError, ValueError):  # none is there just now
            os.kill(int(self.rng.choice(self.pids())), signal.SIGKILL)
            self.done += 1


def tell(model, engine, state):
    arrays = {name: value.tobytes() for name, value in state.arrays().items()}
    return arrays, model.assignments(state, engine).tobytes(), [part for p in engine.save() for part in said(p)]


def said(part):
    return [value.tobytes() for value in part.values()]


def kill_and_compare(chain, kills, seed, name="processes", pids=None):
    """Time a chain lives through kills, and compare every round with those of an undisturbed one."""
    model, recipe, start = chain()
    engine = engines.build(name, recipe, 2)
    killer = Killer(pids or (lambda: [m.process.pid for m in engine._crew._members.values()]), kills, seed)
    history = []
    began = time.monotonic()
    try:
        killer.start()
        for state in rounds(model, engine, model.begin(engine, start)):
            killer.round += 1
            history.append(tell(model, engine, state) if killer.round % 5 == 0 else state.round)
            if not killer.is_alive() and killer.round % 5 == 0:
                break
    finally:
        engine.close()
    print(f"{killer.done} kills, {killer.round} rounds, {(time.monotonic() - began) / killer.done:.2f} s a kill")
    engine = engines.build("serial", recipe)
    states = islice(rounds(model, engine, model.begin(engine, start)), len(history))
    for i, state in enumerate(states):
        assert history[i] == (tell(model, engine, state) if (i + 1) % 5 == 0 else state.round)
    engine.close()


every_chain = pytest.mark.parametrize("chain", [mixture_chain, feature_chain])


@every_chain
def test_killed_at_random_moments(chain):
    kill_and_compare(chain, kills=3, seed=0)


@pytest.mark.long
@every_chain
def test_killed_at_twenty_random_moments(chain):
    kill_and_compare(chain, kills=20, seed=1)
