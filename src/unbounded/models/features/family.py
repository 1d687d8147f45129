"""Feature models, as everything outside of this folder sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded import holdout
from unbounded.family import Command, Family, Option, Results, Training
from unbounded.models.features import plots, show
from unbounded.models.features.estimator import (
    CHOICES,
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    FeatureEstimator,
    GammaPoissonFeatures,
)
from unbounded.models.features.measures import MEASURES
from unbounded.sources import SourceError

if TYPE_CHECKING:
    import pandas as pd


def _training(command: Command) -> Training:
    """All rows, and which of their cells to hide from the fit and to score."""
    shape, X = _shape(command), holdout.load(command)
    share = holdout.checked_share(command.holdout)
    mask = np.random.default_rng(command.seed).random(X.shape) < share if share > 0 else None
    if shape is not None and shape[0] * shape[1] != X.shape[1]:
        raise ValueError(f"--shape {shape[0]}x{shape[1]} does not fit the {X.shape[1]} columns of {command.data}.")
    return Training(X, holdout=mask)


def _shape(command: Command) -> tuple[int, int] | None:
    """--shape: of features as images."""
    text = command.extra.get("shape")
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--shape must be two numbers such as 6x6, got {text!r}.")
    return int(parts[0]), int(parts[1])


def _at_hand(command: Command) -> dict[str, Any]:
    """The rows, whose columns may have names, if they are still there."""
    try:
        return {"X": _training(command).rows, "shape": _shape(command)}
    except (OSError, ValueError, SourceError):
        return {"shape": _shape(command)}


def _predictions(estimator: FeatureEstimator, X: Any) -> pd.DataFrame:
    import pandas as pd

    columns = {f"feature_{k}": use for k, use in enumerate(estimator.transform(X).T)}
    return pd.DataFrame(columns | {"log_density": estimator.score_samples(X)}).rename_axis("row")


def _results(estimator: FeatureEstimator, training: Training, command: Command) -> Results:
    Z, components = estimator.assignments_, estimator.components_
    pictures = {
        "features.png": plots.features(components, _shape(command), Z.mean(0, dtype=float)),
        "z.png": plots.assignments(Z),
    }
    return Results({"components.npy": components, "assignments.npy": Z, **pictures})


_JUMPS = {
    "jumps.early": "first rounds, all of which have some", "jumps.every": "rounds from one to the next, later",
    "jumps.tries": "proposals in such a round", "jumps.folds": "folds in such a round",
    "jumps.pool": "rows that are asked first", "jumps.ahead": "chance of the direction that is likelier to succeed",
    "jumps.kinds": "shares of deaths, absorptions, discoveries and multiples",
    "jumps.slack": "by how much the first rows may be wrong (nats)",
    "jumps.doubt": "and in addition for each row (nats)",
}  # fmt: skip

FAMILY = Family(
    choices=CHOICES,
    measures=MEASURES,
    estimators={
        "beta-bernoulli": BetaBernoulliFeatures,
        "gamma-poisson": GammaPoissonFeatures,
        "beta-negative-binomial": BetaNegativeBinomialFeatures,
    },
    scored="cell",
    captions={
        "largest": "largest (share of rows)",
        "per_row": "per_row (features)",
        "sigma_x": "sigma_x (noise)",
        "sigma_a": "sigma_a (loadings)",
    },
    meanings={
        "alpha": "how many features a row is expected to have (mass)",
        "c": "how reluctantly rows share features (concentration)",
        "sigma_x": "standard deviation of the noise",
        "sigma_a": "standard deviation of the loadings",
        "background": "expectation of a row without features, all columns together",
        "per_row": "features that a row has on average",
        "log_joint": "log density of rows and features together",
        "largest": "share of the rows that have the most frequent feature",
    },
    units=lambda likelihood: {},
    summary=show.summary,
    show=show.show,
    predictions=_predictions,
    results=_results,
    training=_training,
    at_hand=_at_hand,
    useful=("shape",),
    settings={
        "concentration": Option(float, "A number fixes it; by default it is sampled."),
        "mass": Option(float, "A number fixes it; by default it is sampled (features)."),
        "failures": Option(float, "r, 1 by default (beta-negative-binomial)."),
    },
    options={"shape": Option(str, "Draw features as images of this size, such as 6x6.")},
    phrases=_JUMPS,
)
