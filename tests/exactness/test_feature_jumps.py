"""Moves of whole columns of Z, alone, against brute force; in the round they are in test_feature_enumeration.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from feature_jumps import Moves, check, choices, flipped, sizes
from feature_problems import problem
from scipy import integrate

from unbounded.engines import build
from unbounded.models.features import fold, jump
from unbounded.models.features.column_moves import Proposal, folded_columns
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.setup import Setup

SHORT = [
    ("gaussian-3", "bb-2", 3, Moves("all", 2, ahead=0.6, folds=1)),
    ("gaussian-3", "bb-2", 3, Moves("fold", 1, tries=0, folds=4, chains=24)),
    ("gaussian-holes-intercept", "gp-1", 2, Moves("all", 1, chains=30, rounds=30)),
    ("gaussian-3", "gp-2", 2, Moves("multiple", 2, few=True)),
]
WAYS = [
    ("gaussian-3", "bb-1", 3, Moves("fold", 2, tries=0, folds=4)),
    ("gaussian-3", "bb-2", 3, Moves("death", 1)),
    ("gaussian-3", "bb-1", 3, Moves("absorption", 2, tries=4)),
    ("gaussian-3", "bb-2", 3, Moves("discovery", 3, tries=2)),
    ("gaussian-3", "gp-2", 2, Moves("multiple", 2)),
    ("gaussian-intercept", "bb-2", 3, Moves("all", 3, 2, strict=True)),
    ("gaussian-holes-intercept", "bnb-1", 2, Moves("all", 2, ahead=0.7)),
    ("sharp", "bb-1", 3, Moves("all", 1, ahead=0.8, engine="threads")),
    ("gaussian-3", "gp-5", 3, Moves("all", 3, 2, strict=True)),
    ("gaussian-3", "bnb-6", 3, Moves("all", 2, few=True)),
]
LONG = [(*way[:3], replace(way[3], chains=300, rounds=120, seed=1)) for way in WAYS]


def names(parameters: tuple) -> str:
    case, law, n, moves = parameters
    return f"{case}-{law}-n{n}-{moves.kind}-P{moves.n_shards}{'-few' * moves.few}"


@pytest.mark.parametrize(
    "parameters", [*SHORT, *(pytest.param(way, marks=pytest.mark.long) for way in LONG)], ids=names
)
def test_jumps_alone_agree_with_enumeration(parameters):
    case, law, n, moves = parameters
    verdict = check(problem(case, law, n), moves)
    print(names(parameters), verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("kind", ["death", "fold"])
@pytest.mark.parametrize("claimed", [0.0, 1e6])
def test_the_second_stage_corrects_the_first(kind, claimed, monkeypatch):
    """A gain that the pool claims, whatever is proposed, is found in no rows: nothing is accepted."""
    tries, folds = (0, 8) if kind == "fold" else (8, 0)
    tiny, moves = problem("gaussian-3", "bb-2", 3), Moves(kind, 1, tries=tries, folds=folds)
    for module in (fold, jump):
        monkeypatch.setattr(module, "first_stage_log_ratio", lambda gain, doubt: claimed)
    model = HybridFeatures(Setup(tiny.law.measure, tiny.bound, 3, 1, 0), jumps=moves.jumps)
    engine = build("serial", model.recipe(tiny.X.copy()))
    state, made = model.begin(engine, np.array([[1, 0], [1, 1], [0, 1]])), 0
    for round_ in range(40):
        after = model.jump(state, engine)
        made += after is not state
        state = replace(after, round=round_ + 1)
    assert (made > 0) is (claimed == 0.0)


@pytest.mark.parametrize("law", ["bb-2", "gp-5", "bnb-6"])
def test_a_flip_changes_what_the_driver_says(law):
    """Statistics that are worked out without rows are those of the rows after a flip, and so is the log joint."""
    verdict = flipped(law)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("chosen", [[], [1], [0, 2], [0, 1, 2, 3, 4]])
def test_folds_have_the_coins_of_the_way_back(chosen):
    """Whoever unfolds looks at columns that the fold has left: what it says of its way back is about these."""
    Z, rows = np.random.default_rng(3).integers(0, 2, (6, 200)).astype(np.uint8), np.arange(200)
    away = Proposal(5, np.array(chosen, int), np.empty(0), None)
    folded, coin, moved = folded_columns(away, Z.copy(), rows)
    back = Proposal(-1, away.chosen, np.ones(2**fold.PATTERN), 0)
    np.testing.assert_array_equal(folded_columns(back, folded.copy(), rows)[1], coin)
    folded[chosen] ^= moved
    np.testing.assert_array_equal(np.vstack([folded, moved]), Z)


@pytest.mark.parametrize("check", [choices, sizes])
def test_columns_are_chosen_as_often_as_is_said(check):
    """Two or three columns that are replaced together: moves that tiny data hardly ever accept."""
    verdict = check()
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("measure", [BetaBernoulli(), GammaPoisson(), BetaNegativeBinomial(failures=0.7)], ids=str)
def test_weights_have_the_density_that_is_said(measure):
    """By quadrature: it integrates to one, and to the mean of draws."""
    hyper, rng = FeatureHyper(1.0, 1.7), np.random.default_rng(0)
    first, second = measure.weight_shapes(hyper, np.array([3.0]), 5.0)

    def density(w: float) -> float:
        return float(np.exp(measure.log_weight_density(np.array([w]), first, second)[0]))

    top = 0.0 if isinstance(measure, BetaNegativeBinomial) else 20.0
    assert integrate.quad(density, -40.0, top)[0] == pytest.approx(1.0, abs=1e-6)
    mean = integrate.quad(lambda w: w * density(w), -40.0, top)[0]
    draws = measure.draw_weights(np.repeat(first, 40_000), np.repeat(second, 40_000), rng)
    assert abs(draws.mean() - mean) < 5.0 * draws.std() / 200.0


def test_jumps_are_in_the_first_rounds_and_then_rare():
    jumps = Jumps()
    for n, early, every in ((1_000, 50, 64), (50_000, 8, 24), (1_000_000, 8, 24)):
        due = np.flatnonzero([jumps.due(round_, n) for round_ in range(early + 640)])
        gaps = np.diff(due)
        assert (due[:early] == np.arange(early)).all()
        assert (np.diff(gaps) >= 0).all()
        assert (gaps[-3:] == every).all()
    assert np.flatnonzero([Jumps(every=1).due(round_, 1_000) for round_ in range(200)]).tolist() == list(range(200))
