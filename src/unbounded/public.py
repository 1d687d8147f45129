"""What `unbounded` exports, imported when somebody asks for one of its names (__init__.py says why)."""

from unbounded.chain.convergence import ConvergenceWarning
from unbounded.chain.store import RunError
from unbounded.engines.recovery import EngineError
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import Bernoulli, Categorical, DiagonalGaussian, Gaussian, Multinomial, Poisson, Product
from unbounded.models.features.estimator import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    GammaPoissonFeatures,
)
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.models.features.poisson_factors import PoissonFactors
from unbounded.models.groups.estimator import HierarchicalDirichletProcess
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.mixtures.estimator import DirichletProcessMixture, PitmanYorMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import DirichletProcess, PitmanYor
from unbounded.models.mixtures.own import OwnLikelihood, OwnMixture
from unbounded.priors import Beta, Gamma, InverseGamma
from unbounded.report.page import report
from unbounded.sources import Source, SourceError
from unbounded.sources import open as open_source
