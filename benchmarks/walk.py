"""The walk: through how many files one round of each model passes, on the serial engine.

Frames are followed by sys.setprofile. A compiled function counts where it is called from Python; what it calls in turn
has become a part of it. Rounds are followed without moves of whole atoms, and then what a round that begins with such
moves passes through besides.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from scipy import sparse

import unbounded
from unbounded import BetaBernoulliFeatures, DirichletProcessMixture, HierarchicalDirichletProcess, Jumps
from unbounded.chain import run

SOURCES = Path(unbounded.__file__).parent
FOLLOWED = 6  # the round, of a chain of eight
MOST = 12  # files


class Walk:
    """The files of one round, in the order of the first visit, and how often the walk goes from one to another."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.changes = 0
        self._here = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = _name(frame.f_code.co_filename)
        if event != "call" or name is None:
            return
        self.changes += name != self._here
        self._here = name
        self.files[name] = None


def _name(path: str) -> str | None:
    return str(Path(path).relative_to(SOURCES)) if path.startswith(str(SOURCES)) else None


def followed(fit: Callable[[], Any]) -> Walk:
    fit()  # compiles what it needs
    walk, rounds = Walk(), run.rounds

    def watched(*args: Any) -> Iterator[Any]:
        chain = rounds(*args)
        for number in count():
            if number == FOLLOWED:
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


def fits() -> dict[str, Callable[[Any], Any]]:
    """Of every model: a fit with these jumps."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) + 6.0 * rng.integers(0, 3, (200, 1))
    images = rng.integers(0, 2, (100, 3)) @ rng.normal(0.0, 2.0, (3, 4)) + 0.3 * rng.normal(size=(100, 4))
    documents = sparse.csr_matrix(rng.poisson(0.4, (40, 12)))
    groups = np.repeat(np.arange(20), 10)
    brief: Any = {"n_shards": 3, "n_warmup": 4, "n_draws": 4, "n_chains": 1, "engine": "serial", "random_state": 0}
    return {
        "mixture": lambda jumps: DirichletProcessMixture(init="one", jumps=jumps, **brief).fit(rows),
        "words": lambda jumps: HierarchicalDirichletProcess(init=4, jumps=jumps, **brief).fit(documents),
        "grouped rows": lambda jumps: HierarchicalDirichletProcess("gaussian", init=4, jumps=jumps, **brief).fit(
            rows, groups
        ),
        "features": lambda jumps: BetaBernoulliFeatures(init="one", jumps=jumps, **brief).fit(images),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    for name, fit in fits().items():
        walk = followed(partial(fit, False))
        longer = followed(partial(fit, True if name == "features" else Jumps(every=1)))
        verdict = "" if len(walk.files) <= MOST else f", more than {MOST}"
        own = sum(file.startswith("models/") for file in walk.files)
        print(f"{name}: {len(walk.files)} files{verdict}, {own} of them of models; {walk.changes} changes of file")
        for file in walk.files:
            print(f"    {file}")
        print("  where it begins with moves of whole atoms, also")
        for file in longer.files:
            if file not in walk.files:
                print(f"    {file}")


if __name__ == "__main__":
    main()
