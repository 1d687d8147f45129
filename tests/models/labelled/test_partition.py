"""The point estimate of a partition: losses against their identities, the search against brute force, and its scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from unbounded.arrays import Array
from unbounded.models.labelled import partition
from unbounded.models.labelled.losses import Loss, distance, expected_loss, similarity, uncertainty
from unbounded.models.labelled.partition import improved, point_estimate

NAMES = {"ids": lambda loss: f"{loss.kind}-{loss.merge_cost:g}"}
both = pytest.mark.parametrize("loss", [Loss("vi"), Loss("binder")], **NAMES)
all_losses = pytest.mark.parametrize(
    "loss", [Loss("vi"), Loss("binder"), Loss("vi", 1.6), Loss("binder", 0.6)], **NAMES
)


def all_partitions(n: int, start: tuple[int, ...] = (0,)) -> Iterator[Array]:
    if len(start) == n:
        yield np.array(start)
        return
    for label in range(max(start) + 2):
        yield from all_partitions(n, (*start, label))


def compact(labels: Array, dtype: type = np.uint8) -> Array:
    return np.unique(labels, return_inverse=True)[1].astype(dtype)


def random_draws(n: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [compact(rng.integers(0, rng.integers(1, n + 1), n)) for _ in range(rng.integers(1, 9))]


def noisy_draws(n: int, n_draws: int, n_clusters: int, seed: int) -> tuple[Array, list[Array]]:
    """A partition, and draws of it where each of a tenth of the rows is elsewhere a fifth of the time.

    The labels of every draw are permuted, and a few rows make up a cluster that only this draw has.
    """
    rng = np.random.default_rng(seed)
    truth = rng.choice(n_clusters, n, p=rng.dirichlet(np.full(n_clusters, 3.0)))
    unsure, other = rng.random(n) < 0.1, rng.integers(0, n_clusters, n)
    dtypes = (np.uint8, np.uint16, np.int32)
    draws = []
    for s in range(n_draws):
        labels = np.where(unsure & (rng.random(n) < 1 / 5), other, truth)
        labels[rng.integers(0, n, 5)] = n_clusters
        draws.append(compact(rng.permutation(n_clusters + 1)[labels], dtypes[s % 3]))
    return truth, draws


def brute_loss(a: Array, b: Array, loss: Loss) -> float:
    """From pairs of rows (Binder), or from entropies of the joint table (variation of information)."""
    cost = loss.merge_cost
    if loss.kind == "binder":
        own, other = a[:, None] == a[None, :], b[:, None] == b[None, :]
        return float(np.mean(cost * (own & ~other) + (2 - cost) * (~own & other)))
    joint = np.histogram2d(a, b, bins=(np.arange(a.max() + 2), np.arange(b.max() + 2)))[0] / len(a)
    p, q = np.broadcast_arrays(joint.sum(1, keepdims=True), joint.sum(0, keepdims=True))
    seen = joint > 0
    own, other = np.log(joint[seen] / p[seen]), np.log(joint[seen] / q[seen])
    return float(-(joint[seen] * (cost * own + (2 - cost) * other)).sum())


# ---- losses


@all_losses
@pytest.mark.parametrize("seed", range(5))
def test_distance_agrees_with_its_definition(loss: Loss, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = compact(rng.integers(0, 5, 40)), compact(rng.integers(0, 7, 40))
    assert distance(a, b, loss) == pytest.approx(brute_loss(a, b, loss), abs=1e-12)
    swapped = Loss(loss.kind, 2.0 - loss.merge_cost)
    assert distance(a, b, loss) == pytest.approx(distance(b, a, swapped), abs=1e-12)
    assert distance(a, a, loss) == pytest.approx(0.0, abs=1e-12)
    assert distance(-3 * a.astype(int), b, loss) == pytest.approx(distance(a, b, loss), abs=1e-12)


def test_independent_partitions_are_the_sum_of_their_entropies_apart() -> None:
    a, b = np.repeat(np.arange(4), 6), np.tile(np.arange(3), 8)
    assert distance(a, b) == pytest.approx(np.log(4) + np.log(3))


@both
def test_expected_loss_is_the_mean_distance(loss: Loss) -> None:
    truth, draws = noisy_draws(200, 7, 4, seed=1)
    mean = np.mean([distance(truth, draw, loss) for draw in draws])
    assert expected_loss(truth, draws, loss) == pytest.approx(mean)


def test_similarity_counts_draws() -> None:
    draws = [np.array([0, 0, 1, 1], np.uint8), np.array([0, 0, 0, 1], np.int32)]
    expected = [[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]]
    np.testing.assert_array_equal(similarity(draws, np.array([0, 1, 2])), expected)
    half = similarity(draws, np.array([3, 2]))
    np.testing.assert_array_equal(half, [[1, 0.5], [0.5, 1]])


# ---- search


@all_losses
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_estimate_is_the_best_of_all_partitions(n: int, loss: Loss) -> None:
    candidates = list(all_partitions(n))
    for seed in range(8):
        draws = random_draws(n, seed)
        most = np.ceil(np.median([draw.max() + 1 for draw in draws]))
        least = min(expected_loss(labels, draws, loss) for labels in candidates if labels.max() < most)
        assert expected_loss(point_estimate(draws, loss), draws, loss) == pytest.approx(least, abs=1e-10), seed


@both
def test_estimate_beats_every_draw_and_no_single_move_or_merge_improves_it(loss: Loss) -> None:
    _, draws = noisy_draws(60, 15, 4, seed=2)
    estimate = point_estimate(draws, loss)
    least = expected_loss(estimate, draws, loss)
    assert least <= min(expected_loss(draw, draws, loss) for draw in draws) + 1e-12
    for moved in neighbours(estimate):
        assert expected_loss(moved, draws, loss) >= least - 1e-9


def neighbours(labels: Array) -> Iterator[Array]:
    n_clusters = labels.max() + 1
    for row in range(len(labels)):
        for cluster in range(n_clusters + 1):
            yield np.where(np.arange(len(labels)) == row, cluster, labels)
    for a in range(n_clusters):
        for b in range(a):
            yield np.where(labels == a, b, labels)


@both
def test_rows_that_no_draw_separates_move_together(loss: Loss) -> None:
    draws = [np.repeat(draw, 5) for draw in random_draws(6, seed=11)]
    estimate = point_estimate(draws, loss)
    assert len(estimate) == 30
    assert all(len(set(rows)) == 1 for rows in estimate.reshape(6, 5))


@both
def test_large_draws_are_recovered(loss: Loss) -> None:
    truth, draws = noisy_draws(60_000, 16, 12, seed=3)
    estimate = point_estimate(draws, loss)
    assert estimate.shape == truth.shape
    assert adjusted_rand_score(truth, estimate) > 0.99
    assert expected_loss(estimate, draws, loss) <= expected_loss(truth, draws, loss) + 1e-9
    sizes = np.bincount(estimate)
    assert (np.diff(sizes) <= 0).all()
    assert estimate.dtype == np.int64


def test_neither_blocks_nor_the_compiler_change_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    _, draws = noisy_draws(400, 9, 5, seed=4)
    whole = point_estimate(draws)
    with monkeypatch.context() as patch:
        patch.setattr(partition, "_BLOCK", 1)
        np.testing.assert_array_equal(point_estimate(draws), whole)
    monkeypatch.setattr(partition, "_FEW", np.inf)
    np.testing.assert_array_equal(point_estimate(draws), whole)


@both
def test_clusters_that_are_apart_in_all_draws_are_cut_and_halves_are_poured_together(loss: Loss) -> None:
    """No row has a reason to go alone: without merges halves stay halves, without cuts clusters stay together."""
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 4, 600)
    halves, thirds = truth + 4 * (np.arange(600) % 2), np.where(truth < 3, 0, 1)
    sure = [blurred(truth, rng) for _ in range(30)]
    torn = [blurred(halves if s % 5 < 1 else truth, rng) for s in range(30)]  # most draws have no halves
    for start, draws in ((halves, torn), (thirds, sure), (np.zeros(600, int), sure)):
        found = improved(start, draws, loss)
        assert expected_loss(found, draws, loss) <= expected_loss(truth, draws, loss) + 1e-9
        assert adjusted_rand_score(found, truth) > 0.95


def blurred(labels: Array, rng: np.random.Generator) -> Array:
    """Every row elsewhere now and then, so that no two of them are together in all draws."""
    return compact(np.where(rng.random(len(labels)) < 0.15, rng.integers(0, labels.max() + 1, len(labels)), labels))


@both
def test_the_dearer_it_is_to_merge_the_more_clusters_there_are(loss: Loss) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=300)
    draws = [compact(np.digitize(x, np.sort(rng.normal(size=rng.integers(1, 6))))) for _ in range(20)]
    found = [point_estimate(draws, Loss(loss.kind, cost)).max() + 1 for cost in (0.3, 1.0, 1.7)]
    assert found[0] <= found[1] <= found[2]
    assert found[0] < found[2]


def test_uncertainty_is_the_share_of_wrong_company() -> None:
    draws = [np.array([0, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 2])]
    expected = []
    for row in range(5):
        shares = []
        for draw in draws:
            mine, theirs = ({j for j in range(5) if z[j] == z[row] and j != row} for z in (draws[0], draw))
            shares.append(len(mine ^ theirs) / max(len(mine | theirs), 1))
        expected.append(np.mean(shares))
    np.testing.assert_allclose(uncertainty(draws[0], draws), expected)
    assert expected[4] == 0.0


@both
def test_estimate_is_deterministic_whatever_the_labels_and_dtypes(loss: Loss) -> None:
    _, draws = noisy_draws(500, 12, 5, seed=5)
    estimate = point_estimate(draws, loss)
    np.testing.assert_array_equal(point_estimate(draws, loss), estimate)
    np.testing.assert_array_equal(point_estimate([draw.astype(np.int64) for draw in draws], loss), estimate)
    turned = [(draw.max() - draw).astype(np.uint16) for draw in draws]
    np.testing.assert_array_equal(point_estimate(turned, loss), estimate)


@both
def test_one_draw_is_its_own_estimate(loss: Loss) -> None:
    estimate = point_estimate([np.array([2, 1, 1, 0, 1, 0], np.uint8)], loss)
    np.testing.assert_array_equal(estimate, [2, 0, 0, 1, 0, 1])


@both
def test_singletons_and_one_cluster_stay_so(loss: Loss) -> None:
    np.testing.assert_array_equal(point_estimate([np.arange(40)] * 5, loss), np.arange(40))
    np.testing.assert_array_equal(point_estimate([np.zeros(40, np.uint8)] * 5, loss), np.zeros(40))


def test_too_many_clusters_for_tables_leave_the_best_draw() -> None:
    rng = np.random.default_rng(6)
    draws = [rng.permutation(4000).astype(np.int32) for _ in range(4)] + [np.zeros(4000, np.int32)]
    np.testing.assert_array_equal(point_estimate(draws), np.arange(4000))


# ---- errors


def test_errors_are_one_clear_sentence() -> None:
    draws = [np.array([0, 1])]
    for call in (
        point_estimate,
        lambda d, loss: expected_loss(d[0], d, loss),
        lambda d, loss: distance(d[0], d[0], loss),
    ):
        with pytest.raises(ValueError, match=r"^loss must be one of 'vi', 'binder', got 'rand'\.$"):
            call(draws, Loss("rand"))
        with pytest.raises(ValueError, match=r"^merge_cost must be a number between 0 and 2, got 2\.5\.$"):
            call(draws, Loss("vi", 2.5))
    with pytest.raises(ValueError, match="no draws"):
        point_estimate([])
    with pytest.raises(ValueError, match="one for each row"):
        point_estimate([np.array([0, 1]), np.array([0, 1, 1])])
    with pytest.raises(ValueError, match="one for each row"):
        point_estimate([np.array([0.0, 1.0])])
    with pytest.raises(ValueError, match=r"0 \.\. K-1"):
        point_estimate([np.array([0, 7])])
    with pytest.raises(ValueError, match="3 labels, but the draws have 2 rows"):
        expected_loss(np.array([0, 1, 1]), draws)
