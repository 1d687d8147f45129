"""Data: generators, small sets to try things on (`load_*`), and `load`, which reads rows by name, extension or kind."""

from unbounded.datasets.examples import load_cells, load_glyphs, load_news, load_penguins
from unbounded.datasets.generators import (
    CambridgeData,
    GaussianMixtureData,
    TopicsData,
    cambridge,
    cambridge_features,
    gaussian_mixture,
    topics,
)
from unbounded.datasets.reading import NAMES, load, located

__all__ = [
    "NAMES",
    "CambridgeData",
    "GaussianMixtureData",
    "TopicsData",
    "cambridge",
    "cambridge_features",
    "gaussian_mixture",
    "load",
    "load_cells",
    "load_glyphs",
    "load_news",
    "load_penguins",
    "located",
    "topics",
]
