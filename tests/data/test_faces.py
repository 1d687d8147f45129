"""CBCL faces: hidden cells are imputed from features that faces share; skipped where the data are missing."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("UNBOUNDED_DATA", ROOT.parent / "shared" / "data")) / "cbcl_faces"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no faces (set UNBOUNDED_DATA to the evaluation data)"),
]


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faces", ROOT / "examples" / "faces.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_imputes_better_than_as_many_principal_components():
    """600 faces, a tenth of the cells hidden, from 150 random features.

    It takes this many: a feature is one bit where a component is a number, so that with few of both PCA imputes
    better, and PCA's best number does so too; with many it overfits, features less (docs/features.md, "Faces").
    """
    faces = _example()
    X = faces.load(next(FOLDER.glob("*.npy")))
    X = X[np.random.default_rng(1).permutation(len(X))[:600]]
    mask = np.random.default_rng(0).random(X.shape) < 0.1
    hidden = np.where(mask, np.nan, X)
    model = faces.features(150, len(X), 0, n_warmup=60, n_draws=40, n_snapshots=8).fit(X, holdout=mask)
    number = int(np.median(model.posterior_["n_features"]))
    error = faces.rmse(model.impute(hidden), X, mask)
    same = faces.rmse(faces.pca_impute(hidden, number), X, mask)
    print(f"{number} features: {error:.4f}; as many components: {same:.4f}")
    assert error < same
    assert error < 0.4 * X.std(0).mean(), "far better than column means"
