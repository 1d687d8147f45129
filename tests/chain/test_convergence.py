"""The check of convergence: its numbers are ArviZ's, it sees what is wrong, and says what to do."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pytest
import xarray as xr

import unbounded as ub
from unbounded.chain import convergence, export
from unbounded.chain.convergence import ESS, LEAST_DRAWS, check
from unbounded.chain.diagnostics import diagnose, r_hat
from unbounded.cli import commands


def walk(chains: int, draws: int, stickiness: float, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    for t in range(1, draws):
        noise[:, t] += stickiness * noise[:, t - 1]
    return noise


def posterior(**traces: np.ndarray) -> xr.Dataset:
    return xr.Dataset({name: (("chain", "draw"), trace) for name, trace in traces.items()}, attrs={"exact": 1})


# ---- numbers


@pytest.mark.parametrize(("chains", "draws"), [(2, 500), (2, 501), (4, 100), (3, 51)])
@pytest.mark.parametrize("stickiness", [-0.5, 0.0, 0.8])
def test_numbers_are_those_of_arviz(chains, draws, stickiness):
    x = walk(chains, draws, stickiness)
    for values in (x, np.round(2 * x), np.exp(3 * x), x + np.arange(chains)[:, None]):
        found = diagnose(values)
        assert found.r_hat == pytest.approx(float(az.rhat(values)), rel=1e-9)
        assert found.ess_bulk == pytest.approx(float(az.ess(values, method="bulk")), rel=1e-6)
        assert found.ess_tail == pytest.approx(float(az.ess(values, method="tail")), rel=1e-6)


def test_the_table_is_that_of_arviz():
    """Draws that lie on one side, so that the shortest interval is not the one in the middle."""
    values = np.exp(walk(2, 500, 0.8))
    line = export.table(posterior(alpha=values)).loc["alpha"]
    low, high = az.hdi(values.ravel(), hdi_prob=0.94)
    assert (line["hdi_3%"], line["hdi_97%"]) == pytest.approx((low, high), rel=1e-9)
    assert line["sd"] == pytest.approx(values.std(ddof=1))
    assert line["mcse_mean"] == pytest.approx(
        values.std(ddof=1) / np.sqrt(float(az.ess(values, method="bulk"))), rel=1e-6
    )
    turned = export.table(posterior(alpha=-values)).loc["alpha"]
    assert (turned["hdi_3%"], turned["hdi_97%"]) == pytest.approx((-high, -low), rel=1e-9)


def test_a_single_chain_has_a_split_r_hat():
    calm, trend = walk(1, 400, 0.0), walk(1, 400, 0.0) + np.linspace(0, 4, 400)
    assert r_hat(calm) < 1.02
    assert r_hat(trend) > 1.3
    assert diagnose(trend).drift > 0.5
    assert abs(diagnose(calm).drift) < 0.3


def test_constants_agree_or_do_not():
    fixed = diagnose(np.full((2, 200), 0.3))
    assert fixed.constant
    assert (fixed.r_hat, fixed.ess_bulk, fixed.drift) == (1.0, 400.0, 0.0)
    apart = diagnose(np.array([[1.0] * 200, [2.0] * 200]))
    assert apart.r_hat == np.inf
    assert not apart.constant


def test_rounding_sets_no_chains_apart():
    """Two chains whose clusters have other numbers add up the same terms in another order."""
    rare = 2.892 - 0.001 * (np.random.default_rng(0).random((2, 200)) < 0.1)
    rounded = rare * np.array([[1.0], [1.0 + 4e-16]])
    assert (rounded[0].max(), rounded[1].max()) != (rare.max(), rare.max())
    assert diagnose(rounded) == diagnose(rare)
    assert diagnose(rare).r_hat < 1.05


# ---- verdicts


def test_good_chains_pass():
    found = check(posterior(n_clusters=np.round(3 * walk(2, 500, 0.3)), alpha=np.full((2, 500), 1.0)))
    assert found.passed
    assert found.message == "the chains agree on every scalar of the trace."
    assert [found.verdict(name) for name in ("n_clusters", "alpha")] == ["converged", "constant"]


def test_one_good_chain_passes_and_is_told_what_it_cannot_show():
    found = check(posterior(alpha=walk(1, 500, 0.0)))
    assert found.passed
    assert "n_chains=2" in found.message


@pytest.mark.parametrize(
    ("trace", "wrong"),
    [
        (walk(2, 500, 0.0) + 2.0 * np.arange(2)[:, None], "r_hat"),
        (walk(2, 500, 0.97), "ess_bulk"),
        (walk(2, 2000, 0.0) + np.linspace(-0.3, 0.3, 2000), "drift"),
        (walk(2, 1000, 0.0) + 9.0 * (abs(np.arange(1000) - 500) < 50), "ess_tail"),
    ],
)
def test_each_statistic_sees_its_own_trouble(trace, wrong):
    assert wrong in check(posterior(alpha=trace)).problems("alpha")


def test_the_message_says_what_by_how_much_and_what_to_do():
    slow = walk(2, 1000, 0.95)
    found = check(posterior(entropy=slow, alpha=walk(2, 1000, 0.0)))
    assert list(found.failing) == ["entropy"]
    assert "have not converged: entropy (" in found.message
    assert f"ESS {found.scalars['entropy'].ess_bulk:.0f} of 2,000 draws" in found.message
    assert "more draws per chain would do (n_draws=" in found.message
    asked = int(found.message.split("n_draws=")[1].split(",")[0])
    longer = check(posterior(entropy=walk(2, 2 * asked, 0.95)))
    assert longer.scalars["entropy"].ess_bulk >= 2 * ESS  # twice what was asked for is certainly enough


def test_a_number_that_fails_its_bound_shows_that_it_does():
    near = next(trace for by in np.arange(0.3, 1.0, 0.002)
                if 1.0505 < diagnose(trace := walk(2, 500, 0.0) + [[0.0], [by]]).r_hat < 1.0545)  # fmt: skip
    said = re.search(r"R-hat ([\d.]+)", check(posterior(alpha=near)).message)[1]
    assert float(said) > 1.05


def test_advice_has_the_options_of_its_reader():
    """And names the page by its title: an installed package has no docs."""
    one, two, far = (posterior(alpha=walk(*size)) for size in ((1, 300, 0.9), (2, 1000, 0.95), (2, 300, 0.999)))
    options = set(inspect.signature(commands.fit).parameters)
    for trace in (one, two, far, posterior(alpha=walk(1, 500, 0.0))):
        said = check(trace).said(convergence.on_the_command_line)
        named = set(re.findall(r"--(\w+)", said))
        assert named
        assert named <= options
        assert "n_" not in said
        assert "docs/" not in check(trace).message
    assert "--draws auto" in check(two).said(convergence.on_the_command_line)
    assert "n_draws='auto'" in check(two).message
    page = Path(__file__).parents[2] / "docs" / "convergence.md"
    assert page.read_text().startswith(f"# {convergence.PAGE}\n")
    assert convergence.PAGE in check(two).message


def test_a_chain_in_a_worse_mode_is_named():
    joint = walk(3, 300, 0.0) - 500.0 * (np.arange(3) == 1)[:, None]
    assert "Chain 1 is behind chain" in check(posterior(log_joint=joint)).message
    assert "in log_joint" in check(posterior(log_joint=joint)).message
    scored = posterior(log_joint=joint, holdout=walk(3, 300, 0.0))
    assert "behind" not in check(scored).message  # what is held out knows better


def test_few_draws_are_not_judged_and_odd_values_are_skipped():
    found = check(posterior(alpha=walk(2, LEAST_DRAWS - 1, 0.0) + np.arange(2)[:, None]))
    assert not found.judged
    assert not found.passed
    assert "too few" in found.message
    assert found.verdict("alpha") == "too few draws"
    odd = check(posterior(holdout=np.full((2, 200), np.nan), alpha=walk(2, 200, 0.0)))
    assert odd.verdict("holdout") == "not finite"
    assert odd.passed
    for n in (1, 2, 3, 4):
        assert "too few" in check(posterior(alpha=walk(2, n, 0.0))).message


def test_warnings_come_for_bad_fits_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convergence.warn(check(posterior(alpha=walk(2, 300, 0.0))), 1)
        convergence.warn(check(posterior(alpha=walk(2, 9, 0.0))), 1)
    with pytest.warns(ub.ConvergenceWarning, match="the chain has not converged: alpha"):
        convergence.warn(check(posterior(alpha=walk(1, 300, 0.99))), 1)


# ---- tables


def test_the_table_has_no_gap_and_leaves_logging_alone(caplog):
    with caplog.at_level(logging.WARNING):
        table = export.table(posterior(alpha=walk(1, 300, 0.0), n_clusters=np.full((1, 300), 3)))
    assert not table.isna().any().any()
    assert not caplog.records
    assert logging.root.manager.disable == logging.NOTSET
    assert list(table["verdict"]) == ["converged", "constant"]
    low, high = az.hdi(walk(1, 300, 0.0)[0], hdi_prob=0.94)
    assert (table.loc["alpha", "hdi_3%"], table.loc["alpha", "hdi_97%"]) == (low, high)


def test_a_fit_warns_and_the_summary_says_the_same():
    X = np.random.default_rng(0).normal(size=(60, 1))
    model = ub.DirichletProcessMixture("gaussian", n_shards=1, n_warmup=0, n_draws=LEAST_DRAWS, thin=1, n_chains=1,
                                       engine="serial", init="prior", random_state=0)  # fmt: skip
    with pytest.warns(ub.ConvergenceWarning) as caught:
        model.fit(X)
    assert str(caught[0].message) == model.convergence_.message
    assert caught[0].filename == __file__
    assert set(model.summary()["verdict"]) - {"converged", "constant"}
