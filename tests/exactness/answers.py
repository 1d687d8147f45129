"""Checks of what is made of draws, for planted mistakes: point estimates, and the check of convergence.

They have right answers rather than standard errors: a question is wrong or it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from sklearn.metrics import adjusted_rand_score

from unbounded.chain.convergence import check as judge
from unbounded.chain.diagnostics import diagnose
from unbounded.chain.run import Chain, Length
from unbounded.chain.several import agree
from unbounded.models.labelled.losses import Loss, expected_loss, uncertainty
from unbounded.models.labelled.partition import improved, point_estimate


@dataclass(frozen=True)
class Answers:
    failures: list[str]  # questions with a wrong answer
    largest: float = 0.0
    rms: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures


def asked(questions: dict[str, bool]) -> Answers:
    return Answers([name for name, right in questions.items() if not right])


# ---- point estimates


def _all_partitions(n: int, start: tuple[int, ...] = (0,)) -> Iterator[np.ndarray]:
    if len(start) == n:
        yield np.array(start)
        return
    for label in range(max(start) + 2):
        yield from _all_partitions(n, (*start, label))


def _pairs_lost(a: np.ndarray, b: np.ndarray, cost: float) -> float:
    own, other = a[:, None] == a[None, :], b[:, None] == b[None, :]
    return float(np.mean(cost * (own & ~other) + (2.0 - cost) * (~own & other)))


def estimates() -> Answers:
    """Estimates against all partitions of a few rows; and what only whole parts of clusters can mend."""
    rng, cost = np.random.default_rng(0), 0.5
    few = [np.unique(rng.integers(0, 3, 6), return_inverse=True)[1] for _ in range(9)]
    most = np.ceil(np.median([draw.max() + 1 for draw in few]))
    candidates = [labels for labels in _all_partitions(6) if labels.max() < most]
    losses = [np.mean([_pairs_lost(labels, draw, cost) for draw in few]) for labels in candidates]
    found = point_estimate(few, Loss("binder", cost))
    truth = rng.integers(0, 4, 600)
    halves, pairs = truth + 4 * (np.arange(600) % 2), truth // 2
    sure = [_blurred(truth, rng) for _ in range(30)]
    torn = [_blurred(halves if s % 5 < 2 else truth, rng) for s in range(30)]
    ends = {"halves": improved(halves, torn), "pairs": improved(pairs, sure)}
    companies = [{j for j in range(6) if z[j] == z[0] and j != 0} for z in few]
    wrong = np.mean([len(companies[0] ^ own) / max(len(companies[0] | own), 1) for own in companies])
    return asked(
        {
            "loss": bool(np.isclose(expected_loss(found, few, Loss("binder", cost)) * 1.0, np.mean(
                [_pairs_lost(found, draw, cost) for draw in few]))),
            "least": bool(np.mean([_pairs_lost(found, draw, cost) for draw in few]) <= min(losses) + 1e-12),
            "company": bool(np.isclose(uncertainty(few[0], few)[0], wrong)),
        }
        | {name: adjusted_rand_score(truth, labels) > 0.95 for name, labels in ends.items()}
    )  # fmt: skip


def _blurred(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every row elsewhere now and then, so that no two of them are together in all draws."""
    elsewhere = rng.integers(0, labels.max() + 1, len(labels))
    return np.unique(np.where(rng.random(len(labels)) < 0.15, elsewhere, labels), return_inverse=True)[1]


# ---- convergence


def trust() -> Answers:
    """Chains with one thing wrong each."""
    rng = np.random.default_rng(1)
    calm = rng.normal(size=(2, 1000))
    sticky = calm.copy()
    for t in range(1, 1000):
        sticky[:, t] += 0.99 * sticky[:, t - 1]
    begun = np.concatenate([10.0 + calm[0, :100], calm[0, :100], *[calm[1]] * 20])
    early = [{"alpha": float(value)} for value in begun]
    worse = xr.Dataset({"log_joint": (("chain", "draw"), calm - np.array([[0.0], [50.0]]))})
    return asked(
        {
            "calm": judge(xr.Dataset({"alpha": (("chain", "draw"), calm)})).passed,
            "spread": diagnose(calm * np.array([[1.0], [3.0]])).r_hat > 1.05,
            "trend": diagnose(calm[:1] + np.linspace(0.0, 3.0, 1000)).r_hat > 1.05,
            "apart": diagnose(calm + np.array([[0.0], [2.0]])).ess_bulk < 100.0,
            "sticky": diagnose(sticky).ess_bulk < 100.0,
            "drift": diagnose(calm + 0.5 * (np.arange(1000) >= 500)).drift > 0.3,
            "behind": any("Chain 1 is behind chain 0" in said for said in judge(worse).stuck),
            "first": not agree([Chain(True, early)] * 2, 200),
        }
    )


# ---- what is kept


def kept() -> Answers:
    """Whole draws reach from one end of a chain to the other."""
    draws = [draw for draw in range(1000) if Length(0, 1000, n_snapshots=16).is_snapshot(draw, 1000)]
    return asked({"early": draws[0] < 125, "late": draws[-1] >= 875, "all": len(draws) >= 8})
