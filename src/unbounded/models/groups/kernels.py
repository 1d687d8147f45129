"""Kernels of groups by device, and by what they sample. A new device is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from unbounded.models.groups.franchise import SeatedRows
from unbounded.models.groups.reference import ReferenceDirect
from unbounded.models.groups.reference_franchise import ReferenceSeated
from unbounded.models.groups.rows import DirectRows
from unbounded.models.groups.shard import Content, GroupKernel
from unbounded.models.groups.words.kernel import DirectWords

KERNELS: Mapping[str, Mapping[str, Callable[..., GroupKernel]]] = {
    "cpu": {"direct": DirectRows, "franchise": SeatedRows, "words": DirectWords},
    "reference": {
        "direct": ReferenceDirect,
        "franchise": ReferenceSeated,
        "words": partial(ReferenceDirect, by_group=True),
    },
}


def build_kernel(device: str, content: Content, form: str, sweeps: int) -> GroupKernel:
    return KERNELS[device][content.kernel(form)](content, sweeps)
