"""What a fit says while it runs: to a terminal, a log file, a logger, a notebook, a function, and a run directory."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numba as nb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.base import clone

import unbounded as ub
from unbounded import datasets, estimator, inputs
from unbounded.chain import outlets
from unbounded.chain.outlets import Bar, Paced, follow
from unbounded.chain.progress import Progress, Size, Tracker, duration
from unbounded.cli import runs
from unbounded.cli.commands import app
from unbounded.compiled.watch import watch_compilation
from unbounded.models.families import FAMILIES

SIZE = Size(2, 50, 1000, "clusters")
X = np.random.default_rng(0).normal(size=(60, 2))
BRIEF = {"n_shards": 2, "n_warmup": 3, "n_draws": 5, "random_state": 0}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.atoms)
def test_a_line_of_every_model(family):
    scalars = {family.counted: 7.0, "above_1%": 4.0, "holdout": -1.5, "alpha": 1.0}
    now = Progress("rounds", 10, 1500, 9.0, scalars, 1234.0, 400.0, atoms=family.atoms)
    assert str(now) == f"round 10/1,500, 7 {family.atoms} (4 above 1%), held-out -1.500, 1,234 rows/s, 7 min left"
    plain = Progress("rounds", 10, 1500, 9.0, {family.counted: 7.0}, atoms=family.atoms)
    assert str(plain) == f"round 10/1,500, 7 {family.atoms}"


def test_durations():
    assert [duration(s) for s in (0.4, 99, 240, 7200)] == ["0 s", "99 s", "4 min", "2.0 h"]


# ---- phases


def test_phases():
    tracker = Tracker(SIZE)
    assert tracker.now().phase == "start"
    assert "1,000 rows, 2 x 50 rounds" in str(tracker.now())
    tracker.starting(0, 3, 18)
    assert "start, chain 1 of 2, 3 of 18 rounds of a pilot" in str(tracker.now())
    tracker.compiling(True, 12)
    assert str(tracker.now()).startswith("compiling, 12 functions done, ")
    tracker.compiling(False, 13)
    tracker.at_round(1, 0, {})
    assert "start of chain 1 of 2" in str(tracker.now())
    tracker.at_round(0, 20, {})  # resumed after twenty rounds
    tracker.at_round(0, 30, {"n_clusters": 4.0})
    now = tracker.now()
    assert (now.phase, now.done, now.total) == ("rounds", 30, 100)
    assert "4 clusters" in str(now)
    assert now.rows_per_second > 0
    assert " left" not in str(now)  # of ten rounds, and the first ones at that, it would be far off
    tracker.at_round(0, 40, {})
    now = tracker.now()
    assert now.rows_per_second * now.seconds_left == pytest.approx(60 * 1000)


def test_speed_leaves_out_the_rounds_before_and_the_compiler(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("unbounded.chain.progress.time.monotonic", lambda: clock[0])
    tracker = Tracker(SIZE)
    clock[0] = 100.0  # the start
    tracker.at_round(0, 20, {})
    clock[0] = 101.0
    tracker.compiling(True, 1)
    clock[0] = 131.0
    assert tracker.now().seconds == 131.0
    tracker.compiling(False, 2)
    clock[0] = 134.0
    tracker.at_round(0, 44, {})
    assert tracker.now().rows_per_second == pytest.approx(24 * 1000 / 4)
    assert tracker.now().seconds_left == pytest.approx((100 - 44) / 6)
    slow = Tracker(SIZE)
    slow.at_round(0, 0, {})
    clock[0] += 400.0
    slow.at_round(0, 4, {})
    assert slow.now().seconds_left == pytest.approx(96 * 100)  # after minutes, a few rounds are all there is to go by


@pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: ub.DirichletProcessMixture(init="grown", **kwargs).fit(X),
        lambda **kwargs: ub.BetaBernoulliFeatures(**kwargs).fit(X),
        lambda **kwargs: ub.HierarchicalDirichletProcess(**kwargs).fit(np.ones((4, 5))),
        lambda **kwargs: ub.HierarchicalDirichletProcess(init="grown", **kwargs).fit(X, np.arange(60) % 3),
    ],
    ids=["mixture", "features", "words", "groups"],
)
def test_every_model_tells_how_far_its_start_is(make):
    seen = []
    make(**BRIEF, n_chains=1, callback=lambda now: seen.append((now.phase, now.detail)))
    found = [re.search(r"(\d+) of (\d+) rounds of a pilot", detail) for _, detail in seen]
    steps = [tuple(map(int, match.groups())) for match in found if match]
    assert steps, seen
    done, total = zip(*steps, strict=True)
    assert len(set(total)) == 1
    assert list(done) == list(range(1, total[0] + 1))


def test_compiling_is_told():
    said: list[tuple[bool, int]] = []

    @nb.njit
    def inner(x):
        return x + 1

    @nb.njit
    def outer(x):
        return inner(x) * 2

    with watch_compilation(lambda *now: said.append(now)):
        assert outer(3) == 8
        assert said == [(True, 0), (True, 1), (False, 2)]
        assert outer(4) == 10
        assert len(said) == 3
    outer(1.5)
    assert len(said) == 3


# ---- callbacks


def test_a_callback_hears_of_all_rounds_and_may_be_cloned():
    seen: list[Progress] = []
    model = clone(ub.DirichletProcessMixture(**BRIEF, callback=seen.append)).fit(X)
    assert not model.interrupted_
    assert {now.phase for now in seen} >= {"start", "rounds"}
    assert (seen[-1].done, seen[-1].total) == (16, 16)
    assert seen[-1].scalars["n_clusters"] >= 1
    assert all(now.atoms == "clusters" for now in seen)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_callback_stops_a_fit(n_workers):
    """One chain after another, and side by side."""
    model = ub.DirichletProcessMixture(
        n_warmup=0, n_draws=100_000, n_workers=n_workers, random_state=0, callback=lambda now: now.done > 20
    ).fit(X)
    assert model.interrupted_
    assert model.posterior_.sizes["draw"] < 100_000


def test_an_error_in_a_callback_is_the_users():
    def fails(now):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        ub.DirichletProcessMixture(**BRIEF, callback=fails).fit(X)
    with pytest.raises(ValueError, match="callback must be a function of one argument or None, got 3"):
        ub.DirichletProcessMixture(**BRIEF, callback=3).fit(X)


# ---- where it is shown


def test_nobody_wants_to_know():
    with follow(SIZE, False, None, None) as tracker:
        assert tracker is None


def test_a_terminal_has_a_bar():
    screen = io.StringIO()
    bar = Bar(Console(file=screen, force_terminal=True, width=100))
    bar.show(Progress("start", 0, 100, 1.0, detail="chain 1 of 2", atoms="topics"))
    bar.end(Progress("done", 100, 100, 60.0, {"n_topics": 12.0}, 5.0, 0.0, atoms="topics"))
    assert "chain 1 of 2" in screen.getvalue()
    assert "12 topics" in screen.getvalue()


HOSTILE = "</script><b>[/red][red]\x1b[31m\u202e"


def test_names_of_the_data_reach_no_outlet(monkeypatch, capfd, caplog):
    """Of columns and words; a bar takes no markup from anybody."""
    screen = io.StringIO()
    monkeypatch.setattr(outlets, "_bar", lambda: Bar(Console(file=screen, force_terminal=True, width=200)))
    documents = [f"{HOSTILE} word", f"word {HOSTILE}"] * 10
    brief = {"n_warmup": 2, "n_draws": 2, "n_chains": 1, "random_state": 0, "progress": True}
    ub.HierarchicalDirichletProcess(**brief, tokenizer=str.split).fit(documents)
    ub.DirichletProcessMixture(**brief).fit(pd.DataFrame(X, columns=[HOSTILE, "b"]))
    assert "round 4/4" in screen.getvalue()
    assert not [words for words in (HOSTILE, "</script>", "[/red]") if words in screen.getvalue()]
    Bar(Console(file=screen, force_terminal=True, width=200)).end(Progress("start", 0, 1, 0.0, detail="[/red][bold]"))
    assert "[/red][bold]" in screen.getvalue()
    assert "</script>" not in capfd.readouterr().err + caplog.text


def test_lines_come_at_once_and_then_every_so_often(monkeypatch):
    clock, said = [1000.0], []
    monkeypatch.setattr("unbounded.chain.outlets.time.monotonic", lambda: clock[0])
    lines = Paced(said.append, outlets.EVERY)
    for _ in range(4 * 95):  # 95 seconds
        lines.show(Progress("rounds", 1, 2, clock[0]))
        clock[0] += 0.25
    assert [now.seconds - 1000.0 for now in said] == [0.0, 30.0, 60.0, 90.0]
    lines.end(Progress("done", 2, 2, 96.0))
    assert said[-1].phase == "done"


def test_a_clock_speaks_where_chains_are_silent(monkeypatch, capsys):
    """A round of an hour, or a compiler, gives no report."""
    monkeypatch.setattr(outlets, "EVERY", 0.01)
    monkeypatch.setattr(outlets, "_LOOK", 0.01)
    with follow(SIZE, True, None, None):
        while threading.active_count() > 1 and capsys.readouterr().err.count("unbounded: start") < 3:
            time.sleep(0.05)
    assert "unbounded: stopped, round 0/100" in capsys.readouterr().err


def slow(monkeypatch, owner, name):
    """Time that large data take, outside of the rounds."""
    real = getattr(owner, name)

    def waiting(*given, **options):
        time.sleep(0.2)
        return real(*given, **options)

    monkeypatch.setattr(owner, name, waiting)


def test_what_takes_long_before_and_after_the_rounds_is_told(monkeypatch, capfd, tmp_path):
    np.savetxt(tmp_path / "table.csv", X, delimiter=",")
    for owner, name in ((runs, "_write_results"), (inputs, "describe"), (estimator, "fingerprint"),
                        (ub.DirichletProcessMixture, "_estimate"), (datasets, "load")):  # fmt: skip
        slow(monkeypatch, owner, name)
    fit = ["fit", "dp", str(tmp_path / "table.csv"), "--shards", "2", "--warmup", "2", "--draws", "3", "--out"]
    for soon, told_of in ((0.05, 1), (100.0, 0)):
        monkeypatch.setattr(outlets, "SOON", soon)
        app([*fit, str(tmp_path / f"run{told_of}")], standalone_mode=False)
        said = capfd.readouterr().err
        for words in ("reading ", "looking at the columns, ", "looking at the rows, ", "estimating from the draws, ",
                      "writing to "):  # fmt: skip
            found = re.findall(rf"^unbounded: {words}.*0 s so far$", said, re.M)
            assert bool(found) == told_of, words


FIT = """
import numpy as np, sys
from unbounded.chain import outlets
outlets.EVERY = float(sys.argv[1])
import unbounded as ub
X = np.random.default_rng(0).normal(size=(int(sys.argv[2]), 2))
settings = {"n_warmup": 5, "n_draws": int(sys.argv[3]), "n_chains": 1, "random_state": 0, "progress": True}
ub.DirichletProcessMixture(**settings, callback=lambda now: now.seconds > float(sys.argv[4])).fit(X)
"""


def redirected(folder: Path, *arguments: float) -> list[tuple[float, str]]:
    """Lines of the log of a fit whose standard error is a file, with the seconds at which they were there."""
    log, seen = folder / "log", []
    with log.open("w") as file:
        began = time.monotonic()
        fit = subprocess.Popen(
            [sys.executable, "-c", FIT, *map(str, arguments)], stderr=file, stdout=file, env=os.environ.copy()
        )
        while True:
            over = fit.poll() is not None
            lines = log.read_text().splitlines()
            seen += [(time.monotonic() - began, line) for line in lines[len(seen) :]]
            if over:
                break
            time.sleep(0.05)
    assert fit.returncode == 0, seen
    return [(at, line) for at, line in seen if line.startswith("unbounded: ")]


def test_the_log_of_a_redirected_fit(tmp_path):
    lines = [line for _, line in redirected(tmp_path, 0.05, 200, 400, 1e9)]
    assert re.fullmatch(r"unbounded: start, 200 rows, 1 x 405 rounds, \d+ s so far", lines[0])
    assert re.fullmatch(r"unbounded: done, round 405/405, .* clusters .*, .* rows/s, .* in all", lines[-1])
    assert any(re.search(r"round \d+/405, \d+ clusters \(\d+ above 1%\), [\d,]+ rows/s, \d+ s left", x) for x in lines)
    assert not any("\x1b" in line or "\r" in line for line in lines)


@pytest.mark.long
def test_the_log_has_a_line_every_half_minute(tmp_path, monkeypatch):
    """Also where nothing is compiled yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    times = [at for at, _ in redirected(tmp_path, 30, 20_000, 10**6, 100)]
    assert times[0] < 40
    assert len(times) == 5
    assert all(29 < later - earlier < 35 for earlier, later in pairwise(times[:-1]))


