"""The paper's experiments: every file says what it claims and how it runs; two cheap ones run, the rest are long."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from unbounded.cli import app

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("UNBOUNDED_DATA", ROOT.parent / "shared" / "data"))
sys.path.insert(0, str(ROOT))

import experiments  # noqa: E402
from experiments import exactness, synthetic_f1, table_1  # noqa: E402
from experiments.chains import GHOSTS, Plan, Stopwatch, density, mixture, of_mixture, replay, trace, with_wall  # noqa: E402
from experiments.common import Finding, Request, more, no_worse, overall, perform  # noqa: E402

SHARED = {"__init__", "common", "figures", "chains", "data", "report"}


def paper(*words):
    return CliRunner().invoke(app, ["paper", *map(str, words)])


def test_every_file_is_an_experiment_with_a_claim_and_sizes():
    files = {path.stem for path in (ROOT / "experiments").glob("*.py")} - SHARED
    assert files == {name.replace("-", "_") for name in experiments.NAMES}
    for name in experiments.NAMES:
        experiment = experiments.load(name)
        assert experiment.name == name
        assert experiment.claim.endswith(".")
        assert is_dataclass(experiment.quick)
        assert type(experiment.quick) is type(experiment.full)
        assert experiment.quick != experiment.full
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


def test_pairwise_f1():
    truth = np.array([0, 0, 1, 1])
    assert synthetic_f1.pairwise_f1(np.array([5, 5, 2, 2]), truth) == 1.0
    assert synthetic_f1.pairwise_f1(np.zeros(4, int), truth) == pytest.approx(0.5)
    assert synthetic_f1.pairwise_f1(np.arange(4), truth) == 0.0


def test_the_critical_path_leaves_out_what_other_shards_took(monkeypatch):
    """Three shards that take 1, 2 and 4 units: the path has 4, so that 3 of the 7 were waiting."""
    now = 0.0

    class Recipe:
        n_shards = 3

        def __call__(self, p):
            return 2.0**p

    def work(units):
        nonlocal now
        now += units

    monkeypatch.setattr("experiments.chains.time.thread_time", lambda: now)
    engine = Stopwatch(Recipe())
    engine.map(work)
    engine.close()
    assert engine.waited == 3.0


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
    options = {"concentration": 1.0, "n_shards": 3, "n_warmup": 0, "n_draws": 5, "init": "one", "random_state": 0}
    fit = ub.DirichletProcessMixture(**options).fit(X, holdout=X[:7])
    reseeded = trace(model.reseeded(_chain_seed(0)), X, "one", 5, of_mixture(model, X[:7]))
    np.testing.assert_allclose([row["score"] for row in reseeded[1:]], fit.posterior_["holdout"].values[0], rtol=1e-12)


def _chain_seed(seed):
    from unbounded.randomness import key

    return int(key(seed, "chain", 0) >> np.uint64(2))


# ---- runs


def test_the_counter_example(tmp_path):
    """Two rows on two shards: the paper's rule says 4/7, the exact ones 1/2; a mistake of 1/14 would be seen."""
    rows = exactness.counter_example(chains=12, seed=0)
    assert [row["expected"] for row in rows] == pytest.approx([4 / 7, 1 / 2, 1 / 2])
    assert all(finding.held for finding in exactness.judge_counter_example(rows)), rows
    assert max(row["standard_error"] for row in rows) < 1 / 14 / 4


def test_the_table_without_times(tmp_path):
    experiment = replace(table_1.EXPERIMENT, quick=table_1.Sizes(n_rows=0))
    text = perform(experiment, Request(tmp_path, quick=True))
    assert "held: with ghosts it is exact, parallel, and has all five models" in text
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


def test_verdicts_go_into_the_page(tmp_path):
    from experiments import report

    run = tmp_path / "run" / "exactness"
    run.mkdir(parents=True)
    Image.new("RGB", (4, 3)).save(run / "figure.png")
    finding = {"statement": "it is", "held": False, "evidence": "1 and 2"}
    record = {
        "experiment": "exactness",
        "quick": True,
        "seed": 0,
        "cores": 2,
        "seconds": 3.2,
        "verdict": "did not hold",
    }
    (run / "verdict.json").write_text(json.dumps(record | {"findings": [finding]}))
    page = tmp_path / "paper.md"
    page.write_text("a\n<!-- exactness -->\nstale\n<!-- end -->\nb\n")
    report.update(page, tmp_path / "run")
    text = page.read_text()
    assert "stale" not in text
    assert "![exactness](paper/exactness.png)" in text
    assert "- **did not hold**: it is: 1 and 2." in text
    assert text.endswith("<!-- end -->\nb\n")
    with Image.open(tmp_path / "paper" / "exactness.png") as picture:
        assert picture.size == (4, 3)


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
    check_files(tmp_path / name)


@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not FOLDER.is_dir(), reason="no evaluation data (set UNBOUNDED_DATA)")
@pytest.mark.parametrize(
    "name", ["cifar-dimensions", "cifar-rivals", "cifar-scaling", "cbcl-faces", "cambridge-starts"]
)
def test_quick_runs_with_data(name, tmp_path):
    result = paper(name, "--quick", "--out", tmp_path, "--data", FOLDER)
    assert result.exit_code == 0, result.output
    check_files(tmp_path / name)


@pytest.mark.long
def test_runs_are_deterministic_but_for_times(tmp_path):
    import pandas as pd

    frames = []
    for turn in "ab":
        assert paper("synthetic-f1", "--quick", "--seed", 3, "--out", tmp_path / turn).exit_code == 0
        frames.append(pd.read_csv(tmp_path / turn / "synthetic-f1" / "plotted.csv").drop(columns="critical_s"))
    pd.testing.assert_frame_equal(*frames)
