"""The hybrid sampler of mixtures: a finite part instantiated, the rest collapsed (docs/sampler.md, "A round")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Message, Spread, alone
from unbounded.instantiation import Ghosts, Plan, Rule, classify
from unbounded.models.labelled.atoms import draw_parameters
from unbounded.models.labelled.shard import recode
from unbounded.models.mixtures import kernel
from unbounded.models.mixtures.measure import Hyper
from unbounded.models.mixtures.model import Broadcast, Mixture, MixtureState, Own
from unbounded.randomness import generator


@dataclass(frozen=True)
class HybridMixture(Mixture):
    """rule: which atoms are instantiated in a round, and which shards may create some."""

    rule: Rule = field(default_factory=Ghosts)

    @property
    def exact(self) -> bool:
        return self.rule.exact

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def global_step(self, state: MixtureState, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)  # mutant: rng result

        live = state.occupied
        counts = state.table.counts[live].astype(float)
        statistics = state.table.statistics[live]
        owner = state.table.owner[live]
        hyper = self.measure.update(state.hyper, counts, rng("hyper"))  # mutant: global step hyper
        plan = self.rule.plan(state.round, self.setup.n_rounds, self.n_rows, self.n_shards, rng("plan"))
        if plan.published:
            ghosts, extra = np.ones(len(live), np.int64), np.empty(0, np.int64)
        else:
            ghosts, extra = self.measure.ghosts(hyper, counts, plan.ghosts, rng("ghosts"))  # mutant: global step ghosts
        mobile, held, private = classify(ghosts, owner, plan)  # mutant: global step mobile
        shared = np.concatenate([mobile, held])
        n_mobile, n_shared = len(mobile) + len(extra), len(shared) + len(extra)

        usable = shared if plan.lone >= 0 else mobile
        weights, laws = self._weights(hyper, counts, ghosts, extra, usable, len(mobile), plan, rng("weights"))
        drawn = np.concatenate([shared, private]) if self.likelihood.imputes else usable
        parameters = draw_parameters(  # mutant: global step parameters
            self.likelihood, counts[drawn], statistics[drawn], len(extra), len(mobile), rng("parameters")
        )
        n_usable = len(usable) + len(extra)
        finite = self.finite({name: value[:n_usable] for name, value in parameters.items()}, weights)

        broadcast = Broadcast(
            state.round, finite, n_mobile, n_shared, laws,
            {name: value[:n_shared] for name, value in parameters.items()} if self.likelihood.imputes else None,
        )  # fmt: skip
        new_code = np.full(len(live), -1)
        new_code[mobile] = np.arange(len(mobile))
        new_code[held] = n_mobile + np.arange(len(held))
        own = []
        for p in range(self.n_shards):
            mine = private[owner[private] == p]
            code = new_code.copy()
            code[mine] = n_shared + np.arange(len(mine))
            parts = None
            if self.likelihood.imputes:
                where = n_shared + np.flatnonzero(owner[private] == p)
                parts = {name: value[where] for name, value in parameters.items()}
            is_open = bool(plan.open[p])
            n_own = n_shared if plan.lone == p else n_mobile  # mutant: global step n own
            own.append(Own(recode(state, live, code, p), n_own, len(mine), is_open, parts))
        return Message((broadcast, hyper), own)

    def _weights(
        self, hyper: Hyper, counts: Array, ghosts: Array, extra: Array, usable: Array, n_mobile: int, plan: Plan,
        rng: np.random.Generator,
    ) -> tuple[Array, Sequence[kernel.TailLaw]]:  # fmt: skip
        """Log weights of the usable atoms (mobile, ghost-only, stuck) and the law of a closed and an open tail."""
        closed = kernel.TailLaw(hyper.sigma, 0.0)
        if plan.published:
            weights, rest, total = self.measure.normalised(hyper, counts, rng)
            return weights, (closed, kernel.TailLaw(hyper.sigma, total, hyper.sigma, rest, total, 1.0))
        held = (counts + ghosts)[usable]  # mutant: weights held
        held = np.concatenate([held[:n_mobile], extra, held[n_mobile:]])
        weights = self.measure.log_weights(hyper, held, rng)
        birth = self.measure.birth(hyper, len(counts) + len(extra), rng)  # mutant: weights birth
        return weights, (closed, kernel.TailLaw(hyper.sigma, birth))  # mutant: weights result
