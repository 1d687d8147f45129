"""The hybrid sampler of features: a finite part instantiated, the rest collapsed (docs/features.md, "A round").

Jumps of whole atoms come first (docs/features.md, "Jumps"): an atom is absorbed by others, or emitted from them.
Row by row, Gibbs sampling cannot leave a state in which one atom stands for several (B = A_1 + A_2, used wherever one
of them is there) and others take away what is too much (-A_1, -A_2). A jump can: *absorb* takes B out and replaces the
column z_l of every atom l of a set S by z_B xor z_l. *Emit*, its reverse, draws a set S and a new column B, and does
the same. B is drawn by coins of unknown bias, one for each way in which a row may use the atoms of S, so that its
probability is known in closed form. With S empty, jumps are deaths and births.

Both are accepted by the Metropolis-Hastings rule with loadings and weights integrated out; atoms have a random order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.contracts import Engine, Message, Spread, Summary, alone
from unbounded.instantiation import Ghosts, Rule, classify
from unbounded.models.features.likelihood import FeatureStatistics
from unbounded.models.features.model import Features
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeaturePart, FeatureRound, FeatureShard, FeatureState
from unbounded.randomness import generator, key

JUMPING, JUMP_EVERY = 500, 4  # rounds with jumps each, and how often after them
MOST_JUMPS, JUMP_ROWS = 4, 200_000  # in a round, and the rows that all of them may read

LIKELY, UNLIKELY = 0.75, 0.03  # chance that an atom whose loadings say so, or do not, is in S
ALIKE, SAME = 0.3, 0.9  # cosines of loadings
KINDS = 5
PATTERN = 4  # atoms of S up to which every pattern of use has its own coin; beyond: none, some, all


@dataclass(frozen=True)
class HybridFeatures(Features):
    """rule: which atoms are instantiated in a round, and which shards may create some."""

    rule: Rule = field(default_factory=Ghosts)
    jumps: bool = True  # propose to absorb whole atoms into others

    @property
    def exact(self) -> bool:
        return self.rule.exact

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def jump(self, state: FeatureState, engine: Engine) -> FeatureState:
        """Absorb one atom into others, or the reverse: binary Z, loadings that integrate out (docs/features.md)."""
        due = state.round < JUMPING or state.round % JUMP_EVERY == 0
        if not (self.jumps and due and self.measure.binary and self.likelihood.gram):
            return state
        here = place(self, state)
        for turn in range(min(MOST_JUMPS, max(1, JUMP_ROWS // self.n_rows))):
            here = jump(self, here, engine, turn)
        return here.state

    def global_step(self, state: FeatureState, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live, always = state.occupied, state.always
        members = state.table.members[live].astype(float)
        owner = state.table.owner[live]
        hyper = self.measure.update(state.hyper, members, self.n_rows, rng("hyper"))
        loadings, scales = self.likelihood.draw(state.scales, self.everything(state), rng("parameters"))
        plan = self.rule.plan(state.round, self.setup.n_rounds, self.n_rows, self.n_shards, rng("plan"))
        everyone = self.n_rows + plan.ghosts
        if plan.published:
            ghosts, extra = np.zeros(len(live)), np.empty(0)
            mobile, held, private = np.arange(len(live)), live[:0], live[:0]
        else:
            ghosts, extra = self.measure.ghosts(hyper, members, self.n_rows, plan.ghosts, rng("ghosts"))
            mobile, held, private = classify(ghosts, owner, plan)  # mutant: global step mobile 2

        amounts = members + ghosts
        usable = held if plan.lone >= 0 else held[:0]
        weighed = np.concatenate([amounts[mobile], extra, amounts[usable]])
        weights = self.measure.log_weights(hyper, weighed, everyone, rng("weights"))
        new = self.likelihood.draw_prior(scales, len(extra), rng("new"))
        shared = np.concatenate([loadings[mobile], new, loadings[held], loadings[len(live) :]])
        n_mobile = len(mobile) + len(extra)
        sizes = (n_mobile,) if plan.lone < 0 else (n_mobile, n_mobile + len(usable))
        finite = [self.finite(Mobile(rng("order").permutation(size), weights), scales, shared) for size in sizes]
        # mutant: global step laws
        laws = self.measure.law(hyper, everyone, open_=False), self.measure.law(hyper, everyone)
        message = FeatureRound(state.round, finite, laws, scales, shared, hyper, self.keys(state.round))

        sources = np.concatenate([live[mobile], np.full(len(extra), -1), live[held], always])
        own = []
        for p in range(self.n_shards):
            mine = private[owner[private] == p] if len(private) else private
            columns = state.here(np.concatenate([sources, live[mine]]), p)
            own.append(FeaturePart(columns, plan.lone == p, bool(plan.open[p]), loadings[mine]))
        return Message(message, own)


# ---- jumps


class Proposal(NamedTuple):
    absorbed: int  # position among the occupied atoms, -1: emit
    chosen: Array  # positions of the atoms of S
    coins: Array  # chance of a row to use the new atom, for each way in which it may use those of S
    key: Any


class Place(NamedTuple):
    """Where a chain of jumps is, and its log density with loadings and weights integrated out."""

    state: FeatureState
    statistics: FeatureStatistics
    log_target: float


def place(model: Features, state: FeatureState) -> Place:
    statistics = model.everything(state)
    members = statistics.members[: len(statistics.members) - state.fixed].astype(float)
    prior = model.measure.log_prob(state.hyper, members, model.n_rows)
    return Place(state, statistics, prior + model.likelihood.log_joint(state.scales, statistics))


def jump(model: Features, here: Place, engine: Engine, turn: int) -> Place:
    """One proposal."""
    state = here.state
    rng = generator(model.seed, "jump", state.round, turn)
    size = len(state.occupied)
    kind = int(rng.integers(KINDS))
    absorb = bool(rng.random() < 0.5)
    if absorb and size == 0:
        return here
    if absorb:
        absorbed = int(rng.integers(size))
        inclusion = _inclusion(model, here, absorbed, kind)
        chosen = np.flatnonzero(rng.random(size) < inclusion)
        log_forward = _log_choice(inclusion, chosen, absorbed)
    else:
        absorbed = -1
        chosen = np.sort(rng.permutation(size)[: _set_size(size, rng)])
        log_forward = _log_set(len(chosen), size)
    proposal = Proposal(absorbed, chosen, rng.random(2**PATTERN), key(model.seed, "emit", state.round, turn))
    own = [state.sources(p) for p in range(model.n_shards)]
    gathered = engine.run(partial(_propose, model), Message(proposal, own))
    new_size = size - 1 if absorb else size + 1
    after = model.assemble(state.round, state.hyper, state.scales, gathered)
    if len(after.occupied) < new_size:  # an atom lost its last row
        return here
    there = place(model, after)
    log_ratio = there.log_target - here.log_target
    log_coins = _log_coins(gathered.shared["coins"])
    if absorb:
        # mutant: jump log ratio
        log_ratio += math.log(size) + _log_set(len(chosen), new_size) + log_coins - log_forward
    else:
        inclusion = _inclusion(model, there, size, kind)
        log_ratio += _log_choice(inclusion, chosen, size) - math.log(new_size) - log_forward - log_coins
    if math.log(rng.random()) >= log_ratio:
        return here
    engine.map(partial(_accept, model, proposal), own)
    return there


# ---- which atoms


def _inclusion(model: Features, here: Place, absorbed: int, kind: int) -> Array:
    """Chance of every atom to be in S, by its loadings: those that take away from B (kind 0), say a part of what B says
    (1), either (2), the same as B (3), or none in particular (4)."""
    loadings = model.likelihood.expected(here.state.scales, here.statistics)
    size = len(loadings) - here.state.fixed
    lengths = np.linalg.norm(loadings[:size], axis=1, keepdims=True)
    unit = loadings[:size] / np.where(lengths > 0.0, lengths, 1.0)
    cosines = unit @ unit[absorbed]
    low, high = ((-ALIKE, 2.0), (-2.0, ALIKE), (-ALIKE, ALIKE), (-2.0, SAME), (-2.0, 2.0))[kind]
    likely = (cosines < low) | (cosines > high)
    chance = np.where(likely, LIKELY, min(UNLIKELY, 0.5 / size))
    chance[absorbed] = 0.0
    return chance


def _log_choice(inclusion: Array, chosen: Array, absorbed: int) -> float:
    inside = np.zeros(len(inclusion), bool)
    inside[chosen] = True
    others = np.arange(len(inclusion)) != absorbed
    return float(np.log(np.where(inside, inclusion, 1.0 - inclusion)[others]).sum())


def _set_size(size: int, rng: np.random.Generator) -> int:
    return min(int(rng.geometric(0.5)) - 1, size)


def _log_set(count: int, size: int) -> float:
    """Log probability that `emit` chooses a given set of `count` among `size` atoms."""
    log_count = -(count + 1.0 if count < size else count) * math.log(2.0)
    return float(log_count - (gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)))


def _log_coins(counts: Array) -> float:
    """Log probability of the column B: coins with uniform bias; counts [coin, no or yes]."""
    return float(betaln(counts[:, 0] + 1.0, counts[:, 1] + 1.0).sum())


# ---- on a shard


def _propose(model: Features, shard: FeatureShard, proposal: Proposal, sources: Array) -> Summary:
    """Statistics of the shard's Z after the jump."""
    Z, coin, moved = _jumped(model, shard, proposal, sources)
    counts = np.bincount(2 * coin + moved, minlength=2 ** (PATTERN + 1)).reshape(-1, 2).astype(float)
    summary = model.kernel.of_candidate(shard, Z)
    return Summary({**summary.shared, "coins": counts}, summary.private)


