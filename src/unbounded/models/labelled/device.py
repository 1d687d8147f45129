"""A shard whose rows and labels live on a GPU; the host has its rows as well, and its labels when it asks for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from unbounded.arrays import Array, Arrays
from unbounded.models.labelled.labels import LabelShard, packed_labels


class DeviceRows(NamedTuple):
    """What a device holds of a shard: what forms are of [n, F], labels, log density under a new atom, marks."""

    cells: Any
    labels: Any
    log_new: Any
    marks: Any


class DeviceShard(LabelShard):
    """`fresh` says where labels are up to date: on the "host", the "device", or both."""

    def __init__(self, *arguments: Any):
        self.resident: DeviceRows | None = None
        self.fresh = "host"
        super().__init__(*arguments)

    @property
    def labels(self) -> Array:
        """For those who may write: from here on the device's labels are out of date."""
        labels = self.current()
        self.fresh = "host"
        return labels

    @labels.setter
    def labels(self, labels: Array) -> None:
        self._labels, self.fresh = labels, "host"

    def current(self) -> Array:
        """Labels on the host, to be read."""
        if self.resident is not None and self.fresh == "device":
            self._labels[:] = self.resident.labels.cpu().numpy()
            self.fresh = "both"
        return self._labels

    def placed(self) -> Any:
        """Labels on the device, to be read."""
        assert self.resident is not None
        if self.fresh == "host":
            self.resident.labels.copy_(torch.from_numpy(self._labels))
            self.fresh = "both"
        return self.resident.labels

    def written(self) -> None:
        """The device has changed its labels."""
        self.fresh = "device"

    @property
    def away(self) -> bool:
        return self.resident is not None and self.fresh != "host"

    def coded(self, codes: Array) -> Array:
        return codes[self.current()]

    def relabel(self, codes: Array) -> None:
        if not self.away:
            super().relabel(codes)
        elif ((codes != np.arange(len(codes))) & (codes >= 0)).any():
            labels = self.placed()
            labels.copy_(torch.from_numpy(codes.astype(np.int32)).to(labels.device)[labels])
            self.written()

    def labels_of(self, rows: Array) -> Array:
        if not self.away:
            return super().labels_of(rows)
        labels = self.placed()
        return labels[torch.from_numpy(rows).to(labels.device)].cpu().numpy()

    def members(self, codes: Array) -> Array:
        if not self.away:
            return super().members(codes)
        labels = self.placed()
        return torch.nonzero(torch.isin(labels, torch.from_numpy(codes).to(labels))).ravel().cpu().numpy()

    def arrays(self) -> dict[str, Array]:
        return {"labels": packed_labels(self.current()), "holes": np.empty(0)}

    def restore(self, arrays: Arrays) -> None:
        self.labels[:] = arrays["labels"]
