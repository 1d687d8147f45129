"""All models. A new one is one folder and one line here; nothing else outside of its folder names it."""

from __future__ import annotations

from unbounded.family import Family
from unbounded.models.features.family import FAMILY as FEATURES
from unbounded.models.groups.family import FAMILY as GROUPS
from unbounded.models.mixtures.family import FAMILY as MIXTURES

FAMILIES: tuple[Family, ...] = (MIXTURES, GROUPS, FEATURES)

MODELS = {name: family for family in FAMILIES for name in family.estimators}  # by the names of the command line


def family_named(model: str) -> Family:
    """By a name of the command line."""
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    return MODELS[model]


def family_of(estimator: str) -> Family:
    """The family that an estimator of this name belongs to."""
    for family in FAMILIES:
        if estimator in (member.__name__ for member in family.estimators.values()):
            return family
    raise ValueError(f"there is no model {estimator!r}; it may belong to a newer version.")
