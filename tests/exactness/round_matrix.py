"""A round of a mixture as a matrix of transition probabilities, written from docs/theory.md and nothing else.

Few rows, parameters with few values, so that all sums are finite; weights are integrated out by Gaussian quadrature. It
shares no code with the sampler: what the page says is right or wrong here, whatever the library does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import lgamma, prod

import numpy as np
from enumeration import canonical, log_eppf, partitions
from scipy.special import roots_genlaguerre

Array = np.ndarray
Atom = tuple[str, int]  # ("mobile", 0), ("frozen", 2), ("private", 5): its role in the round, and which
Config = tuple[Atom, ...]  # the atom of every row


@dataclass(frozen=True)
class Model:
    """PY(alpha, sigma); `f[g, i]` is the likelihood of row i under the g-th value of the parameter, `prior[g]`."""

    alpha: float
    sigma: float
    f: Array
    prior: Array

    @property
    def n(self) -> int:
        return self.f.shape[1]

    @cached_property
    def states(self) -> list[tuple[int, ...]]:
        return [tuple(z) for z in partitions(self.n).tolist()]

    def marginal(self, rows: list[int]) -> float:
        return float(self.prior @ self.f[:, rows].prod(axis=1))

    @cached_property
    def posterior(self) -> Array:
        p = [np.exp(log_eppf(np.array(z), self.alpha, self.sigma)) * self._data(z) for z in self.states]
        return np.array(p) / np.sum(p)

    def _data(self, z: tuple[int, ...]) -> float:
        return prod(self.marginal(rows) for rows in blocks(z))

    def ghosts(self, counts: list[int], total: int) -> Iterator[tuple[float, tuple[int, ...], tuple[int, ...]]]:
        """(probability, ghosts of atoms, ghosts of ghost-only atoms), one ghost after another by the predictive."""
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {((0,) * len(counts), ()): 1.0}
        for j in range(total):
            more: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
            for (own, extra), p in found.items():
                sizes = [*(m + t for m, t in zip(counts, own, strict=True)), *extra]
                whole = self.alpha + sum(counts) + j
                ways = [(k, (size - self.sigma) / whole) for k, size in enumerate(sizes)]
                for k, q in [*ways, (len(sizes), (self.alpha + self.sigma * len(sizes)) / whole)]:
                    after = [*own, *extra, 0]
                    after[k] += 1
                    key = tuple(after[: len(own)]), tuple(t for t in after[len(own) :] if t)
                    more[key] = more.get(key, 0.0) + p * q
            found = more
        for (own, extra), p in found.items():
            yield p, own, extra


def blocks(z: tuple[int, ...]) -> list[list[int]]:
    return [[i for i, label in enumerate(z) if label == k] for k in range(max(z) + 1)]


def gammas(shapes: list[float], size: int) -> tuple[list[Array], Array]:
    """Nodes of independent Gamma(shape, 1) variables, and weights that add up to one."""
    rules = [roots_genlaguerre(size, shape - 1.0) for shape in shapes]
    grids = np.meshgrid(*[x for x, _ in rules], indexing="ij")
    weights = np.ones(())
    for shape, (_, w) in zip(shapes, rules, strict=True):
        weights = np.multiply.outer(weights, w / np.exp(lgamma(shape)))
    return [grid.ravel() for grid in grids], weights.ravel()


@dataclass(frozen=True)
class Rule:
    """ghosts: T; lone: the shard that is open, if it is only one.

    several: None; or the paper's rule, which instantiates all atoms (0), or those with more rows than this number.
    """

    shards: tuple[int, ...]  # of every row
    ghosts: int = 1
    lone: int = -1
    several: int | None = None
    nodes: int = 40

    @property
    def published(self) -> bool:
        return self.several is not None

    def open(self, shard: int) -> bool:
        return self.lone in (-1, shard)


def matrix(model: Model, rule: Rule) -> Array:
    """[B, B]: from every partition to every other, in one round with one sweep."""
    index = {z: b for b, z in enumerate(model.states)}
    out = np.zeros((len(index), len(index)))
    for z, b in index.items():
        for p, config in round_from(model, rule, z):
            atoms = list(dict.fromkeys(config))
            out[b, index[canonical([atoms.index(atom) for atom in config])]] += p
    return out


def stationary(transitions: Array) -> Array:
    """The law that a chain settles in, from wherever it starts."""
    return np.asarray(np.linalg.matrix_power(transitions, 1000)[0])


def round_from(model: Model, rule: Rule, z: tuple[int, ...]) -> Iterator[tuple[float, Config]]:
    members = blocks(z)
    counts = [len(rows) for rows in members]
    chances = [(1.0, (0,) * len(counts), ())] if rule.published else model.ghosts(counts, rule.ghosts)
    for p_ghosts, own, extra in chances:
        roles = [role(rule, rows, t) for rows, t in zip(members, own, strict=True)]
        used = [k for k, name in enumerate(roles) if name == "mobile" or (name == "frozen" and rule.lone >= 0)]
        atoms: list[Atom] = [(roles[k], k) for k in used] + [("mobile", len(counts) + j) for j in range(len(extra))]
        rows = [members[k] for k in used] + [[] for _ in extra]
        shapes = [len(r) + t - model.sigma for r, t in zip(rows, [*(own[k] for k in used), *extra], strict=True)]
        weights, chance, birth = drawn(model, rule, shapes, len(counts) + len(extra))
        start: Config = tuple((roles[k], k) for k in z)
        for g in product(range(len(model.prior)), repeat=len(atoms)):
            p_values = prod(_posterior(model, r)[v] for r, v in zip(rows, g, strict=True))
            tables = [w[:, None] * model.f[v] for w, v in zip(weights, g, strict=True)]
            for config, p in sweep(model, rule, dict(zip(atoms, tables, strict=True)), birth, start).items():
                yield p_ghosts * p_values * float(chance @ p), config


def role(rule: Rule, rows: list[int], ghosts: int) -> str:
    homes = {rule.shards[i] for i in rows}
    alone = len(homes) == 1 and rule.open(min(homes))
    if rule.several is not None:
        return "mobile" if len(rows) > rule.several or not alone else "private"
    return "mobile" if ghosts else "private" if alone else "frozen"


def _posterior(model: Model, rows: list[int]) -> Array:
    p = model.prior * model.f[:, rows].prod(axis=1)
    return p / p.sum()


def drawn(model: Model, rule: Rule, shapes: list[float], n_atoms: int) -> tuple[list[Array], Array, Array]:
    """(weights of instantiated atoms, chances of the nodes, what a new atom weighs beside them)."""
    alpha, sigma = model.alpha, model.sigma
    if rule.published:
        rest = alpha + model.n - sum(shapes)  # sigma for each instantiated atom included
        points, chance = gammas([*shapes, rest], rule.nodes)
        return points[:-1], chance, points[-1]
    if sigma == 0.0:
        points, chance = gammas(shapes, rule.nodes)
        return points, chance, np.full(len(chance), alpha)
    points, chance = gammas([*shapes, alpha / sigma + n_atoms], rule.nodes)
    return points[:-1], chance, sigma * points[-1]


def sweep(model: Model, rule: Rule, tables: dict[Atom, Array], birth: Array, start: Config) -> dict[Config, Array]:
    """Every row once, in order. The chances of what may come of it, at all nodes."""
    now = {start: np.ones(len(birth))}
    for i in range(model.n):
        after: dict[Config, Array] = {}
        for config, p in now.items():
            if stays(rule, config, i):
                after[config] = after.get(config, 0.0) + p
                continue
            options = choices(model, rule, tables, birth, config, i)
            whole = sum(options.values())
            for atom, weight in options.items():
                moved = (*config[:i], atom, *config[i + 1 :])
                after[moved] = after.get(moved, 0.0) + p * weight / whole
        now = after
    return now


def stays(rule: Rule, config: Config, i: int) -> bool:
    return config[i][0] == "frozen" and rule.shards[i] != rule.lone


def choices(
    model: Model, rule: Rule, tables: dict[Atom, Array], birth: Array, config: Config, i: int
) -> dict[Atom, Array]:
    """What row i may join, with its weights at all nodes."""
    home = rule.shards[i]
    options = {atom: table[:, i] for atom, table in tables.items() if atom[0] == "mobile" or home == rule.lone}
    if not rule.open(home):
        return options
    others = [(j, atom) for j, atom in enumerate(config) if j != i and atom[0] == "private" and rule.shards[j] == home]
    scale: Array = np.ones(len(birth))
    if rule.published:  # the rest of the mass is shared out among the tail
        scale = birth / (model.alpha + model.sigma * len(tables) + len(others))
        birth = scale * (model.alpha + model.sigma * (len(tables) + len({atom for _, atom in others})))
    for atom in {atom for _, atom in others}:
        rows = [j for j, one in others if one == atom]
        options[atom] = scale * (len(rows) - model.sigma) * model.marginal([*rows, i]) / model.marginal(rows)
    options["private", 100 + i] = birth * model.marginal([i])
    return options
