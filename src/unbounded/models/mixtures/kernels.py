"""Kernels of mixtures by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unbounded.likelihoods.base import Bound
from unbounded.models.mixtures.kernel import CompiledLabels
from unbounded.models.mixtures.message import LabelKernel
from unbounded.models.mixtures.reference import ReferenceLabels

KERNELS: Mapping[str, Callable[[Bound, str], LabelKernel]] = {"cpu": CompiledLabels, "reference": ReferenceLabels}
