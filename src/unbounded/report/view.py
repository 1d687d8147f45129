"""A run directory, read for a report: everything that is on disk but the data, whether the run has ended or not.

Nothing here resumes or fits. Chains may be of unequal length, snapshots may be missing, and old runs have neither
`about.json` nor `timing.json`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from unbounded.arrays import Array, Arrays
from unbounded.chain import export
from unbounded.chain.convergence import Check, check
from unbounded.chain.results import check_results
from unbounded.chain.run import Chain, has_estimate
from unbounded.chain.several import MAX_DRAWS, complete
from unbounded.chain.store import ChainStore, RunError, RunStore, read_json
from unbounded.family import Family, Shown, WholeDraws
from unbounded.models.families import family_of
from unbounded.round import Clock

T = TypeVar("T")
_NO_ESTIMATE = "There is no estimate of the {} yet: whole draws are too few ({})."
_LOOKS = 10  # at a chain that is being written; what is wrong after the last one is an error


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


def read(path: str | os.PathLike[str], at_hand: Mapping[str, object] = MappingProxyType({})) -> View:
    """The whole run. at_hand: X, the rows of the fit, and what else its family can use (`Family.useful`)."""
    store = RunStore(path)
    config, about = store.config(), read_json(store.path / "about.json")
    stores = store.own_chains()

    def read_chain(chain: ChainStore) -> Chain:
        saved = chain.checkpoint() or {}  # first: it knows what the other files must hold
        count = int(saved.get("n_draws", 0))  # mutant: counted draws
        return Chain(_is_exact(saved, config, about), chain.draws(count), chain.snapshots())

    chains = [_undisturbed(store, read_chain) for store in stores]
    clocks = [store.clock() for store, chain in zip(stores, chains, strict=True) if chain.draws]
    chains = [chain for chain in chains if chain.draws]
    if not chains:
        raise RunError(f"{path} has no draws yet; resume it first.")
    view = View(store.path.resolve().name, config, about, chains, clocks, None, check_results(store))
    _check_at_hand(view, at_hand)
    whole = WholeDraws(config, about, _whole_draws(chains))
    if not has_estimate(len(whole.draws), view.complete):
        return replace(view, notes=(*view.notes, _NO_ESTIMATE.format(view.family.atoms, len(whole.draws))))
    shown = view.family.show(whole, at_hand)
    return replace(view, atoms=shown, notes=(*view.notes, *shown.notes))


def _check_at_hand(run: View, at_hand: Mapping[str, object]) -> None:
    for name in at_hand:
        if name not in ("X", *run.family.useful):
            can = ", ".join(("X", *run.family.useful))
            raise ValueError(f"a report on {run.family.atoms} has no use for {name!r}; it can use {can}.")


def check_files(path: str | os.PathLike[str], seen: Set[str] = frozenset()) -> Set[str]:
    """Check the files of a run, which a fit may be writing, against its checkpoints. Returns digests of what was
    checked; seen: those that earlier calls returned, which are not checked again."""
    for chain in RunStore(path).own_chains():
        if chain.stamp() not in seen:
            seen = seen | _undisturbed(chain, partial(ChainStore.check, seen=seen))
    return seen


def _undisturbed(chain: ChainStore, look: Callable[[ChainStore], T]) -> T:
    """What `look` returns. A fit that saves a checkpoint deletes files that only the one before needed: where one is
    missing, the checkpoint may be a new one, and then we look again."""
    for _ in range(_LOOKS):
        before = chain.stamp()
        try:
            return look(chain)
        except RunError:
            if chain.stamp() == before:  # mutant: disturbed
                raise
    return look(chain)


def read_traces(path: str | os.PathLike[str], has_ended: bool) -> View | None:
    """The draws alone, of a run that a fit may be writing; None where there are none yet.

    has_ended: nobody writes now, so that what is behind the checkpoints is no draw.
    """
    store = RunStore(path)
    config, about = store.config(), read_json(store.path / "about.json")
    exact = _is_exact({}, config, about)
    stores = store.own_chains()
    chains = [Chain(exact, chain.draws(chain.count() if has_ended else None)) for chain in stores]
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
