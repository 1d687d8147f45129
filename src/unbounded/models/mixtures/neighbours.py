"""Clusters of rows that are near to each other: cut, joined, or cut anew, many at once (docs/jumps.md, "Neighbours").

Two rows i and j are drawn without looking at the labels, j near to i. C is their cluster or, if they are in two, both.
A launch, which sees C but not who in C is with whom, gives every other row of C a probability p of going with j. If C
is one cluster, it may be cut into halves drawn from p; if it is two, they may become one, or new halves, drawn from p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Engine
from unbounded.models.mixtures.jump import Edit, Jumps, Proposal, cuts_of, halves_of
from unbounded.models.mixtures.launch import Launched, Pool, draw_pool, fetch, launch
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator, key

SHARE = 0.5  # of the rows that cuts may have: most sets are two clusters
JOINED = 0.25  # chance that two clusters are tried as one, rather than cut anew


def move_neighbours(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after moves of clusters of some pairs of rows."""
    if jumps.pairs == 0:
        return state
    rng = generator(model.seed, "neighbours", state.round)
    rows = draw_pool(model.n_rows, jumps.pool, rng)
    if len(rows) == 1:
        return state
    chosen = rng.permutation(len(rows))[: jumps.pairs]
    edit = Edit(model, state)
    pool, _ = fetch(edit, engine, rows, rows[:0])
    partners = _partners(model, pool, chosen, rng)
    pairs = zip(rows[chosen], rows[partners], pool.atoms[chosen], pool.atoms[partners], strict=True)
    proposals = _disjoint(edit.counts, pairs, SHARE * jumps.share * model.n_rows)
    launched = launch(edit, engine, pool, proposals, jumps.passes, rng)
    if not launched.proposals:
        return state
    return _decide(Edit(model, state, len(launched.proposals)), engine, launched, rng)


def _partners(model: Mixture[Any], pool: Pool, chosen: Array, rng: np.random.Generator) -> Array:
    """For each chosen row, a partner: its r-th nearest neighbour, log r uniform."""
    coarse, _ = model.coarse
    terms = pool.terms[chosen]
    bias, eta = coarse.natural(coarse.centre(np.ones(len(chosen)), terms.toarray() if is_csr(terms) else terms))
    closeness = (pool.terms @ eta.T).T + bias[:, None]
    closeness[np.arange(len(chosen)), chosen] = np.inf
    others = len(pool.rows) - 1
    rank = np.minimum(np.exp(rng.random(len(chosen)) * math.log(others + 1)).astype(np.int64), others)
    # mutant: near rank
    return np.array([np.argpartition(-one, r)[r] for one, r in zip(closeness, rank.tolist(), strict=True)])


def _disjoint(counts: Array, pairs: Iterable[tuple[int, int, int, int]], most: float) -> list[Proposal]:
    """Sets in the order of (row, its partner, their atoms); one that meets a set before it is left out."""
    taken = np.zeros(len(counts), bool)
    proposals: list[Proposal] = []
    for i, j, a, b in pairs:
        if taken[a] or taken[b]:
            continue
        taken[[a, b]] = True
        proposals.append(Proposal((int(i),), (int(a),) if a == b else (int(a), int(b)), int(j)))
        if counts[taken].sum() >= most:
            break
    return proposals


def _decide(edit: Edit, engine: Engine, launched: Launched, rng: np.random.Generator) -> MixtureState:
    """Draw halves, find the log probability of those there are, and accept or refuse one set after another."""
    proposals, odds = launched
    halves = key(edit.model.seed, "halves of neighbours", edit.state.round)
    coins, log_u = rng.random(len(proposals)), np.log(rng.random(len(proposals)))
    old = halves_of(edit, engine, cuts_of(proposals, odds, halves), proposals)
    anew = [proposal._replace(anew=len(proposal.atoms) == 2) for proposal in proposals]
    again = [m for m, proposal in enumerate(anew) if proposal.anew and coins[m] >= JOINED]
    some = [anew[m] for m in again]
    new = halves_of(edit, engine, cuts_of(some, odds[again], halves), some) if again else old
    changed = False
    for m, proposal in enumerate(proposals):
        splits = len(proposal.atoms) == 1
        if m in again:
            log_ratio = new.log_odds(edit, again.index(m), 1) - old.log_odds(edit, m, 1)  # mutant: neighbours anew
        else:
            n_whole = len(edit.alive) - (0 if splits else 1)  # mutant: neighbours n whole
            log_ratio = old.log_odds(edit, m, n_whole) + math.log(JOINED)  # mutant: neighbours choice
            log_ratio = log_ratio if splits else -log_ratio  # mutant: neighbours sign
        if log_u[m] < log_ratio:
            changed = True
            if not splits:
                edit.merge(*proposal.atoms)
            if m in again:
                edit.split(proposal.atoms[0], m, new, again.index(m))
            elif splits:
                edit.split(proposal.atoms[0], m, old, m)
    return edit.apply(engine, cuts_of(anew, odds, halves), anew) if changed else edit.state
