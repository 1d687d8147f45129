"""The walk: through how many files one round of each model passes, on the serial engine.

Python frames are followed by sys.setprofile. Compiled code runs out of its sight: files whose compiled functions a
frame names are listed apart, with a plus sign; what those call in turn is left out.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from scipy import sparse

import unbounded
from unbounded import BetaBernoulliFeatures, DirichletProcessMixture, HierarchicalDirichletProcess
from unbounded.chain import run

SOURCES = Path(unbounded.__file__).parent
FOLLOWED = 6  # the round, of a chain of eight: everything is compiled by then
MOST = 12  # files


class Walk:
    """The files of one round, in the order of the first visit, and how often the walk goes from one to another."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.compiled: dict[str, None] = {}
        self.changes = 0
        self._here = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = _name(frame.f_code.co_filename)
        if event != "call" or name is None:
            return
        self.changes += name != self._here
        self._here = name
        self.files[name] = None
        self.compiled |= dict.fromkeys(_compiled(frame))


def _name(path: str) -> str | None:
    return str(Path(path).relative_to(SOURCES)) if path.startswith(str(SOURCES)) else None


def _compiled(frame: FrameType) -> Iterator[str]:
    """Files of the compiled functions that a frame's code names, in its own module or in one that it imports."""
    named = [frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals]
    modules = [thing for thing in named if isinstance(thing, ModuleType) and thing.__name__.startswith("unbounded")]
    named += [vars(module)[name] for module in modules for name in frame.f_code.co_names if name in vars(module)]
    for thing in named:
        if isinstance(thing, Dispatcher):
            yield str(_name(thing.py_func.__code__.co_filename))


def followed(fit: Callable[[], Any]) -> Walk:
    walk, rounds = Walk(), run.rounds

    def watched(*args: Any) -> Iterator[Any]:
        chain = rounds(*args)
        while True:
            state = next(chain)
            if state.round == FOLLOWED - 1:
                sys.setprofile(walk)
                state = next(chain)
                sys.setprofile(None)
            yield state

    run.rounds = watched
    try:
        fit()
    finally:
        run.rounds = rounds
    return walk


def fits() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) + 6.0 * rng.integers(0, 3, (200, 1))
    images = rng.integers(0, 2, (100, 3)) @ rng.normal(0.0, 2.0, (3, 4)) + 0.3 * rng.normal(size=(100, 4))
    documents = sparse.csr_matrix(rng.poisson(0.4, (40, 12)))
    groups = np.repeat(np.arange(20), 10)
    brief: Any = {"n_shards": 3, "n_warmup": 4, "n_draws": 4, "n_chains": 1, "engine": "serial", "random_state": 0}
    return {
        "mixture": lambda: DirichletProcessMixture(init="one", **brief).fit(rows),
        "words": lambda: HierarchicalDirichletProcess(init=4, **brief).fit(documents),
        "grouped rows": lambda: HierarchicalDirichletProcess("gaussian", init=4, **brief).fit(rows, groups),
        "features": lambda: BetaBernoulliFeatures(init="one", **brief).fit(images),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    for name, fit in fits().items():
        walk = followed(fit)
        verdict = "" if len(walk.files) <= MOST else f", more than {MOST}"
        print(f"{name}: {len(walk.files)} files{verdict}, {walk.changes} changes of file")
        for file in walk.files:
            print(f"    {file}")
        for file in walk.compiled.keys() - walk.files.keys():
            print(f"  + {file}")


if __name__ == "__main__":
    main()