def test_the_logger_of_the_standard_library(caplog, capsys):
    """Where somebody listens, lines go there, and not to standard error as well."""
    with caplog.at_level(logging.INFO, "unbounded"):
        ub.DirichletProcessMixture(**BRIEF, progress=True).fit(X)
    said = [record.getMessage() for record in caplog.records if record.name == "unbounded"]
    assert said[0].startswith("start, 60 rows, 2 x 8 rounds")
    assert said[-1].startswith("done, round 16/16")
    assert "unbounded: " not in capsys.readouterr().err
    caplog.clear()
    ub.DirichletProcessMixture(**BRIEF).fit(X)
    assert not caplog.records


def test_chains_that_go_on_until_they_agree_end_once(caplog, monkeypatch):
    monkeypatch.setattr("unbounded.chain.several.FIRST", 3)
    with caplog.at_level(logging.INFO, "unbounded"):
        ub.DirichletProcessMixture(**BRIEF | {"n_draws": "auto", "max_draws": 6}).fit(X)
    said = [record.getMessage() for record in caplog.records if record.name == "unbounded"]
    assert [line.split(",")[:2] for line in said if line.startswith("done")] == [["done", " round 18/18"]]


def test_a_run_directory_says_where_its_fit_is(tmp_path):
    ub.DirichletProcessMixture(**BRIEF, checkpoint=tmp_path / "run").fit(X)
    said = json.loads((tmp_path / "run" / "progress.json").read_text())
    assert (said["phase"], said["done"], said["total"]) == ("done", 16, 16)
    assert said["scalars"]["n_clusters"] >= 1
    assert abs(said["at"] - time.time()) < 600


def test_a_notebook(tmp_path, monkeypatch):
    """Executed by a kernel: one output that ends with the last line, and nothing on standard error."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(Path(ub.__file__).parents[1]))
    code = (
        "import numpy as np, unbounded as ub\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "model = ub.DirichletProcessMixture(n_shards=2, n_warmup=3, n_draws=5, random_state=0, progress=True).fit(X)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    (shown,) = [output for output in outputs if output.output_type == "display_data"]
    assert shown.data["text/plain"].startswith("done, round 16/16, ")
    assert '<progress value="16" max="16">' in shown.data["text/html"]
    assert not [output for output in outputs if output.get("name") == "stderr" and "unbounded:" in output.text]
