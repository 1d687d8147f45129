"""Which atoms are instantiated in a round, and which shards may create atoms (docs/sampler.md).

A rule makes a `Plan` for each round from what it may know: the round's number, sizes, and randomness of its own. It
never sees Z: that is what keeps the chain exact. What follows from a plan is here, too: the roles of atoms, and the
codes of labels in the round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.jit import jit
from unbounded.contracts import Plan, Rule
from unbounded.options import BEFORE

SEVERAL = "several"
SCHEDULES = ("cold", "warm", "decreasing", "hot")


def _count(ghosts: int | None, default: int, n_shards: int) -> int:
    total = default if ghosts is None else int(ghosts)
    if total < 0 or (total == 0 and n_shards > 1):
        raise ValueError(f"ghosts must be at least 1 with {n_shards} shards (0 only with one shard), got {total}.")
    return total


@dataclass(frozen=True)
class Ghosts:
    """Exact, all shards open: an atom is instantiated when one of `ghosts` data-free observations holds it.

    Parameters
    ----------
    ghosts : int or None, default None
        None: one per row. 0 (with one shard) is collapsed Gibbs; many approach the fully instantiated sampler.
    spread : float, default 1.0
        Their number is drawn afresh each round, log-uniformly from ghosts / spread to ghosts; 1: always `ghosts`. Few
        ghosts leave young atoms collapsed, so that rows join them by what all their rows say.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(instantiate=ub.Ghosts(spread=16))
    """

    ghosts: int | None = None
    spread: float = field(default=1.0, metadata={BEFORE: 1.0})
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.spread) and self.spread >= 1.0):
            raise ValueError(f"spread must be a number of at least 1, got {self.spread!r}.")

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan:
        """What is instantiated in a round of n_rounds, and which shards may create atoms.

        Examples
        --------
        >>> import numpy as np
        >>> plan = ub.Ghosts().plan(0, 100, 1_000, 4, np.random.default_rng(0))
        >>> plan.ghosts, plan.open.tolist()
        (1000, [True, True, True, True])
        """
        most = _count(self.ghosts, n_rows, n_shards)
        return Plan(max(round(most * self.spread ** -rng.random()), min(most, 1)), np.ones(n_shards, bool))

    def settled(self, n_rounds: int) -> int:
        """The first round whose draws may be kept.

        Examples
        --------
        >>> ub.Ghosts().settled(100)
        0
        """
        return 0


@dataclass(frozen=True)
class OneOpen:
    """Exact, closest to the paper: one shard, drawn afresh each round, may create atoms.

    Parameters
    ----------
    ghosts : int or None, default None
        None: three per row.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(instantiate=ub.OneOpen())
    """

    ghosts: int | None = None
    exact: ClassVar[bool] = True

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan:
        """What is instantiated in a round of n_rounds, and which shards may create atoms.

        Examples
        --------
        >>> import numpy as np
        >>> int(ub.OneOpen().plan(0, 100, 1_000, 4, np.random.default_rng(0)).open.sum())
        1
        """
        lone = int(rng.integers(n_shards))
        return Plan(_count(self.ghosts, 3 * n_rows, n_shards), np.arange(n_shards) == lone, lone=lone)

    def settled(self, n_rounds: int) -> int:
        """The first round whose draws may be kept.

        Examples
        --------
        >>> ub.OneOpen().settled(100)
        0
        """
        return 0


@dataclass(frozen=True)
class AsPublished:
    """The paper's rule: biased, kept to reproduce the paper. Its draws are flagged as not exact.

    Parameters
    ----------
    schedule : {"cold", "warm", "decreasing", "hot"}, default "cold"
        "cold": one open shard; "warm": all open for the first eighth of the rounds, then one; "decreasing": all open
        for the first eighth, then half as many after each further sixteenth until one is left; "hot": all, always.
    j : int, "several" or None, default None
        Which atoms are instantiated: all (None, the paper's experiments), that many of the largest, or "several":
        those with several members, as its Section 3 has it. Atoms that are not all on one open shard are instantiated
        as well.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(instantiate=ub.AsPublished("warm"))  # not exact, and says so
    """

    schedule: str = "cold"
    j: int | str | None = field(default=None, metadata={BEFORE: None})
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.j is None or self.j == SEVERAL or (isinstance(self.j, int | np.integer) and self.j >= 0)):
            raise ValueError(f"j must be None, an integer of at least 0 or {SEVERAL!r}, got {self.j!r}.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {SCHEDULES}, got {self.schedule!r}.")

    def _n_open(self, round_: int, n_rounds: int, n_shards: int) -> int:
        eighth = n_rounds / 8
        if self.schedule == "hot" or (self.schedule in ("warm", "decreasing") and round_ < eighth):
            return n_shards
        if self.schedule == "decreasing":
            return max(1, n_shards >> (1 + int((round_ - eighth) / (eighth / 2))))
        return 1

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan:
        """What is instantiated in a round of n_rounds, and which shards may create atoms.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> [int(ub.AsPublished("warm").plan(r, 80, 1_000, 4, rng).open.sum()) for r in (0, 9, 10)]
        [4, 4, 1]
        """
        chosen = rng.permutation(n_shards)[: self._n_open(round_, n_rounds, n_shards)]
        return Plan(0, np.isin(np.arange(n_shards), chosen), published=True, j=self.j)

    def settled(self, n_rounds: int) -> int:
        """The first round whose draws may be kept: those of a warm start are discarded.

        Examples
        --------
        >>> ub.AsPublished("warm").settled(80)
        10
        """
        last = {"warm": n_rounds / 8, "decreasing": n_rounds * 5 / 8}.get(self.schedule, 0)
        return int(np.ceil(last))


MEMBERS: dict[str, Rule] = {"ghosts": Ghosts(), "one_open": OneOpen()}
MEMBERS |= {f"published-{schedule}": AsPublished(schedule) for schedule in SCHEDULES}


def resolve(instantiate: str | Rule) -> Rule:
    """A rule from its name ("ghosts", "one_open", "published-cold", ...), or the object itself."""
    if isinstance(instantiate, str):
        if instantiate not in MEMBERS:
            raise ValueError(f"instantiate must be one of {sorted(MEMBERS)} or a rule, got {instantiate!r}.")
        return MEMBERS[instantiate]
    if isinstance(instantiate, type) or not hasattr(instantiate, "plan"):
        raise ValueError(f"instantiate must be a name or a rule such as Ghosts(), got {instantiate!r}.")
    return instantiate


def as_published(counts: Array, owner: Array, plan: Plan) -> Array:
    """A mask of the atoms that the paper's rule instantiates; others are collapsed on the open shard that has them."""
    if plan.j is None:
        return np.ones(len(counts), bool)
    if plan.j == SEVERAL:
        chosen = counts > 1
    else:
        chosen = np.isin(np.arange(len(counts)), np.argsort(-counts, kind="stable")[: int(plan.j)])
    return np.asarray(chosen | (owner < 0) | ~plan.open[owner])  # mutant: published elsewhere


def classify(ghosts: Array, owner: Array, plan: Plan) -> tuple[Array, Array, Array]:
    """Positions of mobile, frozen and private atoms; a lone open shard may use frozen ones, which cannot die."""
    is_mobile = ghosts > 0  # mutant: classify is mobile
    is_private = ~is_mobile & ((owner == plan.lone) if plan.lone >= 0 else (owner >= 0))  # mutant: classify is private
    return tuple(mask.nonzero()[0] for mask in (is_mobile, ~is_mobile & ~is_private, is_private))  # type: ignore[return-value]


# ---- codes of labels


class Coded(Protocol):
    """A state between rounds. Its table has the atoms that all shards share, then the private ones of each shard.

    Labels of a shard are codes: 0 .. n_shared - 1 for shared atoms, in the order of the table, then its private ones.
    """

    @property
    def n_shared(self) -> int: ...

    @property
    def n_private(self) -> Array:
        """[P]"""


class Roles(NamedTuple):
    """Atoms of a round by their role; `n_extra` atoms besides are held by ghosts alone.

    Codes of shared atoms are in the order mobile, ghost-only, frozen.
    """

    mobile: Array
    frozen: Array
    private: Array
    n_extra: int
    lone: bool = False  # whether there is a shard that may use frozen atoms, too

    @property
    def n_mobile(self) -> int:
        return len(self.mobile) + self.n_extra

    @property
    def n_shared(self) -> int:
        return self.n_mobile + len(self.frozen)

    @property
    def usable(self) -> Array:
        """Occupied atoms that rows of some shard may join."""
        return np.concatenate([self.mobile, self.frozen]) if self.lone else self.mobile

    def among(self, atoms: Array) -> Roles:
        """The same atoms by other numbers: number k becomes atoms[k]."""
        return Roles(atoms[self.mobile], atoms[self.frozen], atoms[self.private], self.n_extra, self.lone)


def by_code(state: Coded, values: Array, p: int) -> Array:
    """Values of all atoms of the table, as shard p looks them up: by its codes."""
    first = state.n_shared + int(state.n_private[:p].sum())
    return np.concatenate([values[: state.n_shared], values[first : first + int(state.n_private[p])]])


def new_codes(state: Coded, roles: Roles, owner: Array) -> Iterator[tuple[Array, Array]]:
    """For every shard: which of the private atoms it owns, and the new code of each of its old codes.

    roles: of places in the table. owner: the shard of each private atom. The many shards that have none, and had none,
    share one array of codes.
    """
    code = np.full(state.n_shared + int(state.n_private.sum()), -1, np.int32)
    code[roles.mobile] = np.arange(len(roles.mobile))
    code[roles.frozen] = np.arange(roles.n_mobile, roles.n_shared)
    none, common = roles.private[:0], code[: state.n_shared]
    busy = set(np.flatnonzero(state.n_private).tolist()) | set(owner.tolist())
    for p in range(len(state.n_private)):
        if p not in busy:
            yield none, common
            continue
        mine, new = (owner == p).nonzero()[0], code.copy()
        new[roles.private[mine]] = roles.n_shared + np.arange(len(mine))
        yield mine, by_code(state, new, p)


@jit
def relabel(labels: Array, codes: Array) -> None:
    """labels[i] = codes[labels[i]]; labels are not read where all codes stay (codes below 0 have no rows)."""
    changed = False
    for k in range(codes.size):
        changed |= codes[k] != k and codes[k] >= 0
    if not changed:
        return
    for i in range(labels.size):
        labels[i] = codes[labels[i]]