def _accept(model: Features, proposal: Proposal, shard: FeatureShard, sources: Array) -> None:
    """Jump once more, for good: a candidate kept aside would be state that no checkpoint knows."""
    shard.Z, _, _ = _jumped(model, shard, proposal, sources)


def _jumped(model: Features, shard: FeatureShard, proposal: Proposal, sources: Array) -> tuple[Array, Array, Array]:
    """(Z after the jump, which coin decides for each row, column B)."""
    old = shard.columns(sources)
    if proposal.absorbed >= 0:
        moved = old[proposal.absorbed].copy()
        old[proposal.chosen] ^= moved
        coin = _coins(old[proposal.chosen])
        new = np.delete(old, proposal.absorbed, axis=0)
    else:
        coin = _coins(old[proposal.chosen])
        moved = np.empty(old.shape[1], old.dtype)
        _toss(coin, moved, proposal.coins, proposal.key, shard.first)
        old[proposal.chosen] ^= moved
        new = np.concatenate([old, moved[None]])
    return np.concatenate([new, np.ones((model.likelihood.fixed, len(moved)), new.dtype)]), coin, moved


def _coins(columns: Array) -> Array:
    """Which coin decides for a row."""
    if len(columns) <= PATTERN:
        return np.asarray((columns.astype(np.int64) << np.arange(len(columns))[:, None]).sum(axis=0))
    used = columns.sum(axis=0, dtype=np.int64)
    return np.asarray((used > 0).astype(np.int64) + (used == len(columns)))


@jit
def _toss(coin, moved, chances, key, first):
    for i in range(moved.size):
        moved[i] = uniform(key, first + i) < chances[coin[i]]
