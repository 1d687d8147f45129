"""Kernels of mixtures by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unbounded.gpu.device import check, kind_of
from unbounded.likelihoods.base import Bound
from unbounded.models.mixtures.kernel import CompiledLabels
from unbounded.models.mixtures.message import LabelKernel
from unbounded.models.mixtures.reference import ReferenceLabels


def on_cpu(likelihood: Bound, dtype: str, device: str = "cpu") -> LabelKernel:
    return CompiledLabels(likelihood, dtype)


def in_numpy(likelihood: Bound, dtype: str = "float64", device: str = "reference") -> LabelKernel:
    return ReferenceLabels(likelihood)


def on_gpu(likelihood: Bound, dtype: str, device: str = "cuda") -> LabelKernel:
    """Imported when it is asked for: torch takes seconds, and not everybody has it."""
    from unbounded.models.mixtures.device import DeviceLabels

    return DeviceLabels(likelihood, dtype, device)


KERNELS: Mapping[str, Callable[..., LabelKernel]] = {"cpu": on_cpu, "reference": in_numpy, "cuda": on_gpu}


def build_kernel(device: str, likelihood: Bound, dtype: str) -> LabelKernel:
    check(device, KERNELS)
    return KERNELS[kind_of(device)](likelihood, dtype, device)


def kernel_for_few(device: str) -> str:
    """Where some thousand rows are best off: launches on a GPU take longer than they do."""
    return "cpu" if kind_of(device) == "cuda" else device
