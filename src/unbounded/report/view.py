"""A run directory, read for a report: everything that is on disk, whether the run has ended or not, and no data.

Nothing here resumes or fits. Chains may be of unequal length, snapshots may be missing, and old runs have neither
`about.json` nor `timing.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unbounded.arrays import Array, is_sparse
from unbounded.chain.clock import Clock
from unbounded.chain.run import Chain
from unbounded.chain.store import ChainStore, RunError, RunStore, read_json
from unbounded.models.features import point_estimate as features
from unbounded.models.groups import point_estimate as topics
from unbounded.models.labelled import partition
from unbounded.report import plots
from unbounded.rows import fingerprint
from unbounded.sources import Source

_POINTS, _SIMILAR = 2500, 160


@dataclass(frozen=True)
class Plane:
    """Some rows in two dimensions."""

    points: Array
    labels: Array
    names: Sequence[str]


@dataclass(frozen=True)
class Clusters:
    labels: Array
    similarity: Array  # of some rows, in the order of their clusters
    plane: Plane | None = None


@dataclass(frozen=True)
class Topics:
    shares: Array
    history: Array  # [snapshots, topics]
    words: Sequence[Sequence[str]] | None  # None: the rows are not words


@dataclass(frozen=True)
class Features:
    components: Array
    usage: Array  # mean entry of a row
    shape: tuple[int, int] | None


@dataclass(frozen=True)
class View:
    name: str
    config: dict[str, Any]
    about: dict[str, Any]
    chains: list[Chain]
    clocks: list[Clock]
    atoms: Clusters | Topics | Features | None
    notes: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """As the run said; of an old one, by its rule."""
        rule = self.config.get("instantiate")
        published = isinstance(rule, dict) and rule.get("name") == "AsPublished"
        return bool(self.about.get("exact", not published))

    @property
    def counted(self) -> str:
        """The scalar that counts atoms."""
        return next(name for name in ("n_clusters", "n_topics", "n_features") if name in self.names)

    @property
    def names(self) -> list[str]:
        return list(self.chains[0].draws[0])

    @property
    def complete(self) -> bool:
        lengths = [len(chain.draws) for chain in self.chains]
        return len(lengths) == self.config["n_chains"] and min(lengths) >= self.config["n_draws"]

    def trace(self, name: str) -> list[Array]:
        return [np.array([draw.get(name, np.nan) for draw in chain.draws], float) for chain in self.chains]

    def long_chains(self) -> list[Chain]:
        """Those worth comparing: an interruption may leave one that has just begun."""
        longest = max(len(chain.draws) for chain in self.chains)
        return [chain for chain in self.chains if 2 * len(chain.draws) >= longest]


def read(
    path: str | Path, X: Any = None, vocabulary: Sequence[str] | None = None, shape: Any = None, loss: str = "vi"
) -> View:
    """X: the rows of the fit, for a picture; vocabulary: the words of topics; shape: of features as images."""
    store = RunStore(path)
    config = store.config()
    stores = [ChainStore(folder) for folder in _folders(store.path)]
    chains = [Chain(True, own.draws(), own.snapshots()) for own in stores]
    clocks = [own.clock() for own, chain in zip(stores, chains, strict=True) if chain.draws]
    chains = [chain for chain in chains if chain.draws]
    if not chains:
        raise RunError(f"{path} has no draws yet; resume it first.")
    about, notes = read_json(store.path / "about.json"), []
    atoms = _atoms(config, about, chains, vocabulary, shape, loss)
    if atoms is None:
        notes.append("No whole draw is on disk yet, so there is no picture of the atoms.")
    if isinstance(atoms, Clusters):
        atoms, said = _with_rows(atoms, X, config)
        notes += said
    return View(store.path.resolve().name, config, about, chains, clocks, atoms, notes)


def _folders(path: Path) -> list[Path]:
    found = [folder for folder in path.glob("chain-*") if folder.is_dir() and folder.name[6:].isdecimal()]
    return sorted(found, key=lambda folder: int(folder.name[6:]))


def _atoms(config: Any, about: Any, chains: list[Chain], vocabulary: Any, shape: Any, loss: str) -> Any:
    pairs = [
        (snap, chain.draws[d]) for chain in chains for d, snap in sorted(chain.snapshots.items())
        if d < len(chain.draws)
    ]  # fmt: skip
    if not pairs:
        return None
    snaps = [snap for snap, _ in pairs]
    if "Z" in snaps[0]:
        return _features(pairs, shape)
    if "tables" in snaps[0]:
        words = config["likelihood"].get("name") == "Tokens"
        return _topics(snaps, _vocabulary(snaps, about, vocabulary) if words else None)
    return _clusters([snap["labels"] for snap in snaps], loss)


def _features(pairs: Any, shape: Any) -> Features:
    draws = [
        features.FeatureDraw(snap["Z"], snap["loadings"][: snap["Z"].shape[1]], scalars["log_joint"])
        for snap, scalars in pairs
    ]
    estimate = features.point_estimate(draws)
    fits = shape is not None and shape[0] * shape[1] == estimate.components.shape[1]
    return Features(estimate.components, estimate.assignments.mean(0, dtype=float), tuple(shape) if fits else None)


def _vocabulary(snaps: Any, about: Any, vocabulary: Any) -> list[str]:
    """Words of the columns: as given, or their numbers."""
    least = max(_n_words(snap) for snap in snaps)
    if vocabulary is not None and len(vocabulary) >= least:
        return list(vocabulary)
    return [str(w) for w in range(max(int(about.get("columns", 0)), least))]


def _n_words(snap: Any) -> int:
    return int(snap["indices"].max(initial=-1)) + 1 if "indptr" in snap else snap["statistics"].shape[1]


def _topics(snaps: Any, vocabulary: list[str] | None) -> Topics:
    from unbounded.models.groups.measure import GroupHyper
    from unbounded.models.groups.model import unpacked

    named = topics.reference([snap["labels"] for snap in snaps])
    spreads = [topics.spread(snap["labels"], named) for snap in snaps]
    history = [topics.sizes(snap["counts"], share) for snap, share in zip(snaps, spreads, strict=True)]
    shares = np.bincount(named) / len(named)
    if vocabulary is None:
        return Topics(shares, np.array(history), None)
    statistics = [unpacked(snap, len(vocabulary)) for snap in snaps]
    top = topics.top_words(spreads, statistics, [GroupHyper(*snap["hyper"]).eta for snap in snaps])
    return Topics(shares, np.array(history), [[vocabulary[w] for w in words] for words in top])


def _clusters(draws: list[Array], loss: str) -> Clusters:
    labels = partition.point_estimate(draws, loss)
    some = np.linspace(0, len(labels) - 1, min(len(labels), _SIMILAR)).astype(int)
    some = some[np.argsort(labels[some], kind="stable")]
    return Clusters(labels, partition.similarity(draws, some))


def _with_rows(atoms: Clusters, X: Any, config: Any) -> tuple[Clusters, list[str]]:
    """The same with a picture of its rows, or the reason why there is none."""
    if X is None:
        return atoms, ["The data are not at hand, so the rows are not drawn."]
    if is_sparse(X):
        return atoms, ["Sparse rows are not drawn."]
    X = X if isinstance(X, Source) else _as_fitted(X)
    if len(X) != len(atoms.labels) or fingerprint(X) != config.get("data"):
        return atoms, ["The data have changed since the fit, so the rows are not drawn."]
    return Clusters(atoms.labels, atoms.similarity, _plane(X, atoms.labels)), []


def _as_fitted(X: Any) -> Array:
    """Rows of any table in the form whose fingerprint a fit takes."""
    rows = np.asarray(X)
    return np.ascontiguousarray(rows, np.float32 if rows.dtype == np.float32 else np.float64)


def _plane(X: Any, labels: Array) -> Plane | None:
    shown = np.linspace(0, len(labels) - 1, min(len(labels), _POINTS)).astype(int)
    rows = X[shown].astype(float)
    whole = np.isfinite(rows).all(1)
    if not whole.any():
        return None
    points, names = plots.plane(rows[whole], None)
    if points.shape[1] == 1:
        points, names = np.column_stack([points[:, 0], shown[whole]]), [names[0], "row"]
    return Plane(points, labels[shown[whole]], names)
