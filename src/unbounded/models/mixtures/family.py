"""Mixtures, as everything outside of this folder sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unbounded import holdout
from unbounded.arrays import is_sparse
from unbounded.family import Command, Family, Option, Results, Training
from unbounded.likelihoods import named_columns
from unbounded.models.mixtures import plots, show
from unbounded.models.mixtures.estimator import CHOICES, DirichletProcessMixture, MixtureEstimator, PitmanYorMixture
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.measures import MEASURES
from unbounded.sources import SourceError

if TYPE_CHECKING:
    import pandas as pd


def _training(command: Command) -> Training:
    columns = named_columns(command.settings.get("likelihood"))
    train, kept_out = holdout.split(holdout.load(command, columns), command.holdout, command.seed)
    return Training(train, holdout=kept_out)


def _at_hand(command: Command) -> dict[str, Any]:
    """The rows as the fit saw them, if they are still there."""
    loss = {name: command.settings[name] for name in ("loss", "merge_cost") if name in command.settings}
    try:
        return {"X": _training(command).rows, **loss}
    except (OSError, ValueError, SourceError):
        return loss


def _predictions(estimator: MixtureEstimator, X: Any) -> pd.DataFrame:
    import pandas as pd

    probabilities = estimator.predict_proba(X)
    columns = {
        "cluster": probabilities.argmax(1),
        "probability": probabilities.max(1),
        "log_density": estimator.score_samples(X),
    }
    return pd.DataFrame(columns).rename_axis("row")


def _results(estimator: MixtureEstimator, training: Training, command: Command) -> Results:
    files: dict[str, Any] = {"labels.npy": estimator.labels_}
    rows = training.rows.select_dtypes("number") if hasattr(training.rows, "iloc") else training.rows
    if not is_sparse(rows) and rows.shape[1] > 0:  # columns of words are not drawn
        files["clusters.png"] = plots.clusters(rows, estimator.labels_)
    return Results(files)


def _in_words(config: Mapping[str, Any]) -> dict[str, Any]:
    """A Dirichlet process is a Pitman-Yor process without discount, and called by its own name."""
    measure = config.get("measure")
    if not isinstance(measure, dict) or measure.get("name") != PitmanYor.__name__ or measure.get("discount") != "0.0":
        return dict(config)
    own = {name: value for name, value in measure.items() if name != "discount"}
    return dict(config) | {"measure": own | {"name": "DirichletProcess"}}


JUMPS = {
    "jumps.every": "rounds from one to the next", "jumps.anchors": "cuts tried at once, at most",
    "jumps.pairs": "pairs of near rows to begin with, at most",
    "jumps.share": "share of the rows that may be looked at",
    "jumps.pool": "rows that are asked first", "jumps.passes": "passes over the rows of a cut, at most",
    "jumps.joined": "chance that a cut begins with two clusters", "jumps.merges": "merges tried at once, at most",
    "jumps.coin": "chance that a cluster is cut by tossing coins",
}  # fmt: skip

FAMILY = Family(
    choices=CHOICES,
    measures=MEASURES,
    estimators={"dp": DirichletProcessMixture, "py": PitmanYorMixture},
    scored="row",
    captions={"entropy": "entropy (nats)", "largest": "largest (share of rows)"},
    meanings={
        "alpha": "how readily a row begins a new cluster (concentration)",
        "sigma": "how long the tail of small clusters is (discount)",
        "log_joint": "log density of rows and clustering together",
        "entropy": "how evenly the rows are spread; 0 if one cluster has them all",
        "largest": "share of the rows that the largest cluster has",
    },
    units=lambda likelihood: {},
    summary=show.summary,
    show=show.show,
    predictions=_predictions,
    results=_results,
    training=_training,
    at_hand=_at_hand,
    useful=("loss", "merge_cost"),
    settings={
        "concentration": Option(float, "A number fixes it; by default it is sampled."),
        "discount": Option(float, "A number fixes it; by default it is sampled (py)."),
        "loss": Option(str, "What the point estimate minimises: binder (default) or vi (mixtures)."),
        "merge_cost": Option(float, "Above 1, the point estimate has more clusters, below 1 fewer (mixtures)."),
    },
    phrases=JUMPS,
    in_words=_in_words,
)
