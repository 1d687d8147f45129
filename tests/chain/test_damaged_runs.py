"""Thousands of damaged run directories: each one is refused in a sentence, or gives the draws of the undamaged one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from runs import everything, model, rows, stopped

from damage import check_sentence, damage
from unbounded import RunError

X = rows()
HARMLESS = ("about.json", "timing.json", "progress.json")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("begun") / "run", 25)  # in the second chain


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_draw(begun, tmp_path, n):
    undisturbed, refused = everything(model().fit(X)), 0
    for case in range(n):
        rng, run = np.random.default_rng(case), tmp_path / "run"
        shutil.copytree(begun, run)
        files: list[Path] = sorted(path for path in run.rglob("*") if path.is_file())
        how = damage(files[rng.integers(len(files))], rng)
        try:
            assert everything(model(run).fit(X)) == undisturbed, how
        except RunError as error:
            check_sentence(error, how)
            refused += not how.endswith(HARMLESS)
        shutil.rmtree(run)
    assert refused > n / 2
