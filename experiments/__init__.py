"""The paper's experiments, one file each, and two of ours: `unbounded paper NAME` (docs/paper.md)."""

from __future__ import annotations

from importlib import import_module

from experiments.common import Experiment

NAMES = (
    "synthetic-f1",
    "cifar-dimensions",
    "cambridge-starts",
    "cambridge-million",
    "cifar-rivals",
    "cifar-scaling",
    "cbcl-faces",
    "exactness",
    "table-1",
)


def load(name: str) -> Experiment:
    """The experiment in the file of this name."""
    if name not in NAMES:
        raise ValueError(f"the experiment must be one of {', '.join(NAMES)} or all, got {name!r}.")
    experiment: Experiment = import_module("experiments." + name.replace("-", "_")).EXPERIMENT
    return experiment
