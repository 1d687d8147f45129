"""The command line: four commands, four formats, files that are there, and errors of one line with exit status 2."""

from __future__ import annotations

import errno
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from typer.testing import CliRunner

import unbounded
from unbounded import DirichletProcessMixture
from unbounded.chain.lock import only_writer
from unbounded.cli import engine_of
from unbounded.cli.commands import app
from unbounded.cli.runs import said_plainly
from unbounded.models.mixtures.model import Mixture

rng = np.random.default_rng(2)
X = np.concatenate([rng.normal(size=(25, 2)), rng.normal(size=(35, 2)) + 12.0])[rng.permutation(60)]
COUNTS = np.stack([rng.multinomial(20, [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]][i % 2]) for i in range(60)]).astype(float)
BRIEF = ["--shards", "2", "--chains", "1", "--warmup", "2", "--draws", "5", "--workers", "1", "--quiet"]
WRITTEN = {"command.json", "run.json", "labels.npy", "draws.csv", "summary.txt", "traces.png", "chain-0"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "x.npy", X)
    frame = pd.DataFrame(X, columns=["width", "height"])
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_parquet(folder / "x.parquet")
    np.savetxt(folder / "bare.csv", X, delimiter=",", fmt="%.17g")
    sparse.save_npz(folder / "counts.npz", sparse.csr_matrix(COUNTS))
    return folder


DRAWN = set()


