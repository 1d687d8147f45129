"""All models, by the names of the command line. Not in __init__: a worker imports one model, and no estimator."""

from __future__ import annotations

from typing import Any

from unbounded.models.features.estimator import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    GammaPoissonFeatures,
)
from unbounded.models.groups.estimator import HierarchicalDirichletProcess
from unbounded.models.mixtures.estimator import DirichletProcessMixture, PitmanYorMixture

MEMBERS: dict[str, Any] = {
    "dp": DirichletProcessMixture,
    "py": PitmanYorMixture,
    "hdp": HierarchicalDirichletProcess,
    "beta-bernoulli": BetaBernoulliFeatures,
    "gamma-poisson": GammaPoissonFeatures,
    "beta-negative-binomial": BetaNegativeBinomialFeatures,
}
