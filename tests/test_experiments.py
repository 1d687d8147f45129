"""The paper's experiments: every file says what it claims and how it runs; two cheap ones run, the rest are long."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from unbounded.cli.commands import app
from unbounded.contracts import Summary
from unbounded.family import Sampler
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.samplers import DIRICHLET

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("UNBOUNDED_DATA", ROOT.parent / "shared" / "data"))
sys.path.insert(0, str(ROOT))

import experiments  # noqa: E402
from experiments import exactness, synthetic_f1, table_1, trials  # noqa: E402
from experiments.chains import (  # noqa: E402
    COLLAPSED,
    GHOSTS,
    LOCK,
    Method,
    Plan,
    Stopwatch,
    at,
    density,
    feature_trace,
    first_above,
    mixture,
    of_mixture,
    replay,
    trace,
    trace_for,
    with_wall,
)
from experiments.common import SIZES, Finding, Request, about, more, no_worse, overall, perform, spread  # noqa: E402

SHARED = {"__init__", "common", "claims", "figures", "chains", "data", "quotations", "report", "trials"}
CRITICAL = {"synthetic-f1", "cifar-dimensions", "cifar-rivals"}  # what has no wall time


def paper(*words):
    return CliRunner().invoke(app, ["paper", *map(str, words)])


def test_every_file_is_an_experiment_with_a_claim_and_sizes():
    files = {path.stem for path in (ROOT / "experiments").glob("*.py")} - SHARED
    assert files == {name.replace("-", "_") for name in experiments.NAMES}
    for name in experiments.NAMES:
        experiment = experiments.load(name)
        assert experiment.name == name
        assert experiment.about.endswith(".")
        sizes = [experiment.sizes(size) for size in SIZES]
        assert is_dataclass(sizes[0])
        assert {type(size) for size in sizes} == {type(sizes[0])}
        assert len(set(sizes)) == 3
        assert f"`{name}`" in (ROOT / "docs" / "paper.md").read_text()


# ---- what they share


def test_orderings_are_judged_by_their_standard_errors():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 0.1, 8), rng.normal(0.0, 0.1, 8)
    assert more("", a, b).held is True
    assert more("", b, a).held is False
    assert more("", rng.normal(size=8), rng.normal(size=8)).held is None
    assert more("", a[:1], b[:1]).held is None
    assert more("", a, a).held is False
    assert no_worse("", b, a, 0.5).held is False
    assert no_worse("", b, b + 0.1, 0.5).held is True
    assert overall([Finding("", True, ""), Finding("", True, "")]) == "held"
    assert overall([Finding("", True, ""), Finding("", None, "")]) == "held where decided"
    assert overall([Finding("", True, ""), Finding("", False, "")]) == "held in part"
    assert overall([Finding("", None, "")]) == "undecided"


def test_jobs_change_nothing_but_the_time(tmp_path):
    """Chains in two processes are those of one, in their order."""
    tasks = [(GHOSTS, 2, seed, 3) for seed in (5, 4)]
    alone, beside = (spread(synthetic_f1.f1_trace, tasks, jobs) for jobs in (1, 2))
    assert [[row["f1"] for row in rows] for rows in alone] == [[row["f1"] for row in rows] for rows in beside]
    assert [rows[0]["seed"] for rows in beside] == [5, 4]


def test_a_race_has_as_much_time_as_it_is_given(monkeypatch):
    """Rounds that take a second each; scores are asked for at times in a geometric row, and at the end."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = mixture(X, GHOSTS, Plan(2), concentration=1.0)
    monkeypatch.setattr("experiments.chains.timed", lambda *args: ((state, 1.0) for state in range(1000)))
    rows = trace_for(model, X, "one", lambda state, engine: {"score": float(state is not None)}, 100.0, points=5)
    assert [row["critical_s"] for row in rows] == [0.0, 1.0, 4.0, 18.0, 100.0]
    assert at(rows, 2.5) == 1.0
    assert first_above(rows, 2.0) == np.inf
    assert first_above(rows, 1.0) == 0.0


def test_findings_about_a_claim_point_to_it():
    finding = about("warm", Finding("", True, ""))
    assert (finding.claim, finding.held) == ("warm", True)


def test_pairwise_f1():
    truth = np.array([0, 0, 1, 1])
    assert synthetic_f1.pairwise_f1(np.array([5, 5, 2, 2]), truth) == 1.0
    assert synthetic_f1.pairwise_f1(np.zeros(4, int), truth) == pytest.approx(0.5)
    assert synthetic_f1.pairwise_f1(np.arange(4), truth) == 0.0


