"""One round of each model passes through few files (`make walk` names them)."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path

import pytest

WALK = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "walk.py"))
FITS = WALK["fits"]()


@pytest.mark.parametrize("model", FITS)
@pytest.mark.filterwarnings("ignore")
def test_a_round_passes_through_few_files(model):
    files = WALK["followed"](partial(FITS[model], False)).files
    assert 5 < len(files) <= WALK["MOST"], list(files)
