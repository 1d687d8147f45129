"""The scikit-learn face of the models."""

from unbounded.estimators.mixtures import DirichletProcessMixture, PitmanYorMixture

MEMBERS = {"dp": DirichletProcessMixture, "py": PitmanYorMixture}

__all__ = ["MEMBERS", "DirichletProcessMixture", "PitmanYorMixture"]
