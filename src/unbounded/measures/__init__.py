"""What is drawn from the prior. A new measure is one file and one line here."""

from unbounded.measures.pitman_yor import DirichletProcess, Hyper, PitmanYor
from unbounded.measures.priors import Beta, Gamma

MEMBERS = (DirichletProcess, PitmanYor)

__all__ = ["MEMBERS", "Beta", "DirichletProcess", "Gamma", "Hyper", "PitmanYor"]
