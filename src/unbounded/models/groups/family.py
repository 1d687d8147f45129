"""Groups and their topics, as everything outside of this folder sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded import datasets, holdout
from unbounded.arrays import Array
from unbounded.family import Command, Family, Option, Results, Training
from unbounded.models.groups import plots, show
from unbounded.models.groups.estimator import CHOICES, HierarchicalDirichletProcess
from unbounded.models.groups.measures import MEASURES
from unbounded.report.words import plain
from unbounded.sources import Source
from unbounded.sources.files import reading

if TYPE_CHECKING:
    import pandas as pd

_SUMMARISED = 30  # topics whose words are in the summary


def _training(command: Command) -> Training:
    """Documents, or rows in groups; whole documents or groups are held out."""
    if command.own.get("groups"):
        return _grouped(datasets.load(command.data), command)
    X = holdout.load(command)
    _vocabulary(command, X.shape[1])
    train, kept_out = holdout.split(X, command.holdout, command.seed)
    return Training(train, holdout=kept_out)


def _grouped(X: Any, command: Command) -> Training:
    groups = _groups(str(command.own["groups"]), X.shape[0])
    if isinstance(X, Source) and command.holdout == 0 and (groups[:-1] <= groups[1:]).all():
        return Training(X, (groups,))
    X = np.asarray(holdout.in_memory(X, "--groups of rows that are not sorted, or --holdout,"), dtype=float)
    ids = np.unique(groups)
    _, out = holdout.split(ids, command.holdout, command.seed)
    away = np.isin(groups, ids[:0] if out is None else out)
    held = (X[away], groups[away]) if away.any() else None
    return Training(X[~away], (groups[~away],), held)


def _groups(path: str, n_rows: int) -> Array:
    """--groups: the group of each row, from a file."""
    if Path(path).suffix == ".npy":
        with reading(path), open(path, "rb") as file:
            ids = np.lib.format.read_array(file)
    else:
        ids = np.asarray(datasets.load(path))
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"--groups {path} holds an array of shape {ids.shape}; give one id for each row.")
    if len(ids) != n_rows:
        raise ValueError(f"--groups has {len(ids)} ids for {n_rows} rows.")
    return ids


def _vocabulary(command: Command, n_words: int | None = None) -> list[str] | None:
    """The words of --vocabulary, one a line; checked against the columns of the documents."""
    path = command.own.get("vocabulary")
    if not path:
        return None
    try:
        words = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"--vocabulary {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"--vocabulary {path} is not UTF-8 in line {line}; convert it (iconv -t utf-8).") from None
    blank = next((line for line, word in enumerate(words, 1) if not word.strip()), None)
    if blank is not None:
        raise ValueError(f"--vocabulary {path} has no word in line {blank}; give every column a word of its own.")
    if n_words is not None and len(words) != n_words:
        raise ValueError(f"--vocabulary has {len(words)} words, the documents have {n_words} columns.")
    return words


def _at_hand(command: Command) -> dict[str, Any]:
    try:
        return {"vocabulary": _vocabulary(command)}
    except (OSError, ValueError):
        return {}


def _table(estimator: HierarchicalDirichletProcess, X: Any) -> pd.DataFrame:
    import pandas as pd

    shares = estimator.transform(X)
    return pd.DataFrame(shares, columns=[f"topic_{k}" for k in range(shares.shape[1])]).rename_axis("group")


def _results(estimator: HierarchicalDirichletProcess, training: Training, command: Command) -> Results:
    """Shares of the topics and, of documents, their words; the words go to the summary, too."""
    files: dict[str, Any] = {"labels.npy": estimator.labels_, "proportions.npy": estimator.proportions_}
    if not hasattr(estimator, "components_"):
        return Results(files | {"topics.png": plots.topics(estimator.topic_history_)})
    words = [[plain(word) for word in topic] for topic in estimator.top_words(_vocabulary(command))]
    shares = zip(estimator.topic_shares_, words, strict=True)
    lines = [f"{k:4d} {share:8.2%}  {' '.join(topic)}\n" for k, (share, topic) in enumerate(shares)]
    files |= {
        "components.npy": estimator.components_,
        "topics.txt": "".join(lines),
        "topics.png": plots.topics(estimator.topic_history_, [" ".join(topic[:3]) for topic in words]),
    }
    heading = "\ntopics, with their shares of all words and their most probable words\n"
    return Results(files, heading + "".join(lines[:_SUMMARISED]))


FAMILY = Family(
    choices=CHOICES,
    measures=MEASURES,
    estimators={"hdp": HierarchicalDirichletProcess},
    scored="token or row",
    captions={
        "log_likelihood": "log_likelihood (nats)",
        "entropy": "entropy (nats)",
        "largest": "largest (share of rows)",
    },
    meanings={
        "alpha": "how readily a new topic begins (concentration)",
        "gamma": "how many of the topics a group has; small: few (group_concentration)",
        "eta": "how many of the words a topic uses; small: few",
        "n_tables": "in how many pieces groups take their topics, all groups together",
        "log_likelihood": "log density of the data, given who is in which topic",
        "entropy": "how evenly words or rows are spread; 0 if one topic has them all",
        "largest": "share of the words or rows that the largest topic has",
    },
    units=show.units,
    summary=show.summary,
    show=show.show,
    table=_table,
    results=_results,
    training=_training,
    at_hand=_at_hand,
    settings={
        "concentration": Option(float, "A number fixes it; by default it is sampled."),
        "group_concentration": Option(float, "A number fixes it; by default it is sampled (hdp)."),
        "form": Option(str, "Form of the sampler: direct (default) or franchise (hdp)."),
    },
    options={
        "vocabulary": Option(Path, "File with the words of the columns, one on each line (hdp)."),
        "groups": Option(Path, "File with the group of each row: .npy, or .csv of one column (hdp of rows)."),
    },
    phrases={"form": "form of the sampler", "groups": "fingerprint of the groups"},
)
