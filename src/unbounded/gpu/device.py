"""The device that computes: a name becomes a torch device, or one sentence says why it cannot.

Where TRITON_INTERPRET=1 is set, "cuda" is Triton's interpreter on the CPU, as in tests: the same code, but slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, wraps
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

AUTO, CUDA = "auto", "cuda"
INSTALL = 'pip install "unbounded[gpu]"'
_TURN = Lock()

Launcher = TypeVar("Launcher", bound=Callable[..., Any])


def kind_of(name: str) -> str:
    """The name, in a model's list of kernels, of the one that runs on this device: "cuda" for "cuda:1"."""
    return name.split(":")[0]


def interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def missing() -> str | None:
    """What is missing for a GPU, in one sentence, or None."""
    try:  # and not only whether they can be found: one that is damaged is as good as none
        torch, _ = import_module("torch"), import_module("triton")
    except (ImportError, OSError):  # OSError: a library that it loads
        return f"device='cuda' needs PyTorch and its Triton: {INSTALL}."
    return (
        None
        if interpreted() or torch.cuda.is_available()
        else "device='cuda' needs an NVIDIA GPU, and torch finds none here."
    )


def check(name: Any, kinds: Iterable[str]) -> None:
    """Refuse a device that does not exist, or for which the model has no kernel."""
    kinds = sorted(kinds)
    if not isinstance(name, str) or kind_of(name) not in kinds or (":" in name and kind_of(name) != CUDA):
        more = ", or a GPU by number, such as 'cuda:1'" if CUDA in kinds else ""
        raise ValueError(f"device must be one of {kinds}{more}, got {name!r}.")
    if kind_of(name) == CUDA:
        torch_device(name)


def resolve(name: str, kinds: Iterable[str]) -> str:
    """The device that "auto" stands for here: a GPU if there is one and the model has a kernel for it."""
    if name != AUTO:
        return name
    return "cpu" if CUDA not in kinds or missing() or interpreted() else CUDA


def torch_device(name: str) -> Any:
    """The torch device of this name; an error says in one sentence why there is none."""
    problem = missing()
    if problem:
        raise ValueError(problem)
    import torch

    number = name.partition(":")[2]
    if number and not number.isdecimal():
        raise ValueError(f"device must be 'cuda' or a GPU by number, such as 'cuda:1', got {name!r}.")
    if interpreted():
        return torch.device("cpu")
    if int(number or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name!r} is not there: torch finds {torch.cuda.device_count()} GPU(s).")
    return torch.device(CUDA, int(number or 0))


def serial_if_interpreted(function: Launcher) -> Launcher:
    """For functions that launch kernels: the interpreter runs one at a time, whatever the number of threads."""
    if not interpreted():
        return function

    @wraps(function)
    def in_turn(*arguments: Any) -> Any:
        with _TURN:
            return function(*arguments)

    return in_turn  # type: ignore[return-value]
