"""Small runs of every kind, and their reports."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from typer.testing import CliRunner

from unbounded.cli.commands import app
from unbounded.datasets import cambridge
from unbounded.models.mixtures.model import Mixture

KINDS = ("mixture", "approximate", "interrupted", "topics", "features", "estimator")
BRIEF = ["--shards", "2", "--chains", "1", "--workers", "1", "--quiet", "--warmup", "10", "--draws", "30"]
NASTY = ["<script>alert(1)</script>", 'a&b"c', "x" * 60, "\x1b[31mred", "$\\frac{$"]


def ok(*words: Any, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return result.stdout


def rows() -> np.ndarray:
    rng = np.random.default_rng(5)
    centres = rng.normal(scale=6.0, size=(4, 3))
    return centres[rng.integers(0, 4, 200)] + rng.normal(size=(200, 3))


def write_data(folder: Path) -> None:
    rng = np.random.default_rng(6)
    np.save(folder / "rows.npy", rows())
    np.save(folder / "glyphs.npy", cambridge(200, noise=0.4, seed=1).X)
    phi = rng.dirichlet(np.full(25, 0.2), 3)
    phi = 0.6 * phi + 0.4 * np.repeat([1 / 5, 0.0], [5, 20])  # the nasty words are common in every topic
    docs = np.stack([rng.multinomial(40, phi[d % 3]) for d in range(60)])
    sparse.save_npz(folder / "docs.npz", sparse.csr_matrix(docs.astype(float)))
    (folder / "words.txt").write_text("\n".join([*NASTY, *(f"word{w}" for w in range(20))]) + "\n")


def interrupted(patch: Any, when: int) -> None:
    """Press Ctrl-C in the when-th round, counted over all chains."""
    gather, count = Mixture.gather, [0]

    def watched(self: Any, *args: Any) -> Any:
        count[0] += 1
        if count[0] == when:
            os.kill(os.getpid(), signal.SIGINT)
        return gather(self, *args)

    patch.setattr(Mixture, "gather", watched)