def test_the_critical_path_leaves_out_what_other_shards_took(monkeypatch):
    """Three shards that take 1, 2 and 4 units: the path has 4, so that 3 of the 7 were waiting.

    The first one also meets a kernel that must be compiled, which takes 10 and counts nowhere.
    """
    from numba.core import event

    now = 0.0

    class Recipe:
        n_shards = 3

        def __call__(self, p):
            return 2.0**p

    def work(units):
        nonlocal now
        now += units
        if units == 1.0:
            with event.trigger_event(LOCK), event.trigger_event(LOCK):
                now += 10.0

    monkeypatch.setattr("experiments.chains.time.thread_time", lambda: now)
    engine = Stopwatch(Recipe())
    engine.map(work)
    engine.close()
    assert engine.waited == 3.0
    assert (now, engine.now()) == (17.0, 7.0)


def test_a_timed_chain_is_the_chain():
    """Neither the stopwatch nor the scores change a bit; the score is the estimator's."""
    import unbounded as ub

    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 6.0])
    model = mixture(X, GHOSTS, Plan(3, 5), concentration=1.0)
    rows = trace(model, X, "one", 5, of_mixture(model, X[:7]))
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4, 5]
    seconds, state = replay(model, X, "one", 5)
    assert (np.diff(seconds) > 0).all()
    assert len(seconds) == 6
    assert (density(model, state, X[:7]), len(state.occupied)) == (rows[-1]["score"], rows[-1]["clusters"])
    both = with_wall(rows, model, X, "one")
    assert [{name: row[name] for name in rows[0]} for row in both] == rows
    assert both[0]["wall_s"] == 0.0 < both[1]["wall_s"] < both[5]["wall_s"]
    options = {
        "concentration": 1.0,
        "n_shards": 3,
        "n_chains": 1,
        "n_warmup": 0,
        "n_draws": 5,
        "init": "one",
        "jumps": False,
    }
    fit = ub.DirichletProcessMixture(random_state=0, **options).fit(X, holdout=X[:7])
    reseeded = trace(model.reseeded(_chain_seed(0)), X, "one", 5, of_mixture(model, X[:7]))
    np.testing.assert_allclose([row["score"] for row in reseeded[1:]], fit.posterior_["holdout"].values[0], rtol=1e-12)


def _chain_seed(seed):
    from unbounded.randomness import key

    return int(key(seed, "chain", 0) >> np.uint64(2))


def test_chains_of_features_have_both_times_and_their_last_state():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)) + 3.0 * (rng.random((24, 1)) < 0.5)
    _, state, rows = feature_trace(X, rng.random(X.shape) < 0.1, GHOSTS, Plan(2, 4), "one")
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4]
    assert state.round == 4
    assert len(state.occupied) == rows[-1]["features"]
    for clock in ("critical_s", "wall_s"):
        assert (np.diff([row[clock] for row in rows]) > 0).all()


def test_the_time_of_a_round_leaves_the_first_rounds_out(monkeypatch):
    def trace(model, X, init, n_rounds, measure):
        return [{"round": r, "critical_s": 100.0 + 2.0 * r if r else 0.0} for r in range(n_rounds + 1)]

    def both(rows, *args):
        return [row | {"wall_s": 3.0 * row["critical_s"]} for row in rows]

    monkeypatch.setattr(exactness, "trace", trace)
    monkeypatch.setattr(exactness, "with_wall", both)
    found = exactness.time_of_a_round(exactness.problems()[1], GHOSTS, 2, 0)
    assert found == {"critical_s": pytest.approx(2.0), "wall_s": pytest.approx(6.0)}


# ---- what samplers can do


def test_sizes_are_tried_until_one_is_too_slow(monkeypatch):
    def seconds(this, method, plan):
        return this / 1e5

    monkeypatch.setattr(trials, "problem", lambda kind, n: n)
    monkeypatch.setattr(trials, "_round", seconds)
    monkeypatch.setattr(trials, "_wall", seconds)
    rows = list(trials.attempts("DP", GHOSTS, Plan(2), (1_000, 10_000, 100_000, 1_000_000), 0.5))
    assert [(row["rows"], row["fits"]) for row in rows] == [(1_000, True), (10_000, True), (100_000, False)]
    assert np.isnan(rows[-1]["wall_s"])
    assert table_1._measured(rows) == {"data size, DP": 10_000, "rows per second, DP": pytest.approx(1e5)}
    assert table_1._measured(rows[2:]) == {"data size, DP": 0, "rows per second, DP": None}


