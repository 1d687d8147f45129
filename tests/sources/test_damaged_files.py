"""Thousands of damaged files: each one is read, or refused in a sentence that names it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from kinds import manifest, npy_folder, npz_folder, one_parquet, zarr3

import unbounded as ub
from damage import check_sentence, damage

KINDS = {"npy": npy_folder, "npz": npz_folder, "manifest": manifest, "parquet": one_parquet, "zarr": zarr3}


@pytest.mark.parametrize("n", [30, pytest.param(2_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_raw_exception(tmp_path, kind, n):
    whole = tmp_path / "whole"
    whole.mkdir()
    where = KINDS[kind](whole)[0]
    for case in range(n):
        rng, copy = np.random.default_rng(case), tmp_path / "copy"
        shutil.copytree(whole, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        how = damage(files[rng.integers(len(files))], rng)
        try:
            source = ub.open_source(str(where).replace(str(whole), str(copy)))
            assert source[:].shape == source.shape
        except ub.SourceError as error:
            check_sentence(error, how)
        shutil.rmtree(copy)
