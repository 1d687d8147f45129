"""Small sets to try things on, as scikit-learn has them: a bunch with `data`, `target` and a description.

One is real and free (penguins). The others are made up to look like real data, and always come out the same.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from unbounded.arrays import Array
from unbounded.datasets.generators import cambridge, cambridge_features

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_PENGUINS = """344 penguins of three species near Palmer Station, Antarctica: measurements, island and sex, with holes.

Real data, collected by Kristen Gorman and the Palmer Station LTER, put together by Allison Horst, Alison Hill and
Kristen Gorman as `palmerpenguins`, in the public domain (CC0). Gorman, Williams and Fraser (2014), Ecological sexual
dimorphism and environmental variability within a community of Antarctic penguins, PLoS ONE 9(3): e90081."""

_CELLS = """Cells as a flow cytometer would see them: six markers on the usual arcsinh scale, eight populations.

Made up, to look like blood; the rarest population is one cell in a hundred."""

_NEWS = """Short news items as bags of words, about six subjects.

Made up: words of each subject by hand, items by a topic model with some words that all of them share."""

_GLYPHS = """Small images, 6 x 6, each a sum of some of four glyphs, with noise.

Made up, as in the paper that this library starts from (`cambridge`)."""


def load_penguins() -> Bunch:
    """344 real penguins, mixed columns with holes.

    `frame` has the table as it was published; `data` has numbers: four measurements, the code of the island, and
    whether the penguin is a male (NaN where nobody knows). `target` is the species, which a clustering should find
    without being told.

    Examples
    --------
    >>> from unbounded.datasets import load_penguins
    >>> penguins = load_penguins()
    >>> penguins.data.shape, penguins.target_names
    ((344, 6), ['Adelie', 'Chinstrap', 'Gentoo'])
    """
    import pandas as pd

    with resources.files("unbounded.datasets").joinpath("penguins.csv").open() as file:
        frame = pd.read_csv(file)
    species, names = pd.factorize(frame["species"], sort=True)
    islands, island_names = pd.factorize(frame["island"], sort=True)
    data = frame.iloc[:, 2:6].astype(float)
    data["island"] = islands.astype(float)
    data["male"] = frame["sex"].map({"male": 1.0, "female": 0.0})
    return _bunch(_PENGUINS, data, species, list(names), frame=frame, island_names=list(island_names))


_MARKERS = ("CD3", "CD4", "CD8", "CD19", "CD14", "CD56")
_POPULATIONS = {  # share, and which markers are high (1), low (0) or between
    "helper T cells": (0.34, (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)),
    "cytotoxic T cells": (0.2, (1.0, 0.0, 1.0, 0.0, 0.0, 0.05)),
    "monocytes": (0.19, (0.0, 0.35, 0.0, 0.0, 1.0, 0.0)),
    "B cells": (0.12, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)),
    "natural killer cells": (0.09, (0.0, 0.0, 0.25, 0.0, 0.0, 0.85)),
    "natural killer T cells": (0.03, (0.9, 0.0, 0.5, 0.0, 0.0, 0.7)),
    "double-negative T cells": (0.02, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    "bright natural killer cells": (0.01, (0.0, 0.0, 0.0, 0.0, 0.0, 1.8)),
}


def load_cells(n_cells: int = 3_000, seed: int = 0) -> Bunch:
    """Made-up blood cells under a flow cytometer: six markers, eight populations, the rarest with 1% of the cells.

    Parameters
    ----------
    n_cells : int, default 3000
        Cells.
    seed : int, default 0
        Of all random numbers.

    Examples
    --------
    >>> from unbounded.datasets import load_cells
    >>> cells = load_cells()
    >>> cells.data.shape, len(cells.target_names)
    ((3000, 6), 8)
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    shares, levels = (np.array(part) for part in zip(*_POPULATIONS.values(), strict=True))
    target = rng.choice(len(shares), size=n_cells, p=shares / shares.sum())
    rows = 0.6 + 3.4 * levels[target]
    rows += rng.normal(size=rows.shape) * (0.25 + 0.2 * levels[target])  # bright markers vary more
    rows += 0.25 * rng.normal(size=(n_cells, 1))  # large cells are brighter in all markers
    data = pd.DataFrame(rows, columns=list(_MARKERS))
    return _bunch(_CELLS, data, target, list(_POPULATIONS))


