"""Cuts of clusters, many at once (docs/jumps.md, "Cuts").

An anchor row i and a coin are drawn without looking at the labels. C is the cluster of i or, if the coin says so, that
cluster and the one of another random row. A *launch*, which sees C but not who in C is with whom, gives every other row
of C a probability p of leaving i. If C is one cluster, its halves are drawn from p; if it is two, they are what they
are; both ways the probability q of the halves is known, and with it the ratio of Metropolis and Hastings. Cuts of
disjoint sets go through the rows together: C is chosen with a probability s(C | Z), the move inside of C is reversible
with respect to the posterior times s, and does not change the probabilities of the sets chosen before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine
from unbounded.models.mixtures.jump import Edit, Jumps, Proposal, cuts_of, halves_of
from unbounded.models.mixtures.launch import Launched, draw_pool, fetch, launch
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator, key


def cut_some(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after cuts of disjoint sets of rows, and cuts that were undone."""
    rng = generator(model.seed, "cuts", state.round)
    n = model.n_rows
    rows = draw_pool(n, jumps.pool, rng)
    partners = rng.integers(0, n, jumps.anchors)
    chosen = rng.permutation(len(rows))[: jumps.anchors]
    joined = rng.random(jumps.anchors) < jumps.joined
    edit = Edit(model, state)
    pool, others = fetch(edit, engine, rows, partners)
    first = zip(rows[chosen], pool.atoms[chosen], others, joined, strict=False)
    proposals = _disjoint(edit.counts, list(first), jumps.share * n)
    if not proposals:
        return state
    launched = launch(edit, engine, pool, proposals, jumps.passes, rng)
    if not launched.proposals:
        return state
    log_joined = math.log(jumps.joined) - math.log1p(-jumps.joined)
    return _decide(Edit(model, state, len(launched.proposals)), engine, launched, log_joined, rng)


def _disjoint(counts: Array, drawn: Sequence[tuple[int, int, int, bool]], most: float) -> list[Proposal]:
    """Sets in the order of (anchor, its atom, another row's atom, whether both are C).

    A set that meets one before it is left out. There are no more after `most` rows: sizes of sets stay as well.
    """
    taken = np.zeros(len(counts), bool)
    proposals: list[Proposal] = []
    for anchor, a, b, join in drawn:
        if taken[a] or (join and taken[b]):
            continue
        taken[[a, b] if join else [a]] = True  # mutant: cut taken
        if not join or a != b:
            proposals.append(Proposal((int(anchor),), (int(a), int(b)) if join else (int(a),)))
        if counts[taken].sum() >= most:
            break
    return proposals


def _decide(
    edit: Edit, engine: Engine, launched: Launched, log_joined: float, rng: np.random.Generator
) -> MixtureState:
    """Draw halves, or find the log probability of those there are, and accept or refuse one set after another."""
    model, state = edit.model, edit.state
    proposals, odds = launched
    cuts = cuts_of(proposals, odds, key(model.seed, "halves", state.round))
    halves = halves_of(edit, engine, cuts, proposals)
    changed = False
    for m, atoms in enumerate(proposal.atoms for proposal in proposals):
        log_u, n_away = math.log(rng.random()), float(halves.away.counts[m])
        if n_away == 0.0:
            continue
        splits = len(atoms) == 1
        n_whole = len(edit.alive) - (0 if splits else 1)  # mutant: cut n whole
        log_ratio = halves.log_odds(edit, m, n_whole)
        log_ratio += log_joined + math.log(n_away / model.n_rows)  # mutant: cut choice
        if log_u < (log_ratio if splits else -log_ratio):  # mutant: cut decision
            changed = True
            if splits:
                edit.split(atoms[0], m, halves, m)
            else:
                edit.merge(*atoms)
    return edit.apply(engine, cuts, proposals) if changed else state
