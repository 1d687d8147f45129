"""Kernels of groups by device, and by what they sample. A new device is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from unbounded.models.groups.franchise import CompiledFranchise
from unbounded.models.groups.reference import ReferenceDirect
from unbounded.models.groups.reference_franchise import ReferenceFranchise
from unbounded.models.groups.rows import CompiledDirect
from unbounded.models.groups.shard import Content, GroupKernel
from unbounded.models.groups.words.kernel import CompiledWords
from unbounded.models.groups.words.reseat import RepeatingWords

KERNELS: Mapping[str, Mapping[str, Callable[..., GroupKernel]]] = {
    "cpu": {
        "direct": CompiledDirect,
        "franchise": CompiledFranchise,
        "words": CompiledWords,
        "repeating words": RepeatingWords,
    },
    "reference": {
        "direct": ReferenceDirect,
        "franchise": ReferenceFranchise,
        "words": partial(ReferenceDirect, by_group=True),
    },
}


def build_kernel(device: str, content: Content, form: str, sweeps: int) -> GroupKernel:
    name, kernels = content.kernel(form), KERNELS[device]
    if name not in kernels:
        raise ValueError(f"device={device!r} has no kernel of {name}.")
    return kernels[name](content, sweeps)
