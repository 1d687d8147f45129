"""The hybrid sampler of features: a finite part instantiated, the rest collapsed (docs/features.md, "A round")."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unbounded.contracts import Engine, Message, Parallel, in_this_thread
from unbounded.instantiation import Ghosts, Rule, as_published, classify
from unbounded.models.features.jump import Jumps, jump
from unbounded.models.features.model import Features
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeatureRound, FeatureShare, FeatureState
from unbounded.randomness import generator


@dataclass(frozen=True)
class HybridFeatures(Features):
    """rule: which atoms are instantiated in a round, and which shards may create some."""

    rule: Rule = field(default_factory=Ghosts)
    jumps: Jumps | None = field(default_factory=Jumps)  # moves of whole columns

    @property
    def exact(self) -> bool:
        return self.rule.exact

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def jump(self, state: FeatureState, engine: Engine) -> FeatureState:
        """Moves of whole columns, where loadings can be integrated out (docs/features.md, "Jumps")."""
        if self.jumps is None or not self.exact or not self.likelihood.gram:
            return state
        return jump(self, state, engine, self.jumps)

    def global_step(self, state: FeatureState, parallel: Parallel = in_this_thread) -> Message:
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
            mobile, frozen, private = classify(as_published(members, owner, plan), owner, plan)
        else:
            ghosts, extra = self.measure.ghosts(hyper, members, self.n_rows, plan.ghosts, rng("ghosts"))
            mobile, frozen, private = classify(ghosts, owner, plan)  # mutant: global step mobile 2

        amounts = members + ghosts
        usable = frozen if plan.lone >= 0 else frozen[:0]
        weighed = np.concatenate([amounts[mobile], extra, amounts[usable]])
        weights = self.measure.log_weights(hyper, weighed, everyone, rng("weights"))
        new = self.likelihood.draw_prior(scales, len(extra), rng("new"))
        shared = np.concatenate([loadings[mobile], new, loadings[frozen], loadings[len(live) :]])
        n_mobile = len(mobile) + len(extra)
        sizes = (n_mobile,) if plan.lone < 0 else (n_mobile, n_mobile + len(usable))
        finite = [self.finite(Mobile(rng("order").permutation(size), weights), scales, shared) for size in sizes]
        # mutant: global step laws
        laws = self.measure.law(hyper, everyone, open_=False), self.measure.law(hyper, everyone)
        message = FeatureRound(state.round, finite, laws, scales, shared, hyper, self.keys(state.round))

        sources = np.concatenate([live[mobile], np.full(len(extra), -1), live[frozen], always])
        own = []
        for p, columns in enumerate(state.here(sources)):
            mine = private[owner[private] == p] if len(private) else private
            if len(mine):
                columns = np.append(columns, state.at(live[mine], p))
            own.append(FeatureShare(columns, plan.lone == p, bool(plan.open[p]), loadings[mine]))
        return Message(message, own)