_SUBJECTS = {
    "football": "match goal team coach league striker season cup penalty keeper injury fans stadium transfer defeat "
    "derby referee midfield champions squad",
    "elections": "vote party minister parliament campaign poll coalition debate senate reform ballot leader opposition "
    "candidate mayor voters policy cabinet referendum majority",
    "markets": "shares bank profit interest inflation investors rates quarter bonds growth currency stocks earnings "
    "analysts debt exports loan prices merger budget",
    "medicine": "patients vaccine hospital trial doctors virus therapy cancer dose symptoms clinic drug surgery "
    "infection disease nurses treatment study genes diagnosis",
    "space": "orbit rocket launch satellite moon astronauts telescope mission planet crew probe galaxy station lander "
    "capsule comet engine solar mars observatory",
    "cinema": "film director actor festival screen award drama comedy scene audience script sequel studio premiere "
    "critics cast documentary role camera oscar",
}
_SHARED = "new year people said week first time world two last city day report plan public group home number part end"


def load_news(n_items: int = 400, seed: int = 0) -> Bunch:
    """Made-up news about six subjects, as counts of words; `feature_names` is the vocabulary.

    Two in three items have a second subject. `documents` has the words of each item, `target` its main subject.

    Parameters
    ----------
    n_items : int, default 400
        Items.
    seed : int, default 0
        Of all random numbers.

    Examples
    --------
    >>> from unbounded.datasets import load_news
    >>> news = load_news()
    >>> news.data.shape, len(news.documents)
    ((400, 140), 400)
    """
    rng = np.random.default_rng(seed)
    words = [word for text in (*_SUBJECTS.values(), _SHARED) for word in text.split()]
    each = len(_SUBJECTS["football"].split())
    laws = np.zeros((len(_SUBJECTS), len(words)))
    frequent = 1.0 / (2.0 + np.arange(each))  # the first words of a subject are its most frequent ones
    for k, law in enumerate(laws):
        law[each * k : each * (k + 1)] = 0.75 * frequent / frequent.sum()
        law[each * len(laws) :] = 0.25 / (len(words) - each * len(laws))
    target = rng.integers(len(laws), size=n_items)
    other = rng.integers(len(laws), size=n_items)
    share = np.where(rng.random(n_items) < 2 / 3, rng.uniform(0.5, 0.9, n_items), 1.0)
    lengths = 20 + rng.poisson(20, n_items)
    drawn = [
        rng.choice(len(words), size=length, p=s * laws[k] + (1.0 - s) * laws[j])
        for k, j, s, length in zip(target, other, share, lengths, strict=True)
    ]
    documents = [[words[w] for w in item] for item in drawn]
    rows = np.repeat(np.arange(n_items), lengths)
    counts = sparse.coo_matrix((np.ones(len(rows), np.int32), (rows, np.concatenate(drawn))), (n_items, len(words)))
    return _bunch(_NEWS, counts.tocsr(), target, list(_SUBJECTS), feature_names=words, documents=documents)


def load_glyphs(n_images: int = 800, noise: float = 0.5, seed: int = 0) -> Bunch:
    """Made-up images of 6 x 6 pixels, each a sum of some of four glyphs, with noise.

    `components` has the glyphs, `target` says which of them each image has.

    Parameters
    ----------
    n_images : int, default 800
        Images.
    noise : float, default 0.5
        Standard deviation of the noise of a pixel, which is 1 where a glyph is.
    seed : int, default 0
        Of all random numbers.

    Examples
    --------
    >>> from unbounded.datasets import load_glyphs
    >>> glyphs = load_glyphs()
    >>> glyphs.data.shape, glyphs.components.shape
    ((800, 36), (4, 36))
    """
    made = cambridge(n_images, noise, seed=seed)
    return _bunch(_GLYPHS, made.X, made.Z, ["plus", "ring", "triangle", "T"], components=cambridge_features())


def _bunch(description: str, data: Any, target: Array, names: list[str], **more: Any) -> Bunch:
    from sklearn.utils import Bunch

    if hasattr(data, "columns"):
        more["feature_names"] = list(data.columns)
    return Bunch(data=data, target=target, target_names=names, DESCR=description, **more)
