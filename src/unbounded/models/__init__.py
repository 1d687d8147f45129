"""One folder for each model, with everything of that model; `labelled` is what mixtures and groups share."""

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