def test_the_largest_size_that_was_tried_is_a_bound():
    words = [table_1.size_words(size, (1_000, 10_000)) for size in (0, 1_000, 10_000)]
    assert words == ["< 1,000", "1,000", ">= 10,000"]


HEARD = []


class Whispering(HybridMixture):
    """Shards that tell each other of their steps through memory that they share only while in one process."""

    def local_step(self, shard, shared, own):
        HEARD.append(shard.index)
        summary = super().local_step(shard, shared, own)
        louder = summary.shared["statistics"] * (1.0 + 1e-9 * len(HEARD))
        return Summary(summary.shared | {"statistics": louder}, summary.private)


def test_shards_apart(monkeypatch):
    """Messages are all that travels; who needs more, or has one shard, is not distributed."""
    monkeypatch.setitem(DIRICHLET, "whispering", Sampler(Whispering))
    workers = trials.two_processes()
    try:
        assert trials.distributed("DP", GHOSTS, workers)
        assert not trials.distributed("DP", Method("", "", sampler="whispering"), workers)
        assert trials.distributed("beta-Bernoulli", GHOSTS, workers)
        assert not trials.distributed("DP", COLLAPSED, workers)
    finally:
        workers.close()


# ---- runs


def test_the_counter_example(tmp_path):
    """Two rows on two shards: the paper's rule says 4/7, the exact ones 1/2; a mistake of 1/14 would be seen."""
    rows = exactness.counter_example(chains=12, seed=0)
    assert [row["expected"] for row in rows] == pytest.approx([4 / 7, 1 / 2, 1 / 2])
    assert all(finding.held for finding in exactness.judge_counter_example(rows)), rows
    assert max(row["standard_error"] for row in rows) < 1 / 14 / 4


def test_the_table_without_times(tmp_path):
    experiment = replace(table_1.EXPERIMENT, quick=table_1.Sizes(rows=()))
    text = perform(experiment, Request(tmp_path, "quick"))
    assert "held: with ghosts it is exact, parallel, distributed, and has all five models" in text
    assert "did not hold: the hybrid sampler as published is exact" in text
    check_files(tmp_path)


def test_missing_data_are_one_sentence(tmp_path):
    result = paper("cifar-rivals", "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "error: the principal components of CIFAR-100 are missing: give their folder by --data FOLDER, which must hold "
        "cifar100/train_pca64.npy."
    )
    result = paper("cbcl-faces", "--out", tmp_path, "--quick", "--data", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert "must be one of synthetic-f1, " in paper("figure-1", "--out", tmp_path).stderr


def check_files(folder):
    names = {path.name for path in folder.iterdir()}
    assert {"figure.png", "figure.svg", "plotted.csv", "verdict.txt", "verdict.json"} <= names
    record = json.loads((folder / "verdict.json").read_text())
    assert record["findings"]
    assert (folder / "figure.png").stat().st_size < 400_000


@pytest.mark.long
@pytest.mark.parametrize("name", experiments.NAMES)
def test_quick_runs_without_data(name, tmp_path):
    result = paper(name, "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    check_files(tmp_path / name / "quick")
    heads = [path.read_text().split("\n", 1)[0] for path in (tmp_path / name / "quick").glob("*.csv")]
    assert any("critical_s" in head and ("wall_s" in head or name in CRITICAL) for head in heads)


@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not FOLDER.is_dir(), reason="no evaluation data (set UNBOUNDED_DATA)")
@pytest.mark.parametrize(
    "name", ["cifar-dimensions", "cifar-rivals", "cifar-scaling", "cbcl-faces", "cambridge-starts"]
)
def test_quick_runs_with_data(name, tmp_path):
    result = paper(name, "--quick", "--out", tmp_path, "--data", FOLDER)
    assert result.exit_code == 0, result.output
    check_files(tmp_path / name / "quick")


@pytest.mark.long
def test_runs_are_deterministic_but_for_times(tmp_path):
    import pandas as pd

    frames = []
    for turn in "ab":
        assert paper("synthetic-f1", "--quick", "--seed", 3, "--out", tmp_path / turn).exit_code == 0
        frames.append(
            pd.read_csv(tmp_path / turn / "synthetic-f1" / "quick" / "plotted.csv").drop(columns="critical_s")
        )
    pd.testing.assert_frame_equal(*frames)