@pytest.fixture(autouse=True)
def _quick_pictures(monkeypatch):
    """Those of the runs that many tests share are laid out, too, which takes most of the time. The others are drawn,
    but only one of those that have the same pieces."""
    savefig = Figure.savefig

    def drawn(self, file, **options):
        pieces = [sorted(type(piece).__name__ for piece in axes.get_children()) for axes in self.axes]
        kind = repr((file.name.rpartition("/")[2], pieces))
        if kind in DRAWN:
            return
        self.set_layout_engine("none")
        savefig(self, file, **options)
        DRAWN.add(kind)

    monkeypatch.setattr(Figure, "savefig", drawn)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def ok(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def error(*words):
    """The one line on standard error of a call that fails with status 2."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, ok("fit", "dp", data / "x.npy", "--out", out, *BRIEF)


# ---- fit


def unknown_files(out):
    """Files of a run directory that docs/runs.md does not name."""
    page = (Path(__file__).parents[1] / "docs" / "runs.md").read_text()
    named = {re.sub(r"\d+", "0", word) for word in re.findall(r"`([\w/.-]+)`", page)}
    named |= {f"chain-0/{name}" for name in named} | {name.replace("labels/", "Z/") for name in named}
    found = {re.sub(r"\d+", "0", str(path.relative_to(out))) for path in out.rglob("*") if path.is_file()}
    return found - named


def test_fit_writes_a_run_directory(done):
    out, said = done
    assert unknown_files(out) == set()
    assert {path.name for path in out.iterdir()} >= WRITTEN | {"clusters.png"}
    assert said == (out / "summary.txt").read_text()
    assert "clusters (estimate)  2" in said
    labels = np.load(out / "labels.npy")
    assert sorted(np.bincount(labels)) == [25, 35]
    by_shard = [np.load(out / "labels" / f"shard-{p:05d}.npy") for p in range(2)]  # a .npy is a source
    np.testing.assert_array_equal(np.concatenate(by_shard), labels)
    draws = pd.read_csv(out / "draws.csv")
    assert len(draws) == 5
    assert {"n_clusters", "alpha", "log_joint", "entropy", "largest"} <= set(draws.columns)
    assert (out / "traces.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "bare.csv"])
def test_every_format_gives_the_same_chain(done, data, tmp_path, name):
    ok("fit", "dp", data / name, "--out", tmp_path / "run", *BRIEF)
    assert (tmp_path / "run" / "draws.csv").read_text() == (done[0] / "draws.csv").read_text()
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "labels.npy"), np.load(done[0] / "labels.npy"))


def test_sparse_counts(data, tmp_path):
    out = tmp_path / "run"
    ok("fit", "py", data / "counts.npz", "--out", out, "--likelihood", "multinomial", "--holdout", "0.2", *BRIEF)
    assert {path.name for path in out.iterdir()} >= WRITTEN
    assert len(np.load(out / "labels.npy")) == 48
    ok("predict", out, data / "counts.npz", "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert len(table) == 60
    clusters = table["cluster"].to_numpy()
    assert (clusters[::2] == clusters[0]).all()
    assert (clusters[1::2] == clusters[1]).all()
    assert clusters[0] != clusters[1]


def test_held_out_rows(data, tmp_path):
    out = tmp_path / "run"
    said = ok("fit", "dp", data / "x.csv", "--out", out, "--holdout", "0.25", *BRIEF)
    assert "rows                 45" in said
    assert "holdout" in said
    assert np.isfinite(pd.read_csv(out / "draws.csv")["holdout"]).all()
    assert len(np.load(out / "labels.npy")) == 45
    ok("resume", out, "--draws", "7", "--quiet")
    assert len(pd.read_csv(out / "draws.csv")) == 7


def test_options_reach_the_model(data, tmp_path):
    out = tmp_path / "run"
    options = [
        "--concentration", "1.5", "--discount", "0.25", "--thin", "2", "--chains", "2", "--sweeps", "2", "--engine",
        "serial", "--instantiate", "one_open", "--init", "one", "--loss", "binder", "--seed", "7", "--keep-assignments",
    ]  # fmt: skip
    ok("fit", "py", data / "x.npy", "--out", out, *BRIEF, *options)
    config = json.loads((out / "run.json").read_text())
    expected = {
        "model": "PitmanYorMixture", "n_shards": 2, "n_warmup": 2, "n_draws": 5, "thin": 2, "n_chains": 2,
        "sweeps_per_round": 2, "init": "one", "seed": 7, "keep_assignments": 1,
    }  # fmt: skip
    assert expected.items() <= config.items()
    assert config["instantiate"]["name"] == "OneOpen"
    draws = pd.read_csv(out / "draws.csv")
    assert len(draws) == 10
    assert (draws["alpha"] == 1.5).all()
    assert (draws["sigma"] == 0.25).all()
    assert (out / "chain-1" / "assignments.bin").stat().st_size == 4 * 60 * 5


def test_a_device_is_part_of_the_run_unless_it_is_the_cpu(done, data, tmp_path):
    assert "device" not in json.loads((done[0] / "run.json").read_text())
    out = tmp_path / "run"
    ok("fit", "dp", data / "x.npy", "--out", out, "--device", "reference", "--init", "one", *BRIEF)
    assert json.loads((out / "run.json").read_text())["device"] == "reference"
    ok("resume", out, "--draws", "6", "--quiet")
    command = json.loads((out / "command.json").read_text())
    del command["settings"]["device"], command["sha256"]
    (out / "command.json").write_text(json.dumps(command))
    assert "other device" in error("resume", out, "--quiet")


def test_inexact_draws_are_flagged(data, tmp_path):
    said = ok("fit", "dp", data / "x.npy", "--out", tmp_path / "run", "--instantiate", "published-hot", *BRIEF)
    assert said.startswith("NOT EXACT")


def test_progress(data, tmp_path):
    result = run("fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF[:-1])
    assert result.exit_code == 0
    assert "rows/s" in result.stderr, "what is printed to standard output is the answer alone"


# ---- resume, summary, predict


def test_summary_prints_the_report_again(done):
    out, said = done
    assert ok("summary", out) == said


def test_resume_of_a_finished_run_changes_nothing(done):
    out, said = done
    before = (out / "draws.csv").read_text()
    assert ok("resume", out, "--quiet") == said
    assert (out / "draws.csv").read_text() == before


def test_resume_extends_a_run(data, tmp_path):
    short, long = tmp_path / "short", tmp_path / "long"
    ok("fit", "dp", data / "x.npy", "--out", short, *BRIEF)
    ok("resume", short, "--draws", "8", "--workers", "2", "--quiet")
    ok("fit", "dp", data / "x.npy", "--out", long, *BRIEF, "--draws", "8")
    assert (short / "draws.csv").read_text() == (long / "draws.csv").read_text()
    assert ok("resume", short, "--quiet") == (long / "summary.txt").read_text()


def test_chains_with_starts_of_their_own_that_go_on_by_themselves(data, tmp_path):
    """The limit is reached before a hundred draws, which are too few to be judged."""
    out, fixed = tmp_path / "auto", tmp_path / "fixed"
    starts = ["--chains", "2", "--init", "one,prior", "--merge-cost", "1.2", "--loss", "vi"]
    said = ok("fit", "dp", data / "x.npy", "--out", out, *BRIEF, *starts, "--draws", "auto", "--max-draws", "4")
    assert "not judged: 4 draws per chain are too few" in " ".join(said.split())
    assert json.loads((out / "run.json").read_text())["init"] == ["one", "prior"]
    ok("predict", out, data / "x.npy", "--out", tmp_path / "p.csv")  # it is finished
    ok("fit", "dp", data / "x.npy", "--out", fixed, *BRIEF, *starts, "--draws", "2")
    command = json.loads((fixed / "command.json").read_text())
    del command["settings"]["init"], command["sha256"]  # as if it had been another default, in an older version
    (fixed / "command.json").write_text(json.dumps(command))
    ok("resume", fixed, "--draws", "4", "--quiet")
    assert (out / "draws.csv").read_text() == (fixed / "draws.csv").read_text()
    assert "at most" not in ok("report", out)


@pytest.fixture(params=["SIGINT", "SIGTERM", "SIGHUP"])
def stop(request):
    """What Ctrl-C and schedulers send; the latter end a process that has no answer, as whoever runs tests may have."""
    number = getattr(signal, request.param)
    before = signal.getsignal(number) if request.param == "SIGINT" else signal.signal(number, signal.SIG_DFL)
    yield number
    signal.signal(number, before)


def test_ctrl_c_and_resume(done, data, tmp_path, monkeypatch, stop):
    """What there is so far is written, the way to go on is said, and the end is the same."""
    out = tmp_path / "run"
    gather, count = Mixture.gather, []

    def watched(self, state, *args):
        new = gather(self, state, *args)
        count.append(1)
        if self.setup.n_rounds == 7 and self.n_shards == 2 and new.round == 4:
            os.kill(os.getpid(), stop)
        return new

    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "gather", watched)
        said = run("fit", "dp", data / "x.npy", "--out", out, *BRIEF, "--init", "one")
    assert said.exit_code == 130
    assert "unbounded resume" in said.stdout.replace("\n", " ")
    assert "estimates            from 2 whole draws" in said.stdout
    assert len(pd.read_csv(out / "draws.csv")) == 2
    assert "not finished" in error("predict", out, data / "x.npy", "--out", tmp_path / "p.csv")
    ok("resume", out, "--quiet")
    ok("fit", "dp", data / "x.npy", "--out", tmp_path / "whole", *BRIEF, "--init", "one")
    assert (out / "draws.csv").read_text() == (tmp_path / "whole" / "draws.csv").read_text()


@pytest.mark.parametrize(
    ("at", "words"), [(1, "nothing was drawn yet; go on with"), (3, "estimates            none yet")]
)
def test_ctrl_c_before_there_is_an_estimate(data, tmp_path, monkeypatch, at, words):
    gather = Mixture.gather

    def watched(self, state, *args):
        new = gather(self, state, *args)
        if self.setup.n_rounds == 7 and new.round == at:
            os.kill(os.getpid(), signal.SIGINT)
        return new

    monkeypatch.setattr(Mixture, "gather", watched)
    said = run("fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF, "--init", "one")
    assert said.exit_code == 130
    assert words in said.stdout + said.stderr


def test_ctrl_c_before_anything(data, tmp_path, monkeypatch):
    from unbounded.models.mixtures import start

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "begin", interrupt)
    result = run("fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF)
    assert result.exit_code == 130
    assert result.stderr == f"interrupted: nothing was drawn yet; go on with: unbounded resume {tmp_path / 'run'}\n"


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_predict(done, data, tmp_path, name):
    out, _ = done
    said = ok("predict", out, data / name, "--out", tmp_path / "p.csv")
    assert "60 rows" in said
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["row", "cluster", "probability", "log_density"]
    assert table["row"].tolist() == list(range(60))
    np.testing.assert_array_equal(table["cluster"], np.load(out / "labels.npy"))
    assert (table["probability"] > 0.99).all()
    assert np.isfinite(table["log_density"]).all()


# ---- features


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Rows of 2 x 3 pixels with two features, and a finished run."""
    folder = tmp_path_factory.mktemp("pictures")
    Z = rng.random((60, 2)) < 0.5
    np.save(folder / "x.npy", Z @ np.array([[3.0, 3, 0, 0, 0, 0], [0, 0, 0, 0, 3, 3]]) + 0.3 * rng.normal(size=(60, 6)))
    np.save(folder / "counts.npy", rng.poisson(0.5 + Z @ np.array([[5.0, 4, 0], [0, 0, 6]])))
    said = ok(
        "fit", "beta-bernoulli", folder / "x.npy", "--out", folder / "run", "--holdout", "0.1", "--shape", "2x3",
        "--keep-assignments", *BRIEF, "--warmup", "40",
    )  # fmt: skip
    return folder, said


def test_features_write_a_run_directory(pictures):
    folder, said = pictures
    run_ = folder / "run"
    assert unknown_files(run_) == set()
    written = {"components.npy", "assignments.npy", "features.png", "z.png"}
    assert {path.name for path in run_.iterdir()} >= (WRITTEN - {"labels.npy"}) | written
    assert said == (run_ / "summary.txt").read_text() == ok("summary", run_)
    components, Z = np.load(run_ / "components.npy"), np.load(run_ / "assignments.npy")
    assert components.shape == (Z.shape[1], 6)
    assert len(Z) == 60
    assert f"features (estimate)  {len(components)}" in said
    draws = pd.read_csv(run_ / "draws.csv")
    assert {"n_features", "alpha", "c", "sigma_x", "sigma_a", "log_joint", "per_row", "holdout"} <= set(draws.columns)
    assert len(list((run_ / "chain-0" / "assignments").iterdir())) == 5


def test_features_resume_and_predict(pictures, tmp_path):
    folder, said = pictures
    assert ok("resume", folder / "run", "--quiet") == said
    ok("predict", folder / "run", folder / "x.npy", "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    n_features = len(np.load(folder / "run" / "components.npy"))
    assert list(table.columns) == ["row", *(f"feature_{k}" for k in range(n_features)), "log_density"]
    assert len(table) == 60
    assert np.isfinite(table).all().all()


@pytest.mark.parametrize("model", ["gamma-poisson", "beta-negative-binomial"])
def test_counts_of_features(pictures, tmp_path, model):
    options = ["--likelihood", "poisson_factors", "--mass", "2", "--init", "one", "--concentration", "1"]
    options += ["--failures", "2"] if model == "beta-negative-binomial" else []
    ok("fit", model, pictures[0] / "counts.npy", "--out", tmp_path / "run", *options, *BRIEF)
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["measure"]["mass"] == "2.0"
    assert config["measure"].get("failures", "2.0") == "2.0"
    assert config["likelihood"]["name"] == "PoissonFactors"


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("beta-bernoulli", ["--discount", "0.2"], ["--discount", "py", "beta-bernoulli"]),
        ("beta-bernoulli", ["--loss", "vi"], ["--loss", "dp", "beta-bernoulli"]),
        ("gamma-poisson", ["--failures", "2"], ["--failures", "beta-negative-binomial", "gamma-poisson"]),
        ("dp", ["--mass", "2"], ["--mass", "beta-bernoulli", "dp"]),
        ("dp", ["--shape", "1x2"], ["--shape", "features", "dp"]),
        ("beta-bernoulli", ["--shape", "2"], ["--shape", "6x6", "'2'"]),
        ("beta-bernoulli", ["--shape", "4x4"], ["--shape 4x4", "6 columns"]),
        ("beta-bernoulli", ["--likelihood", "gaussian"], ["likelihood", "linear_gaussian"]),
        ("beta-bernoulli", ["--init", "kmeans++"], ["init", "grown"]),
        ("beta-bernoulli", ["--holdout", "1"], ["holdout", "[0, 1)"]),
        ("beta-bernoulli", ["--likelihood", "poisson_factors"], ["Poisson", "counts"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_options_of_other_models(pictures, tmp_path, model, options, words):
    line = error("fit", model, pictures[0] / "x.npy", "--out", tmp_path / "run", *BRIEF, *options)
    assert all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


# ---- errors


# ---- topics


@pytest.fixture(scope="module")
def documents(data):
    (data / "words.txt").write_text("red\ngreen\nblue\n")
    np.save(data / "groups.npy", np.arange(60) // 20)
    return data


def test_topics_write_a_run_directory(documents, tmp_path):
    out = tmp_path / "run"
    options = ["--vocabulary", documents / "words.txt", "--holdout", "0.2", "--init", "4"]
    text = ok("fit", "hdp", documents / "counts.npz", "--out", out, *options, *BRIEF)
    assert "topics (posterior)" in text
    assert "green" in text
    assert text == (out / "summary.txt").read_text()
    names = {"labels.npy", "components.npy", "proportions.npy", "topics.txt", "topics.png"}
    assert names <= {path.name for path in out.iterdir()}
    assert unknown_files(out) == set()
    assert np.load(out / "proportions.npy").shape[0] == 48
    ok("resume", out, "--draws", "6", "--quiet")
    assert len(pd.read_csv(out / "draws.csv")) == 6
    ok("predict", out, documents / "counts.npz", "--out", tmp_path / "shares.csv")
    assert np.allclose(pd.read_csv(tmp_path / "shares.csv", index_col="group").sum(axis=1), 1.0)


def test_groups_of_rows(documents, tmp_path):
    options = ["--groups", documents / "groups.npy", "--holdout", "0.4", "--form", "franchise"]
    ok("fit", "hdp", documents / "x.npy", "--out", tmp_path / "run", *options, *BRIEF)
    assert np.load(tmp_path / "run" / "proportions.npy").shape[0] == 2
    assert "holdout" in (tmp_path / "run" / "draws.csv").read_text()
    ok("fit", "hdp", documents / "x.npy", "--out", tmp_path / "all", *options[:2], *options[4:], *BRIEF)
    assert (tmp_path / "all" / "labels" / "shards.json").exists()


@pytest.mark.parametrize(
    ("model", "name", "options", "words"),
    [
        ("dp", "x.npy", ["--vocabulary", "words.txt"], "--vocabulary belongs to hdp"),
        ("dp", "x.npy", ["--groups", "groups.npy"], "--groups belongs to hdp"),
        ("hdp", "counts.npz", ["--vocabulary", "groups.npy"], "error"),
        ("hdp", "counts.npz", ["--vocabulary", "x.csv"], "has 61 words, the documents have 3 columns"),
        ("hdp", "x.npy", ["--groups", "x.npy"], "x.npy holds an array of shape (60, 2); give one id for each row."),
        ("hdp", "x.npy", [], "counts that are not 0, 1, 2"),
    ],
)
def test_wrong_topics(documents, tmp_path, model, name, options, words):
    paths = [documents / word if "." in word else word for word in options]
    assert words in error("fit", model, documents / name, "--out", tmp_path / "run", *paths, *BRIEF)
    assert not (tmp_path / "run").exists()


def test_files_beside_the_data(documents, tmp_path):
    (tmp_path / "blank.txt").write_text("red\n \nblue\n")
    np.save(tmp_path / "pickled.npy", np.array([{}] * 60, dtype=object), allow_pickle=True)
    np.save(tmp_path / "short.npy", np.zeros(59))
    (tmp_path / "cut.npy").write_bytes((documents / "groups.npy").read_bytes()[:-9])
    for data, option, name, words in (
        ("counts.npz", "--vocabulary", "none.txt", "none.txt cannot be read: No such file or directory."),
        ("counts.npz", "--vocabulary", "blank.txt", "blank.txt has no word in line 2; give every column a word"),
        ("x.npy", "--groups", "none.npy", "none.npy does not exist"),
        ("x.npy", "--groups", "pickled.npy", "pickled.npy cannot be read, it may be damaged"),
        ("x.npy", "--groups", "cut.npy", "cut.npy cannot be read, it may be damaged"),
        ("x.npy", "--groups", "short.npy", "--groups has 59 ids for 60 rows."),
    ):
        line = error("fit", "hdp", documents / data, "--out", tmp_path / "run", option, tmp_path / name, *BRIEF)
        assert words in line
        assert line.endswith(".")


# ---- bad input


@pytest.mark.parametrize(
    ("content", "name", "word"),
    [
        (None, "missing.npy", "does not exist"),
        (b"1,2\n", "x.txt", "unknown ending"),
        (b"nonsense", "x.npy", "cannot be read"),
        (b"nonsense", "x.npz", "not a CSR matrix"),
        (b"nonsense", "x.parquet", "cannot be read"),
        (b"", "x.csv", "cannot be read"),
        (b"a,b\n1,red\n2,blue\n", "x.csv", "column 'b' is not numeric"),
        (b"a,b\n1,2\n", "x.csv", "1 sample"),
        (b"a,b\n1,2\n3,inf\n4,5\n", "x.csv", "infinity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_data_that_cannot_be_read(tmp_path, content, name, word):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert word in error("fit", "dp", tmp_path / name, "--out", tmp_path / "run", *BRIEF)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--likelihood", "normal"], ["likelihood", "normal", "gaussian"]),
        (["--engine", "gpu"], ["engine", "gpu"]),
        (["--init", "random"], ["init", "random"]),
        (["--instantiate", "ghost"], ["instantiate", "ghost"]),
        (["--loss", "l2"], ["loss", "l2"]),
        (["--dtype", "half"], ["dtype", "half"]),
        (["--device", "abacus"], ["device", "abacus", "cpu"]),
        (["--draws", "0"], ["n_draws", "at least 1"]),
        (["--shards", "61"], ["n_shards=61", "60 rows"]),
        (["--workers", "0"], ["n_workers"]),
        (["--holdout", "1"], ["holdout", "[0, 1)"]),
        (["--holdout", "-0.1"], ["holdout", "[0, 1)"]),
        (["--concentration", "-1"], ["concentration", "-1.0"]),
        (["--discount", "0.2"], ["--discount", "py"]),
        (["--draws", "many"], ["--draws", "auto", "many"]),
        (["--merge-cost", "2"], ["merge_cost", "2.0"]),
        (["--init", "one,there"], ["init", "there"]),
        (["--likelihood", "poisson"], ["Poisson", "counts"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_wrong_options(data, tmp_path, options, words):
    """One line, and no trace of the attempt in the directory."""
    line = error("fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF, *options)
    assert all(word in line for word in words)
    assert not (tmp_path / "run").exists()


def test_an_unknown_model(data, tmp_path):
    line = error("fit", "lda", data / "x.npy", "--out", tmp_path / "run", *BRIEF)
    assert "dp" in line
    assert "py" in line
    assert "'lda'" in line


def test_a_directory_that_is_taken(done, data):
    assert "already holds a run" in error("fit", "dp", data / "x.npy", "--out", done[0], *BRIEF)


def test_a_directory_that_cannot_be_written(data, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "cannot write to the run directory" in error("fit", "dp", data / "x.npy", "--out", out, *BRIEF)


def test_a_directory_that_is_no_run(tmp_path, data):
    for words in (["summary"], ["resume"], ["predict"]):
        rest = [data / "x.npy", "--out", tmp_path / "p.csv"] if words == ["predict"] else []
        assert "not a run directory" in error(*words, tmp_path, *rest)


def test_terminals_are_not_obeyed(data, tmp_path, monkeypatch):
    """Names of columns, of files and of folders are written out, in what is said and in errors: no title of a window,
    no colour, no markup of the console."""
    name = "\x1b]2 mine\x07\x1b[31m[red]\u202e"
    shown = r"\x1b]2 mine\x07\x1b[31m[red]\u202e"
    pd.DataFrame({name: ["a", "b"] * 30, "x": X[:, 0]}).to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    asked = ["fit", "dp", f"{name}.csv", "--out", name, *BRIEF]
    said = [
        run(*asked, "--likelihood", "gaussian"), run(*asked, "--likelihood", f"gaussian: x; categorical: {name}"),
        run("report", name), run("predict", name, f"{name}.csv", "--out", f"{name}.p"), run("summary", f"{name}2"),
        run("shard", data / "x.npy", "--out", f"{name}.s", "--shards", "2"), run("resume", name, "--draws", "1"),
    ]  # fmt: skip
    assert [one.exit_code for one in said] == [2, 0, 0, 0, 2, 0, 2], [one.output for one in said]
    for one in said:
        assert not set("\x1b\x07\u202e") & set(one.output)
    assert sum(shown in one.output.replace("\n", "") for one in said) >= 6
    assert not set("\x1b\x07\u202e") & set((tmp_path / name / "report.html").read_text())


@pytest.mark.parametrize("content", ["", "{", "{}", "[1]", pytest.param("[" * 100_000, id="deep"), '{"model": "dp"}'])
def test_a_damaged_command(tmp_path, content):
    (tmp_path / "command.json").write_text(content)
    line = error("resume", tmp_path)
    assert "command.json" in line
    assert "damaged" in line


def _without(command, name):
    return {key: value for key, value in command.items() if key != name}


@pytest.mark.parametrize(
    "edit",
    [
        lambda command: command | {"data": command["data"] + "x"},
        lambda command: command | {"settings": _without(command["settings"], "n_draws")},
        lambda command: command | {"settings": command["settings"] | {"loss": "binder"}},
        lambda command: command | {"notes": "mine"},
        lambda command: _without(command, "shape"),
    ],
    ids=["data", "a setting less", "a setting more", "a key more", "a key less"],
)
def test_a_command_that_was_changed(done, data, tmp_path, edit):
    """Everybody who reads it says so; whoever means it removes the checksum."""
    out = shutil.copytree(done[0], tmp_path / "run")
    command = json.loads((out / "command.json").read_text())
    (out / "command.json").write_text(json.dumps(edit(command)))
    for words in (["resume", out], ["report", out], ["summary", out],
                  ["predict", out, data / "x.npy", "--out", tmp_path / "p.csv"]):  # fmt: skip
        line = error(*words)
        assert f"{out / 'command.json'} is damaged: it was changed; restore it" in line
        assert 'remove its entry "sha256"' in line
    (out / "command.json").write_text(json.dumps(_without(command, "sha256"), indent=3))
    assert ok("resume", out, "--quiet") == (done[0] / "summary.txt").read_text()
    assert "sha256" in json.loads((out / "command.json").read_text())
    ok("report", out)


def test_data_that_were_moved(data, tmp_path):
    """The command is edited on purpose; it is the data that are compared, not where they are."""
    np.save(tmp_path / "x.npy", X)
    ok("fit", "dp", tmp_path / "x.npy", "--out", tmp_path / "run", *BRIEF)
    path = tmp_path / "run" / "command.json"
    moved = {"data": str((tmp_path / "x.npy").rename(tmp_path / "moved.npy"))}
    path.write_text(json.dumps(_without(json.loads(path.read_text()), "sha256") | moved))
    ok("resume", tmp_path / "run", "--draws", "7", "--quiet")
    ok("fit", "dp", data / "x.npy", "--out", tmp_path / "straight", *BRIEF, "--draws", "7")
    assert (tmp_path / "run" / "draws.csv").read_text() == (tmp_path / "straight" / "draws.csv").read_text()


def _kinds_of(command):
    """A command with one value after the other of another kind, or gone."""
    plain = _without(command, "sha256")
    for name in ("model", "data", "holdout", "settings", "shape"):
        yield from (plain | {name: value} for value in ([], {"a": 1}))
    for name in command["settings"]:
        for value in ([], {"a": 1}, "x", float("nan"), None):
            if value is not None or name not in ("n_workers", "sampler_options"):
                yield plain | {"settings": plain["settings"] | {name: value}}
    for name in ("random_state", "n_draws", "n_chains"):
        yield plain | {"settings": _without(plain["settings"], name)}


def test_a_command_with_values_of_another_kind(done, tmp_path):
    """Without a checksum, as older versions wrote it: one sentence of ours, not one of Python's."""
    ours = "command.json is damaged", "must be", "come as", "has no start", "has no option"
    out = shutil.copytree(done[0], tmp_path / "run")
    for command in _kinds_of(json.loads((out / "command.json").read_text())):
        (out / "command.json").write_text(json.dumps(command))
        line = error("resume", out, "--quiet")
        assert any(words in line for words in ours), line


def test_a_damaged_checkpoint(data, tmp_path):
    out = tmp_path / "run"
    ok("fit", "dp", data / "x.npy", "--out", out, *BRIEF)
    path = out / "chain-0" / "checkpoint.ub"
    path.write_bytes(path.read_bytes()[:-3])
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert "damaged" in error("resume", out, "--draws", "30", "--quiet")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_results_are_the_old_ones_or_the_new_ones(done, data, tmp_path, monkeypatch):
    """Each file takes its place when it is whole: whatever happens before, nobody reads half of one."""
    out, replace, full = shutil.copytree(done[0], tmp_path / "run"), os.replace, []
    names = ["draws.csv", "traces.png", "labels.npy", "clusters.png", "summary.txt", "report.html", "new.csv"]
    writers = {"report.html": ["report", out], "new.csv": ["predict", out, data / "x.npy", "--out", out / "new.csv"]}
    for words in writers.values():
        ok(*words)
    before = {name: (out / name).read_bytes() for name in names}

    def no_room(source, target):
        if os.path.basename(target) in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", no_room)
    for name in names:
        full.clear()
        if name in writers:
            ok("resume", out, "--quiet")  # a report wants results that belong together
        full.append(name)
        line = error(*writers.get(name, ["resume", out, "--draws", "7", "--quiet"]))
        assert f"could not write {out / name}: No space left on device" in line
        assert (out / name).read_bytes() == before[name]
    full.clear()
    ok("resume", out, "--quiet")
    assert len(pd.read_csv(out / "draws.csv")) == 7
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


def test_results_may_go_where_no_file_is(done, data, tmp_path):
    """A pipe is written to, and not replaced; a link stays one."""
    (tmp_path / "link.csv").symlink_to(tmp_path / "far.csv")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        for name in ("pipe", "link.csv"):
            ok("predict", done[0], data / "x.npy", "--out", tmp_path / name)
        assert reader.communicate()[0] == (tmp_path / "far.csv").read_bytes()
    assert (tmp_path / "link.csv").is_symlink()
    assert "could not write" in error("predict", done[0], data / "x.npy", "--out", tmp_path / "none" / "p.csv")


def test_data_that_changed_since(data, tmp_path):
    np.save(tmp_path / "x.npy", X)
    ok("fit", "dp", tmp_path / "x.npy", "--out", tmp_path / "run", *BRIEF)
    np.save(tmp_path / "x.npy", X + 1.0)
    assert "x.npy is not what it was when the run" in error("resume", tmp_path / "run")
    (tmp_path / "x.npy").unlink()
    assert "does not exist" in error("resume", tmp_path / "run")


def test_a_failed_resume_leaves_the_run_as_it_was(data, tmp_path):
    out = tmp_path / "run"
    ok("fit", "dp", data / "x.npy", "--out", out, *BRIEF)
    assert "n_draws" in error("resume", out, "--draws", "0")
    assert "n_workers" in error("resume", out, "--workers", "0")
    assert "holds 5 draws, more than n_draws=3" in error("resume", out, "--draws", "3")
    assert ok("resume", out, "--quiet") == (out / "summary.txt").read_text()


def test_new_rows_that_do_not_fit(done, data, tmp_path):
    np.save(tmp_path / "wide.npy", np.ones((3, 5)))
    line = error("predict", done[0], tmp_path / "wide.npy", "--out", tmp_path / "p.csv")
    assert "5 features" in line
    assert "does not exist" in error("predict", done[0], tmp_path / "none.npy", "--out", tmp_path / "p.csv")
    assert "nowhere" in error("predict", done[0], data / "x.npy", "--out", tmp_path / "nowhere" / "p.csv")


def test_the_installed_command_answers():
    done = subprocess.run([sys.executable, "-m", "unbounded.cli", "--help"], capture_output=True, text=True, check=True)
    for name in ("fit", "resume", "summary", "predict"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (["fit", "dp", "x.npy", "--engine", "mpi"], "mpi"),
        (["fit", "dp", "x.npy", "--engine=mpi", "--quiet"], "mpi"),
        (["fit", "dp", "mpi"], None),
        (["resume", "--draws", "9", "{run}"], "threads"),
        (["resume", "{run}", "--engine", "mpi"], "mpi"),
        (["resume", "nowhere"], None),
        (["summary", "{run}"], None),
        ([], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_engine_is_known_before_a_command_is_read(done, words, engine):
    assert engine_of([word.format(run=done[0]) for word in words]) == engine


def test_the_version_is_said():
    said = subprocess.run([sys.executable, "-m", "unbounded", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"unbounded {unbounded.__version__}\n"


# ---- results


@pytest.mark.parametrize("name", ["summary.txt", "draws.csv", "labels.npy", "labels/shard-00001.npy", "results.json"])
@pytest.mark.parametrize("how", ["flipped", "deleted", "a folder"])
def test_results_that_were_changed(done, tmp_path, name, how):
    """Summary and report name the file, and a resumed fit writes it again."""
    out = shutil.copytree(done[0], tmp_path / "run")
    content = bytearray((out / name).read_bytes())
    content[len(content) // 2] ^= 1
    (out / name).unlink()
    if how == "flipped":
        (out / name).write_bytes(content)
    if how == "a folder":
        (out / name).mkdir()
    for words in ("summary", "report"):
        line = error(words, out)
        assert str(out / name) in line
        assert (f"`unbounded resume {out}` writes" if how != "a folder" else "Is a directory; restore it") in line
    if how == "a folder":
        (out / name).rmdir()
    assert ok("resume", out, "--quiet") == done[1]
    assert ok("summary", out) == done[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.json", "run.json is missing, although there are chains; restore it"),
        ("chain-0/trace.jsonl", "trace.jsonl is damaged"),
        ("chain-0/checkpoint.ub", "checkpoint.ub is missing"),
    ],
)
def test_a_summary_of_a_run_that_was_damaged(done, tmp_path, name, words):
    out = shutil.copytree(done[0], tmp_path / "run")
    (out / name).unlink()
    assert words in error("summary", out)


def test_results_of_an_older_version(done, tmp_path):
    out = shutil.copytree(done[0], tmp_path / "run")
    config = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(_without(_without(config, "format"), "sha256")))
    (out / "results.json").unlink()
    assert ok("summary", out) == done[1]
    ok("report", out)
    ok("resume", out, "--quiet")
    assert "format" not in json.loads((out / "run.json").read_text())
    (out / "draws.csv").write_text("")
    assert "draws.csv was changed or deleted" in error("summary", out)


def test_warnings_are_said_in_the_style_of_the_command_and_kept(data, tmp_path):
    pd.DataFrame({"x": X[:, 0], "same": 1.0}).to_csv(tmp_path / "x.csv", index=False)
    asked = ["fit", "beta-bernoulli", tmp_path / "x.csv", "--out", tmp_path / "run", *BRIEF]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = run(*asked)
        assert said.exit_code == 0, said.output
        (line,) = said.stderr.strip().splitlines()
        assert line.startswith("warning: ")
        assert "same" in line or "constant" in line or "column" in line
        words = line.removeprefix("warning: ")
        shown = " ".join((tmp_path / "run" / "summary.txt").read_text().split())
        assert f"warning {words}" in shown
        ok("report", tmp_path / "run")
        assert html.escape(words) in (tmp_path / "run" / "report.html").read_text()
        ok("resume", tmp_path / "run", "--quiet")
    assert (tmp_path / "run" / "summary.txt").read_text().count("warning  ") == 1


def test_a_helper_of_python_that_was_killed_is_no_matter_of_the_draws(monkeypatch, capfd):
    """The summary is the same, whichever process of a fit was killed."""
    own = resource_tracker.ResourceTracker()
    own.ensure_running()
    os.kill(own._pid, signal.SIGKILL)
    with said_plainly() as said:
        while own._check_alive():
            pass
        own.ensure_running()
    own._stop()
    assert not said
    assert capfd.readouterr().err == ""


# ---- interruptions


def _stop_in(monkeypatch, where, name):
    monkeypatch.setattr(where, name, lambda *_, **__: signal.raise_signal(signal.SIGINT))


def test_ctrl_c_after_the_last_round(data, tmp_path, monkeypatch):
    """In the estimate or in the results: the draws are there, and the way on can be copied."""
    from unbounded.report import plots

    for where, name in ((DirichletProcessMixture, "_estimate"), (plots, "traces")):
        out = tmp_path / f"my {name}"
        with monkeypatch.context() as patch:
            _stop_in(patch, where, name)
            said = run("fit", "dp", data / "x.npy", "--out", out, *BRIEF)
        assert said.exit_code == 130
        way = f"go on with: unbounded resume '{out}'"
        assert said.stderr == f"interrupted: the draws up to the last checkpoint are kept; {way}\n"
        assert "summary.txt is missing" in error("summary", out)
        assert "clusters (estimate)" in ok("resume", out, "--quiet")


def test_ctrl_c_twice(data, tmp_path, monkeypatch):
    gather = Mixture.gather

    def watched(self, state, *args):
        new = gather(self, state, *args)
        if self.setup.n_rounds == 7 and new.round == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return new

    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "gather", watched)
        said = run("fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF, "--init", "one")
    assert said.exit_code == 130
    assert said.stderr.endswith(f"and will be made again; go on with: unbounded resume {tmp_path / 'run'}\n")
    ok("resume", tmp_path / "run", "--quiet")


def test_one_whole_draw_is_no_estimate(data, tmp_path, monkeypatch):
    gather = Mixture.gather

    def watched(self, state, *args):
        new = gather(self, state, *args)
        if self.setup.n_rounds == 7 and new.round == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return new

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "gather", watched)
        said = run("fit", "dp", data / "x.npy", "--out", out, *BRIEF, "--init", "one")
    assert said.exit_code == 130
    assert "estimates            none yet" in said.stdout
    assert "(estimate)" not in said.stdout
    assert "cluster sizes" not in said.stdout
    assert not {"labels.npy", "labels", "clusters.png"} & {path.name for path in out.iterdir()}
    ok("report", out)
    page = (out / "report.html").read_text()
    assert "There is no estimate of the clusters yet: whole draws are too few (1)." in page
    assert "in the best summary" not in page
    assert "clusters (estimate)" in ok("resume", out, "--quiet")
    assert (out / "labels.npy").exists()


SIGNALLED = """
import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
import unbounded.cli
number, when = getattr(signal, sys.argv.pop(1)), sys.argv.pop(1)
class Importing:
    def find_spec(self, name, *_):
        if name == when:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Importing())
if when == "start":
    from unbounded.models.mixtures import start
    start.begin = lambda *_: os.kill(os.getpid(), number)
unbounded.cli.app()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    ("when", "words"), [("unbounded.cli.commands", "nothing was done yet"), ("start", "nothing was drawn yet; go on")]
)
def test_whatever_ends_a_process_is_heard_all_the_time(data, tmp_path, name, when, words):
    """While modules are imported, and while a chain starts in this process and its shards in others."""
    asked = ["fit", "dp", data / "x.npy", "--out", tmp_path / "run", *BRIEF, "--engine", "processes"]
    done = subprocess.run([sys.executable, "-c", SIGNALLED, name, when, *asked], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"interrupted: {words}")


# ---- refusals


def test_a_run_that_is_being_written_is_not_taken_for_one_to_resume(done, data):
    with only_writer(done[0]):
        asked = ["fit", "dp", data / "x.npy", "--out", done[0], *BRIEF]
        with ThreadPoolExecutor(1) as elsewhere:
            line = elsewhere.submit(error, *asked).result()
    assert f"is being written by process {os.getpid()} on " in line


def test_a_refused_fit_leaves_the_settings_of_the_run(done, data, tmp_path):
    """Without run.json, with another seed: neither file has what was refused."""
    out = shutil.copytree(done[0], tmp_path / "run")
    config, command = (out / "run.json").read_bytes(), (out / "command.json").read_bytes()
    (out / "run.json").unlink()
    assert "run.json is missing" in error("fit", "dp", data / "x.npy", "--out", out, *BRIEF, "--seed", "5")
    assert not (out / "run.json").exists()
    assert (out / "command.json").read_bytes() == command
    (out / "run.json").write_bytes(config)
    assert ok("resume", out, "--quiet") == done[1]


def test_files_of_others_stay_when_a_command_is_refused(tmp_path):
    (tmp_path / "p" / "sub").mkdir(parents=True)
    (tmp_path / "p" / "sub" / ".mine.tmp").write_text("precious")
    error("fit", "dp", tmp_path / "nope.csv", "--out", tmp_path / "p")
    assert [path.name for path in (tmp_path / "p").rglob("*")] == ["sub", ".mine.tmp"]
