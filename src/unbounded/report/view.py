"""A run directory, read for a report: everything that is on disk but the data, whether the run has ended or not.

Nothing here resumes or fits. Chains may be of unequal length, snapshots may be missing, and old runs have neither
`about.json` nor `timing.json`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from unbounded.arrays import Array, Arrays
from unbounded.chain import export
from unbounded.chain.convergence import Check, check
from unbounded.chain.run import Chain
from unbounded.chain.several import MAX_DRAWS, complete
from unbounded.chain.store import ChainStore, RunError, RunStore, read_json
from unbounded.family import Family, Shown, WholeDraws
from unbounded.models.families import family_of
from unbounded.round import Clock

T = TypeVar("T")
_LOOKS = 10  # at a chain that somebody is writing, before what seems wrong is wrong


@dataclass(frozen=True)
class View:
    name: str
    config: dict[str, Any]
    about: dict[str, Any]
    chains: list[Chain]
    clocks: list[Clock]
    atoms: Shown | None
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return all(chain.exact for chain in self.chains)

    @property
    def family(self) -> Family:
        return family_of(str(self.config["model"]))

    @property
    def names(self) -> list[str]:
        return list(self.chains[0].draws[0])

    @property
    def complete(self) -> bool:
        asked = self.config["n_draws"], self.config.get("max_draws", MAX_DRAWS)
        return len(self.chains) == self.config["n_chains"] and complete(self.chains, *asked)

    @cached_property
    def compared(self) -> xr.Dataset:
        """The draws of the chains that are long enough to be compared."""
        return export.to_dataset(self.long_chains())

    @cached_property
    def convergence(self) -> Check:
        return check(self.compared)

    def trace(self, name: str) -> list[Array]:
        return [np.array([draw.get(name, np.nan) for draw in chain.draws], float) for chain in self.chains]

    def long_chains(self) -> list[Chain]:
        """The chains worth comparing: an interruption may leave one that has just begun."""
        longest = max(len(chain.draws) for chain in self.chains)
        return [chain for chain in self.chains if 2 * len(chain.draws) >= longest]


def read(path: str | os.PathLike[str], at_hand: Mapping[str, Any] | None = None) -> View:
    """The whole run; at_hand: what the run directory lacks and the family can show, such as the rows of the fit."""
    store = RunStore(path)
    config, about = store.config(), read_json(store.path / "about.json")
    stores = _chain_stores(store)

    def read_chain(own: ChainStore) -> Chain:
        saved = own.checkpoint() or {}  # first: it knows what the other files must hold
        return Chain(_is_exact(saved, config, about), own.draws(), own.snapshots())

    chains = [_undisturbed(own, read_chain) for own in stores]
    clocks = [own.clock() for own, chain in zip(stores, chains, strict=True) if chain.draws]
    chains = [chain for chain in chains if chain.draws]
    if not chains:
        raise RunError(f"{path} has no draws yet; resume it first.")
    view = View(store.path.resolve().name, config, about, chains, clocks, None)
    whole = WholeDraws(config, about, _whole_draws(chains))
    if not whole.draws:
        return replace(view, notes=("No whole draw is on disk yet, so there is no picture of the atoms.",))
    shown = view.family.show(whole, at_hand or {})
    return replace(view, atoms=shown, notes=shown.notes)


def check_files(path: str | os.PathLike[str], seen: Set[str] = frozenset()) -> Set[str]:
    """That all is as the checkpoints of a run say, which may go on; returns digests of all that has been looked at.
    seen: what it returned before."""
    for own in _chain_stores(RunStore(path)):
        if own.stamp() not in seen:
            seen = seen | _undisturbed(own, partial(ChainStore.check, seen=seen))
    return seen


def _chain_stores(store: RunStore) -> list[ChainStore]:
    return [store.chain(index) for index in store.chains()]


def _undisturbed(own: ChainStore, look: Callable[[ChainStore], T]) -> T:
    """Who writes a checkpoint removes what only the one before knew: what is missing may have been found too late."""
    for _ in range(_LOOKS):
        before = own.stamp()
        try:
            return look(own)
        except RunError:
            if own.stamp() == before:  # mutant: disturbed
                raise
    return look(own)


def read_traces(path: str | os.PathLike[str]) -> View | None:
    """The draws alone, of a run that a fit may be writing; None where there are none yet."""
    store = RunStore(path)
    config, about = store.config(), read_json(store.path / "about.json")
    exact = _is_exact({}, config, about)
    chains = [Chain(exact, store.chain(index).draws()) for index in store.chains()]
    chains = [chain for chain in chains if chain.draws]
    return View(store.path.resolve().name, config, about, chains, [], None) if chains else None


def _is_exact(saved: Arrays, config: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """What the checkpoint says; older ones do not, and then the other files decide."""
    if "exact" in saved:
        return bool(saved["exact"])
    rule = config.get("instantiate")
    published = isinstance(rule, dict) and rule.get("name") == "AsPublished"
    return bool(about.get("exact", not published))


def _whole_draws(chains: list[Chain]) -> list[tuple[Arrays, Mapping[str, float]]]:
    return [
        (snapshot, chain.draws[d])
        for chain in chains
        for d, snapshot in sorted(chain.snapshots.items())
        if d < len(chain.draws)
    ]
