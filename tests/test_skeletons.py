"""The skeletons of docs/skeletons run, keep the contract, and are right: what is copied from them begins well."""

from __future__ import annotations

import sys
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "docs" / "skeletons"), str(HERE / "engines")]

from contract import conforms  # noqa: E402
from engine import Skeleton  # noqa: E402
from sampler import FiniteMixture  # noqa: E402

from unbounded import engines  # noqa: E402
from unbounded.round import rounds  # noqa: E402

x = np.array([-1.6, -1.2, 0.4, 1.9])
MODEL = FiniteMixture(len(x), n_shards=3, seed=4)


def build(name, model=MODEL):
    recipe = model.recipe(x)
    return Skeleton(recipe, 2) if name == "skeleton" else engines.build(name, recipe, 2)


def chain(model, engine, n):
    """Labels after each round; the engine is closed."""
    try:
        states = islice(rounds(model, engine, model.begin(engine, np.zeros(len(x), int))), n)
        return np.array([model.assignments(state, engine) for state in states])
    finally:
        engine.close()


def test_the_engine_keeps_the_contract():
    conforms(lambda recipe: Skeleton(recipe, 2))


@pytest.mark.parametrize("name", ["skeleton", "threads", "processes"])
def test_the_sampler_has_the_same_bits_on_every_engine(name):
    np.testing.assert_array_equal(chain(MODEL, build(name), 20), chain(MODEL, build("serial"), 20))


def test_the_sampler_goes_on_from_what_it_has_saved():
    engine = build("serial")
    states = rounds(MODEL, engine, MODEL.begin(engine, np.zeros(len(x), int)))
    *_, fifth = islice(states, 5)
    kept = (
        {name: value.copy() for name, value in fifth.arrays().items()},
        [{name: value.copy() for name, value in part.items()} for part in engine.save()],
    )
    tenth = list(islice(states, 5))[-1]
    other = build("skeleton")
    other.load(kept[1])
    again = list(islice(rounds(MODEL, other, MODEL.restore(kept[0])), 5))[-1]
    assert again.arrays().keys() == tenth.arrays().keys()
    for name, value in tenth.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], value)
    assert MODEL.scalars(again) == MODEL.scalars(tenth)
    assert MODEL.snapshot(again, other).keys() == {"labels", "counts", "sums"}
    engine.close()
    other.close()


def posterior():
    """By enumeration of all K^n labels: weights and means integrated out."""
    K, chances = MODEL.n_atoms, {}
    for labels in product(range(K), repeat=len(x)):
        counts = np.bincount(labels, minlength=K)
        log_chance = gammaln(counts + MODEL.mass / K).sum()
        together = np.equal.outer(labels, labels)
        covariance = np.eye(len(x)) + MODEL.spread**2 * together
        chances[labels] = np.exp(log_chance + multivariate_normal(np.zeros(len(x)), covariance).logpdf(x))
    total = sum(chances.values())
    return {labels: chance / total for labels, chance in chances.items()}


def blocks_of(labels):
    """Labels by order of appearance."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(label), len(seen)) for label in labels)


def test_the_sampler_agrees_with_enumeration():
    """Every partition, by standard errors between chains."""
    truth: dict[tuple[int, ...], float] = {}
    for labels, chance in posterior().items():
        truth[blocks_of(labels)] = truth.get(blocks_of(labels), 0.0) + chance
    shares = []
    for seed in range(6):
        found = [blocks_of(labels) for labels in chain(MODEL.reseeded(seed), build("serial"), 1500)[100:]]
        shares.append([found.count(cell) / len(found) for cell in truth])
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    z = (mean - list(truth.values())) / (error + 1e-4)
    assert np.abs(z).max() < 5.5, dict(zip(truth, z, strict=True))
