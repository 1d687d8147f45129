"""What is drawn from the prior. A new measure is one file and one line here."""

from unbounded.measures.features import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.measures.hierarchical import HierarchicalDirichletProcess
from unbounded.measures.pitman_yor import DirichletProcess, Hyper, PitmanYor
from unbounded.measures.priors import Beta, Gamma, InverseGamma

MEMBERS = (DirichletProcess, PitmanYor, HierarchicalDirichletProcess, BetaBernoulli, GammaPoisson, BetaNegativeBinomial)

__all__ = [
    "MEMBERS",
    "Beta",
    "BetaBernoulli",
    "BetaNegativeBinomial",
    "DirichletProcess",
    "Gamma",
    "GammaPoisson",
    "HierarchicalDirichletProcess",
    "Hyper",
    "InverseGamma",
    "PitmanYor",
]
