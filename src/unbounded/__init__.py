"""Exact, parallel MCMC for Bayesian nonparametric models.

Public names are imported when one of them is first asked for: a worker needs the shards of one model, but neither
estimators nor scikit-learn and pandas, and without them it starts in a third of the time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbounded.version import __version__ as __version__

if TYPE_CHECKING:
    from unbounded.public import *

__all__ = [
    "AsPublished",
    "Bernoulli",
    "Beta",
    "BetaBernoulli",
    "BetaBernoulliFeatures",
    "BetaNegativeBinomial",
    "BetaNegativeBinomialFeatures",
    "Categorical",
    "ConvergenceWarning",
    "DiagonalGaussian",
    "DirichletProcess",
    "DirichletProcessMixture",
    "EngineError",
    "Gamma",
    "GammaPoisson",
    "GammaPoissonFeatures",
    "Gaussian",
    "Ghosts",
    "HierarchicalDirichletProcess",
    "InverseGamma",
    "Jumps",
    "LinearGaussian",
    "Multinomial",
    "OneOpen",
    "OwnLikelihood",
    "OwnMixture",
    "PitmanYor",
    "PitmanYorMixture",
    "Poisson",
    "PoissonFactors",
    "Product",
    "RunError",
    "Source",
    "SourceError",
    "Tokens",
    "open_source",
    "report",
]

import_module("unbounded.report")  # the folder: imported later, it would take the place of the function
del globals()["report"]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # or mypy would believe in any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("unbounded.public"), name)
