"""What samplers share that instantiate every occupied atom, for all shards: hyper-parameters, and the message."""

from __future__ import annotations

from unbounded.arrays import Array
from unbounded.contracts import Message
from unbounded.instantiation import by_code
from unbounded.models.labelled.labels import draw_parameters, numbered
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor, TailLaw
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator


def update_hyper(model: Mixture[PitmanYor], state: MixtureState) -> PartitionHyper:
    """Hyper-parameters given the partition: everything instantiated is drawn after them."""
    counts = state.table.counts[state.occupied].astype(float)
    return model.measure.update(state.hyper, counts, model.n_rows, generator(model.seed, "hyper", state.round))


def message(
    model: Mixture[PitmanYor], state: MixtureState, hyper: PartitionHyper, log_weights: Array, law: TailLaw
) -> Message:
    """Parameters of all occupied atoms and, where there are more weights, of empty ones behind them, from the prior."""
    live, n = state.occupied, len(log_weights)
    k = len(live)
    counts, statistics = state.table.counts[live].astype(float), state.table.statistics[live]
    rng = generator(model.seed, "parameters", state.round)
    parameters = draw_parameters(model.likelihood, counts, statistics, n - k, k, rng)
    imputed = parameters if model.likelihood.imputed.size else None
    none = None if imputed is None else {name: value[:0] for name, value in imputed.items()}
    shared = MixtureRound(state.round, hyper, model.finite(parameters, log_weights), n, imputed)
    own = [MixtureShare(by_code(state, numbered(state), p), n, 0, law, none) for p in range(model.n_shards)]
    return Message(shared, own)
