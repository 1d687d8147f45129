"""Thousands of damaged run directories: each one is refused in a sentence, or gives the draws of the undamaged one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runs import everything, model, rows, stopped

from damage import check_sentence, damage
from unbounded import RunError
from unbounded.chain.store import EXTENSIBLE, RunStore
from unbounded.report import live, page, view

X = rows()
HARMLESS = ("about.json", "timing.json", "progress.json")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("begun") / "run", 25)  # in the second chain


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_draw(begun, tmp_path, n):
    undisturbed, refused = everything(model().fit(X)), 0
    for case in range(n):
        rng, run = np.random.default_rng(case), tmp_path / "run"
        shutil.copytree(begun, run)
        files = files_of(run)
        how = damage(files[rng.integers(len(files))], rng)
        try:
            assert everything(model(run).fit(X)) == undisturbed, how
        except RunError as error:
            check_sentence(error, how)
            refused += not how.endswith(HARMLESS)
        shutil.rmtree(run)
    assert refused > n / 2


@pytest.mark.parametrize("n", [60, pytest.param(3000, marks=pytest.mark.long)])
def test_no_wrong_page(begun, tmp_path, n):
    """Of a report and of a live view: a file that no chain reads changes what they do not say, and nothing else."""
    run, refused = shutil.copytree(begun, tmp_path / "run"), 0
    files, whole = files_of(run), view.read(run).chains
    for case in range(n):
        rng = np.random.default_rng(case)
        path = files[rng.integers(len(files))]
        before = path.read_bytes()
        how = damage(path, rng)
        warned = 'class="warn"' in live._Live(run).now()
        try:
            seen = view.read(run)
            page.render(seen)
            assert [chain.draws for chain in seen.chains] == [chain.draws for chain in whole], how
        except RunError as error:
            check_sentence(error, how)
            refused += not how.endswith(HARMLESS)
            assert warned, how
        path.write_bytes(before)
    assert refused > n / 2


def content(run: Path) -> list[Any]:
    """All that a resumed fit takes from a run directory."""
    store = RunStore(run)
    config = store.config()
    said: list[Any] = [{name: value for name, value in config.items() if name not in EXTENSIBLE}]
    for index in store.chains():
        chain = store.chain(index)
        saved = chain.checkpoint() or {}
        count = int(saved.get("n_draws", 0))
        whole = chain.snapshots()
        said.append([{name: value.tobytes() for name, value in arrays.items()} for arrays in (saved, *whole.values())])
        said.append([chain.draws(count), list(whole), [one.tobytes() for one in chain.assignments(len(X), count)]])
        chain.clock()
    return said


@pytest.mark.parametrize("n", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_file(begun, tmp_path, n):
    """The same of reading alone, which takes a thousandth of a second; hypothesis looks for the seed of a damage."""
    run = shutil.copytree(begun, tmp_path / "run")
    files, whole, refused = files_of(run), content(run), []

    @settings(max_examples=n, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32 - 1))
    def damaged(seed: int) -> None:
        rng = np.random.default_rng(seed)
        path = files[rng.integers(len(files))]
        before = path.read_bytes()
        how = damage(path, rng)
        try:
            assert content(run) == whole, how
        except RunError as error:
            check_sentence(error, how)
            refused.append(how)
        finally:
            path.write_bytes(before)

    damaged()
    assert len(refused) > n / 2
