"""Planted mistakes: a test that no mistake can fail is not a test.

    python tests/exactness/mutants.py [part of a name ...]

Each mutant is one textual edit of a copy of the package. Fast checks (enumeration and joint tests) run on the copy in a
fresh process until one fails: then the mutant is killed. Without an edit all checks must pass. A mutant that crashes
counts as not killed: that would say nothing about the statistics.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src" / "unbounded"
LABELS, MIXTURE, MEASURE = "models/mixtures/kernel.py", "models/mixtures/model.py", "models/mixtures/measure.py"
RULES = "instantiation.py"
FEATURES, LINEAR, FACTORS = (
    "models/features/kernel.py",
    "models/features/linear_gaussian.py",
    "models/features/poisson_factors.py",
)
BUFFET, ROUND, JUMP = "models/features/measure.py", "models/features/model.py", "models/features/jump.py"
TABLES, TOKENS, PHI, WORDS = (
    "models/groups/direct.py",
    "models/groups/words/sweep.py",
    "models/groups/words/topics.py",
    "models/groups/words/counts.py",
)
TOPICS = "models/groups/words/likelihood.py"
ALIAS, FRANCHISE = "models/groups/words/alias.py", "models/groups/franchise.py"
GROUPS, GROUP_MEASURE = "models/groups/model.py", "models/groups/measure.py"
RIVALS, SLICE, PROCESSORS = (
    "models/mixtures/rivals/kernel.py",
    "models/mixtures/rivals/slice.py",
    "models/mixtures/rivals/auxiliary.py",
)
GOSSIP = "models/mixtures/rivals/asynchronous.py"
TAIL_WEIGHT = "columns[slot, r] + math.log(members[slot] - law.discount) + log_common"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    checks: str = "sharp shards collapsed"  # those to try first

    @property
    def compiled(self) -> bool:
        """Whether compiled code changes, so that it cannot come from the cache."""
        return self.file.startswith(("kernels/", "likelihoods/"))


MUTANTS = [
    # ---- the tail
    Mutant(
        "counts in the tail include the row itself", LABELS, TAIL_WEIGHT,
        TAIL_WEIGHT.replace("members[slot] -", "members[slot] + (1 if slot == old else 0) -"), "collapsed",
    ),
    Mutant(
        "statistics in the tail include the row itself", LABELS,
        "        update(families, tail, old, block, r, -1)\n        fresh[old] = 0\n",
        "        refresh(families, tail, old, block, r, size, columns, fresh)\n"
        "        update(families, tail, old, block, r, -1)\n", "collapsed",
    ),
    Mutant("stale columns of a joined atom", LABELS, "    fresh[chosen] = 0\n", "", "tail"),
    Mutant(
        "discount ignored for private atoms", LABELS, TAIL_WEIGHT, TAIL_WEIGHT.replace(" - law.discount", ""),
        "collapsed",
    ),
    Mutant(
        "bound on the tail too small by three nats", LABELS, "log_weight = math.log(weight) + SLACK",
        "log_weight = math.log(weight) - 3.0", "dp",
    ),
    Mutant(
        "bound on the tail not renewed after a change", LABELS,
        "_raise_changed(families, tail, members, law, block, r, left, joined, work)", "pass", "rows",
    ),
    # ---- who may move where
    Mutant(
        "every atom mobile (J = K) under ghosts", RULES, "is_mobile = ghosts > 0", "is_mobile = ghosts >= 0", "sharp",
    ),
    Mutant(
        "private atoms open to every shard", RULES, "is_mobile = ghosts > 0",
        "is_mobile = (ghosts > 0) | (owner >= 0)", "few",
    ),
    Mutant(
        "rows may leave frozen atoms", LABELS, "np.int32(work.choice[r]) if z < usable else z",
        "np.int32(work.choice[r]) if z < shared else z", "few",
    ),
    Mutant(
        "one open: closed shards use stuck atoms", MIXTURE, "n_own = n_shared if plan.lone == p else n_mobile",
        "n_own = n_shared if plan.lone >= 0 else n_mobile", "open",
    ),
    Mutant(
        "one open: closed shards keep private atoms", RULES,
        "(owner == plan.lone) if plan.lone >= 0 else (owner >= 0)", "(owner >= 0)", "open",
    ),
    Mutant(
        "number of ghosts chosen by looking at Z", MIXTURE, "self.measure.ghosts(hyper, counts, plan.ghosts, ",
        "self.measure.ghosts(hyper, counts, 1 + 40 * (len(counts) > 2), ", "sharp",
    ),
    # ---- ghosts, weights, births
    Mutant(
        "ghost-only atoms dropped", MIXTURE, "        mobile, held, private = classify(",
        "        extra = extra[:0]\n        mobile, held, private = classify(", "shards",
    ),
    Mutant(
        "ghosts drawn with one row too many", MEASURE, "np.append(counts - sigma, rest)",
        "np.append(counts + 1.0 - sigma, rest)", "many",
    ),
    Mutant(
        "ghost-only atoms seated with alpha alone", MEASURE, "int(drawn[-1])), rest, sigma",
        "int(drawn[-1])), alpha, sigma", "many",
    ),
    Mutant(
        "weights from rows without ghosts", MIXTURE, "held = (counts + ghosts)[usable]", "held = counts[usable]",
        "shards",
    ),
    Mutant(
        "weights without the discount", MEASURE, "log_gamma_draws(held - hyper.sigma", "log_gamma_draws(held", "few",
    ),
    Mutant(
        "Dirichlet rest mass shared by open shards", MIXTURE,
        "        return weights, (closed, kernel.TailLaw(hyper.sigma, birth))\n",
        "        rest = hyper.alpha + hyper.sigma * len(held)\n"
        "        mass = rng.standard_gamma(rest + counts.sum() - counts[usable].sum())\n"
        "        return weights, (closed, kernel.TailLaw(hyper.sigma, rest, hyper.sigma, mass, rest, 1.0))\n", "dp",
    ),
    Mutant(
        "half the rate of new atoms", MEASURE, "            return hyper.alpha\n",
        "            return 0.5 * hyper.alpha\n", "dp",
    ),
    Mutant("new atoms at rate V, not sigma V", MEASURE, "return hyper.sigma * float(", "return float(", "shards"),
    Mutant(
        "V drawn without K", MEASURE, "hyper.alpha / hyper.sigma + n_atoms", "hyper.alpha / hyper.sigma + 1", "shards",
    ),
    Mutant("V without ghost-only atoms", MIXTURE, "len(counts) + len(extra)", "len(counts)", "many shards"),
    # ---- parameters and hyper-parameters
    Mutant(
        "ghosts counted as data in parameters", MIXTURE, "self.likelihood, counts[drawn], ",
        "self.likelihood, counts[drawn] + ghosts[drawn], ", "shards",
    ),
    Mutant(
        "one row missing in the statistics", LABELS, "order[begin : ends[k]], sums[k]",
        "order[begin + (ends[k] - begin > 1) : ends[k]], sums[k]", "shards",
    ),
    Mutant(
        "concentration updated with ghosts as rows", MIXTURE, "self.measure.update(state.hyper, counts, ",
        "self.measure.update(state.hyper, 2 * counts, ", "joint sampled",
    ),
    Mutant(
        "concentration updated with one atom too many", MEASURE, "shape + old_tables.sum()",
        "shape + old_tables.sum() + 1", "joint sampled",
    ),
    Mutant("prior of the discount forgotten", MEASURE, " + prior.log_density(s) if inside", " if inside", "sampled"),
    Mutant(
        "imputed holes with half the noise", "likelihoods/gaussian_compiled.py", "pull[a] += normal(",
        "pull[a] += 0.5 * normal(", "hole",
    ),
    # ---- randomness
    Mutant(
        "the same numbers on every shard", MIXTURE, "shard.labels, shard.first, row,", "shard.labels, 0, row,", "dp",
    ),
    Mutant("labels and births share numbers", MIXTURE, '("label", "tail")', '("tail", "tail")', "rows"),
    Mutant(
        "every sweep of a round has the same numbers", MIXTURE, "key(self.seed, name, message.round, sweep)",
        "key(self.seed, name, message.round)", "tail",
    ),
    Mutant(
        "the same numbers in every global step", MIXTURE, "generator(self.seed, purpose, state.round)",
        "generator(self.seed, purpose, 0)", "few open",
    ),
    # ---- features: the tail
    Mutant(
        "features: counts in the tail include the row itself", FEATURES, "others = float(members[slot] - old)",
        "others = float(members[slot])", "buffet",
    ),
    Mutant(
        "features: an absent entry weighs too little", FEATURES, "members / (law.n - 1.0 - members + law.c)",
        "members / (law.n - 1.0 - members)", "buffet-2",
    ),
    Mutant(
        "features: new atoms at the rate alpha / n", BUFFET,
        "rate = hyper.alpha * hyper.c / (hyper.c + n - 1.0)", "rate = hyper.alpha / n", "buffet-2",
    ),
    Mutant(
        "features: new atoms always accepted", FEATURES, "if math.log(uniform(key, 0)) < ratio:", "if True:", "buffet",
    ),
    Mutant(
        "features: a row's own atoms never replaced", FEATURES, "if singles > 0 or born > 0:", "if born > 0:", "buffet",
    ),
    Mutant(
        "features: private columns in storage order", FEATURES,
        "work.slots[i], work.slots[j] = work.slots[j], work.slots[i]", "pass", "order",
    ),
    Mutant(
        "features: rows that may change are skipped", LINEAR, "(1.0 + math.exp(min(gain, 700.0))) >= 1.0:",
        "(1.0 + math.exp(min(gain, 700.0))) >= 2.0:", "buffet",
    ),
    Mutant(
        "features: rows and not ghosts in the tail", ROUND,
        "self.measure.law(hyper, everyone, open_=False), self.measure.law(hyper, everyone)",
        "self.measure.law(hyper, everyone, open_=False), self.measure.law(hyper, self.n_rows)", "ghosts",
    ),
    # ---- features: the finite part
    Mutant(
        "features: every atom mobile (J = K) under ghosts", ROUND, "classify(ghosts, owner, plan)",
        "classify(ghosts + 1, owner, plan)", "ghosts",
    ),
    Mutant(
        "features: ghost-only atoms dropped", ROUND, "mobile, held, private = classify(",
        "extra = extra[:0]\n            mobile, held, private = classify(", "ghosts",
    ),
    Mutant(
        "features: loadings drawn one by one", LINEAR, "precision = statistics.products / scales.noise + np.diag(",
        "precision = np.diag(np.diag(statistics.products)) / scales.noise + np.diag(", "ghosts",
    ),
    Mutant(
        "features: pairs as if their columns did not meet", FEATURES, "both = a + b - cross", "both = a + b", "ghosts",
    ),
    Mutant(
        "features: every sweep has the same numbers", FEATURES, "own = stream(entry_key, s)",
        "own = stream(entry_key, 0)", "sweeps",
    ),
    Mutant(
        "features: counts split without their loadings", FACTORS, "binomial(left, min(part / mass, 1.0),",
        "binomial(left, 0.5,", "factors",
    ),
    # ---- features: jumps
    Mutant(
        "features: jumps forget the coins", JUMP, "+ log_coins - log_forward", "- log_forward", "ghosts",
    ),
    Mutant(
        "features: jumps forget the order of atoms", JUMP, "log_ratio += math.log(size) + _log_set",
        "log_ratio += _log_set", "ghosts",
    ),
    # ---- hierarchical: rows, tables and dishes on a shard
    Mutant(
        "hierarchical: no row joins a table with a private dish", FRANCHISE,
        "weight = heads[t] * math.exp(columns[dish - shared, r] - best)", "weight = 0.0", "franchise",
    ),
    Mutant(
        "hierarchical: new dishes at alpha / P", FRANCHISE, "if slot < served.size else masses.alpha",
        "if slot < served.size else masses.share", "franchise",
    ),
    Mutant(
        "hierarchical: new atoms at alpha / P", TABLES, "log_beta += math.log(masses.alpha / masses.share)", "pass",
        "direct",
    ),
    Mutant(
        "hierarchical: new topics at alpha / P", TOKENS, " * masses.alpha / masses.share / n_words", " / n_words",
        "words",
    ),
    Mutant(
        "hierarchical: rows count themselves at mobile atoms", TABLES, "    counts[z] -= 1\n",
        "    counts[z] -= z >= shared\n", "direct",
    ),
    Mutant(
        "hierarchical: words count themselves at mobile topics", TOKENS,
        "            total -= itself\n", "", "words",
    ),
    Mutant(
        "hierarchical: private topics of the group overlooked", TOKENS, "(n_private > 0 or within[w] > 0)",
        "(within[w] > 0)", "words",
    ),
    Mutant(
        "hierarchical: private topics with the word overlooked", TOKENS, "(n_private > 0 or within[w] > 0)",
        "(n_private > 0)", "page",
    ),
    Mutant(
        "hierarchical: a dead private atom keeps its stick", TABLES,
        "sticks[slots] = log_sum(sticks[slots], sticks[old])", "pass", "direct",
    ),
    Mutant(
        "hierarchical: a dead private topic keeps its stick", TOKENS,
        "sticks[members.size] = log_sum(sticks[members.size], sticks[slot])", "pass", "words",
    ),
    Mutant(
        "hierarchical: new atoms leave the rest of the tail as it is", TABLES,
        "    sticks[sticks.size - 1] = rest + left\n", "", "direct",
    ),
    Mutant(
        "hierarchical: rows leave frozen atoms", TABLES,
        "            if usable <= z < shared:\n                continue\n", "", "direct",
    ),
    Mutant(
        "hierarchical: a table counts itself among its dish's", FRANCHISE,
        "            served[dish - shared] -= 1\n            _table_joins(", "            _table_joins(", "served",
    ),
    Mutant(
        "hierarchical: one table for each atom of a group", TABLES,
        "(j == 0) | (uniform(key, first + i) * (masses[k] + j) < masses[k])", "j == 0", "direct",
    ),
    Mutant(
        "hierarchical: tables of private atoms by their number", GROUPS,
        "np.append(shared.masses, shared.hyper.gamma * np.exp(sticks[alive]))",
        "np.append(shared.masses, np.full(len(alive), shared.hyper.gamma / max(len(alive), 1)))", "direct",
    ),
    # ---- hierarchical: words
    Mutant(
        "hierarchical: phi without the counts of one word", PHI, "words[start:stop], first + n_words)",
        "words[start:stop], first + n_words - 1)", "words",
    ),
    Mutant(
        "hierarchical: ghost-only topics have the words of the first", GROUPS, "np.full(len(extra), -1)",
        "np.zeros(len(extra), np.int64)", "crowd",
    ),
    Mutant(
        "hierarchical: words that two shards have are counted on one of them", WORDS,
        "(times[i] if a <= b else 0) + (more_times[j] if b <= a else 0)", "times[i] if a <= b else more_times[j]",
        "shared",
    ),
    Mutant(
        "hierarchical: held topics smooth no shard", TOKENS, "topics.smooth[:, side]", "topics.smooth[:, 0]",
        "lone",
    ),
    Mutant(
        "hierarchical: alias tables that never send on", ALIAS, "int(tables[row, k, 1]), (x", "k, (x", "tables",
    ),
    Mutant(
        "hierarchical: the first topic of the chunk that the alias table gives", TOKENS, "usable, u * parts[w, c])",
        "usable, 0.0)", "tables",
    ),
    Mutant(
        "hierarchical: log eta without its Jacobian", TOPICS, "+ prior.log_density(e) + log_eta",
        "+ prior.log_density(e)", "eta",
    ),
    # ---- hierarchical: the global step
    Mutant(
        "hierarchical: mobile weights sum to one", GROUPS, "hyper.gamma * np.exp(logs), sticks",
        "hyper.gamma * np.exp(logs - np.logaddexp.reduce(logs, initial=-np.inf)), sticks", "franchise",
    ),
    Mutant(
        "hierarchical: ghosts of rows, not of tables", GROUPS,
        "self.measure.ghosts(hyper, tables, plan.ghosts,",
        "self.measure.ghosts(hyper, counts.astype(float), plan.ghosts,", "crowd",
    ),
    Mutant(
        "hierarchical: ghosts chosen by looking at the tables", GROUPS,
        "self.measure.ghosts(hyper, tables, plan.ghosts,",
        "self.measure.ghosts(hyper, tables, 1 + 40 * int(tables.sum() > 3),", "words",
    ),
    Mutant(
        "hierarchical: rows join frozen atoms", GROUPS, "classify(ghosts, owner, plan)",
        "classify(ghosts + (owner < 0), owner, plan)", "words",
    ),
    Mutant(
        "hierarchical: every atom mobile (J = K) under ghosts", GROUPS, "classify(ghosts, owner, plan)",
        "classify(ghosts + 1, owner, plan)", "franchise",
    ),
    Mutant(
        "hierarchical: ghost-only atoms dropped", GROUPS, "        mobile, held, private = classify(",
        "        extra = extra[:0]\n        mobile, held, private = classify(", "words",
    ),
    Mutant(
        "hierarchical: weights without ghost tables", GROUPS, "tables += 0 if plan.published else ghosts",
        "tables += 0 * ghosts", "franchise",
    ),
    Mutant(
        "hierarchical: the tail's weight without its tables", GROUPS,
        "rest += np.bincount(owner, private, self.n_shards)[shards]", "pass", "franchise",
    ),
    Mutant(
        "hierarchical: closed shards use stuck atoms", GROUPS, "n_own = n_shared if plan.lone == p else n_mobile",
        "n_own = n_shared if plan.lone >= 0 else n_mobile", "lone",
    ),
    Mutant(
        "hierarchical: the same numbers on every shard", GROUPS, "shard.offsets, shard.first, row, shared.finite,",
        "shard.offsets, 0, row, shared.finite,", "words",
    ),
    Mutant(
        "hierarchical: gamma without one table of every group", GROUP_MEASURE, "float(tables.sum()), sizes",
        "float(tables.sum() - len(sizes)), sizes", "eta",
    ),
    Mutant(
        "hierarchical: gamma without its Jacobian", GROUP_MEASURE, " + 2.0 * math.log1p(g)", "", "eta",
    ),
    Mutant(
        "hierarchical: concentrations updated with rows", GROUPS, "self.measure.update(state.hyper, tables, ",
        "self.measure.update(state.hyper, counts.astype(float), ", "eta",
    ),
    # ---- rivals
    Mutant(
        "algorithm 8: a lone row's own atom is discarded", RIVALS, "weights[slots] = share + values[column[old], r]",
        "alone = False", "eight",
    ),
    Mutant(
        "algorithm 8: alpha for each auxiliary atom", RIVALS, "(law.birth + law.extra * atoms) / auxiliary)",
        "(law.birth + law.extra * atoms))", "eight",
    ),
    Mutant("algorithm 8: counts include the row itself", RIVALS, "        members[old] -= 1\n        alone = ",
        "        members[old] -= members[old] == 1\n        alone = ", "eight",
    ),
    Mutant(
        "slice: some atoms above the smallest slice are left out", SLICE, "len(live), lowest, rng)",
        "len(live), 30.0 * lowest, rng)", "slice",
    ),
    Mutant(
        "slice: labels drawn by weight once more", SLICE, "super().finite(parameters, np.zeros(len(log_weights)))",
        "super().finite(parameters, log_weights)", "slice",
    ),
    Mutant("slice: the rest without its atoms", SLICE, "birth(hyper, n_atoms, rng)", "birth(hyper, 0, rng)", "slice"),
    Mutant(
        "processors: alpha, not alpha / P", PROCESSORS, "TailLaw(sigma, alpha / self.n_shards, sigma)",
        "TailLaw(sigma, alpha, sigma)", "shares",
    ),
    Mutant(
        "processors: the urn ignores the discount", PROCESSORS, "weights[homes[k]] += hyper.sigma", "pass",
        "processors",
    ),
    Mutant(
        "processors: new clusters without the discount", PROCESSORS, "TailLaw(sigma, alpha / self.n_shards, sigma)",
        "TailLaw(sigma, alpha / self.n_shards)", "processors",
    ),
    # ---- rivals: gossip, of one shard
    Mutant(
        "asynchronous: a shard hears of itself and counts its rows twice", GOSSIP,
        "[version for q, version in enumerate(known[p]) if q != p] or [nothing]", "known[p]", "gossip",
    ),
    Mutant(
        "asynchronous: rows counted, their statistics not", GOSSIP,
        "tail = self.likelihood.pack(counts.astype(float), statistics, lanes)",
        "tail = self.likelihood.pack(counts.astype(float), 0.0 * statistics, lanes)", "gossip",
    ),
    Mutant(
        "asynchronous: atoms without the discount", GOSSIP, "kernel.TailLaw(hyper.sigma, hyper.alpha, hyper.sigma)",
        "kernel.TailLaw(0.0, hyper.alpha, hyper.sigma)", "gossip",
    ),
    Mutant(
        "asynchronous: weights of topics by rows, not by tables", GOSSIP, "np.append(tables, hyper.alpha)",
        "np.append(table.counts[live].astype(float), hyper.alpha)", "gossip-words",
    ),
    Mutant(
        "asynchronous: words count themselves among their topic's", TOKENS, "    tail.counts[slot, w] -= 1.0\n",
        "", "gossip-words",
    ),
]  # fmt: skip


# ---- in the fresh process


def battery() -> dict[str, Callable[[], Any]]:
    """Fast checks by name; together they use all that the mutants touch."""
    import enumeration
    import feature_problems
    import feature_truth
    import flat
    import franchise_geweke
    import franchise_problems
    import franchise_truth
    import geweke
    from enumeration import Run
    from feature_truth import FeatureRun
    from franchise_truth import GroupedRun
    from problems import problem

    from unbounded.instantiation import Ghosts, OneOpen
    from unbounded.models.groups.words import alias

    def cells(case: str, measure: str, run: Run) -> Callable[[], Any]:
        return lambda: enumeration.check(problem(case, measure), run)

    def columns(case: str, law: str, n: int, run: FeatureRun) -> Callable[[], Any]:
        return lambda: feature_truth.check(feature_problems.problem(case, law, n), run)

    def seats(case: str, measure: str, run: GroupedRun) -> Callable[[], Any]:
        return lambda: franchise_truth.check(franchise_problems.problem(case, measure), run)

    def tables() -> Any:
        with mock.patch.multiple(alias, FEW=0, WORTH=0):
            return seats("words", "crowded", GroupedRun("direct", Ghosts(100), 2, rounds=400))()

    return {
        "franchise": seats("bernoulli", "fixed", GroupedRun("franchise", Ghosts(1), 2, rounds=300)),
        "served": seats("bernoulli", "fixed", GroupedRun("franchise", Ghosts(0))),
        "direct": seats("bit", "fixed", GroupedRun("direct", Ghosts(1), 2, 3, rounds=160)),
        "words": seats("words", "fixed", GroupedRun("direct", Ghosts(2), 2)),
        "page": lambda: franchise_geweke.check(
            franchise_geweke.Joint("direct", "words", Ghosts(0), 1, replicates=60, rounds=100)
        ),  # with a document of one word
        "lone": seats("words", "fixed", GroupedRun("direct", OneOpen(3), 2, 3, rounds=160)),
        "crowd": seats("words", "fixed", GroupedRun("direct", Ghosts(50), 2, rounds=600)),
        "shared": seats("words", "fixed", GroupedRun("direct", Ghosts(8), 2, rounds=800)),
        "tables": tables,
        "eta": seats("words-eta", "sampled", GroupedRun("direct", Ghosts(), 2)),
        "buffet": columns("gaussian-3", "bb-1", 3, FeatureRun(Ghosts(0), jumps=False)),
        "buffet-2": columns("gaussian-3", "bb-2", 3, FeatureRun(Ghosts(0), jumps=False)),
        "order": columns("gaussian-holes", "bb-2", 3, FeatureRun(Ghosts(0), jumps=False, chains=400, rounds=400)),
        "ghosts": columns("sharp", "bb-1", 3, FeatureRun(Ghosts(), 2, rounds=100)),
        "sweeps": columns("gaussian-3", "bb-2", 3, FeatureRun(Ghosts(30), 2, 3, jumps=False, rounds=100)),
        "factors": columns("poisson", "bb-1", 3, FeatureRun(Ghosts(), 2)),
        "collapsed": cells("bernoulli", "py", Run(Ghosts(0))),
        "tail": cells("sharp", "dp", Run(Ghosts(0), 1, 2)),
        "sharp": cells("sharp", "py", Run(Ghosts())),
        "shards": cells("bernoulli", "py", Run(Ghosts(), 2)),
        "rows": lambda: flat.check(flat.Flat(1.0, 0.0, 100, Ghosts(20), rounds=150)),
        "twins": cells("twins", "py", Run(Ghosts())),
        "many": cells("flat", "py-high", Run(Ghosts(20), 5)),
        "few": cells("bernoulli", "py-high", Run(Ghosts(1), 2)),
        "dp": cells("bernoulli", "dp", Run(Ghosts(), 3)),
        "open": cells("bernoulli", "py", Run(OneOpen(2), 3)),
        "sampled": cells("bernoulli", "py-sampled", Run(Ghosts(), 2)),
        "joint": lambda: geweke.check(geweke.Joint("dp", "bernoulli", Ghosts(), 3), 8000),
        "hole": cells("gaussian-hole", "dp", Run(Ghosts(), 2)),
        "eight": cells("sharp", "py", Run(Ghosts(), sampler="algorithm8")),
        "slice": cells("bernoulli", "py", Run(Ghosts(), 2, sampler="slice")),
        "shares": cells("bernoulli", "dp", Run(Ghosts(), 3, sampler="auxiliary")),
        "processors": cells("bernoulli", "py-high", Run(Ghosts(), 3, sampler="auxiliary")),
        "gossip": cells("bernoulli", "py", Run(Ghosts(), sampler="asynchronous")),
        "gossip-words": seats("words", "fixed", GroupedRun("direct", Ghosts(), sampler="asynchronous")),
    }


def run_checks(first: list[str], to_the_end: bool, package: str) -> None:
    """Run checks, the named ones first; print one line of JSON for each, stop at the first failure."""
    import unbounded

    if Path(unbounded.__file__).parent != Path(package):
        raise SystemExit(f"the package comes from {unbounded.__file__}, not from {package}")
    checks = battery()
    for name in [*first, *(name for name in checks if name not in first)]:
        verdict = checks[name]()
        line = {"check": name, "failures": verdict.failures, "largest": verdict.largest, "rms": verdict.rms}
        print(json.dumps(line), flush=True)
        if not verdict.passed and not to_the_end:
            return


# ---- in the calling process


def edited(mutant: Mutant, source: Path = SOURCE) -> str:
    """The mutant's file after the edit; the old text must be there exactly once."""
    text = (source / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the text to replace occurs {text.count(mutant.old)} times in {mutant.file}.")
    return text.replace(mutant.old, mutant.new)


@dataclass(frozen=True)
class Outcome:
    verdict: str  # killed, survived, crashed, or stale: the text to replace is not there
    check: str
    largest: float
    rms: float
    seconds: float
    failures: str = ""
    tail: str = ""


def examine(package: Path, cache: Path, checks: str, to_the_end: bool = False) -> Outcome:
    """Run the checks on a copy of the package in a process of its own."""
    begin = time.perf_counter()
    environment = os.environ | {
        "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, str(HERE / "mutants.py"), "--package", str(package), *checks.split()]
    done = subprocess.run(
        command + ["--all"] * to_the_end, env=environment, capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    seconds = time.perf_counter() - begin
    if done.returncode:
        return Outcome("crashed", lines[-1]["check"] if lines else "-", 0.0, 0.0, seconds, tail=done.stderr[-600:])
    worst = max(lines, key=lambda line: (len(line["failures"]) > 0, line["largest"]))
    verdict = "killed" if worst["failures"] else "survived"
    return Outcome(verdict, worst["check"], worst["largest"], worst["rms"], seconds, " ".join(worst["failures"]))


def copy_package(package: Path) -> None:
    """A copy whose compiled code is taken from the cache even after an edit of what is not compiled: minutes less."""
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    compiled = package / "compiled" / "jit.py"
    compiled.write_text(compiled.read_text().replace("_SOURCES = _sources_digest()", '_SOURCES = "copy"'))


def hunt(chosen: list[Mutant], report: Callable[[str, Outcome], None]) -> list[tuple[str, Outcome]]:
    """The unmodified package first, which must survive everything, then every mutant."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        package, cache = Path(folder) / "src" / "unbounded", Path(folder) / "cache"
        copy_package(package)
        pristine = Path(folder) / "pristine"
        shutil.copytree(package, pristine)

        def record(name: str, outcome: Outcome) -> None:
            outcomes.append((name, outcome))
            report(name, outcome)

        record("(none)", examine(package, cache, "", to_the_end=True))
        for mutant in chosen:
            own = Path(folder) / "own" if mutant.compiled else cache
            try:
                (package / mutant.file).write_text(edited(mutant, pristine))
            except (ValueError, FileNotFoundError) as error:
                record(mutant.name, Outcome("stale", "-", 0.0, 0.0, 0.0, tail=str(error)))
                continue
            record(mutant.name, examine(package, own, mutant.checks))
            shutil.copy2(pristine / mutant.file, package / mutant.file)
            shutil.rmtree(Path(folder) / "own", ignore_errors=True)
    return outcomes


def show(name: str, outcome: Outcome) -> None:
    print(
        f"{name:48s} {outcome.verdict:9s} {outcome.check:10s} max |z| {outcome.largest:6.1f}  rms {outcome.rms:5.2f}  "
        f"{outcome.seconds:4.0f} s  {outcome.failures}",
        flush=True,
    )
    if outcome.tail:
        print(outcome.tail, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--package", help=argparse.SUPPRESS)
    parser.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.package:
        run_checks(options.words, options.all, options.package)
        return 0
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    outcomes = hunt(chosen, show)
    wrong = [name for name, outcome in outcomes if outcome.verdict != ("survived" if name == "(none)" else "killed")]
    print(f"{len(outcomes) - 1} mutants, {len(wrong)} not as they should be" + "".join(f"\n  {name}" for name in wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
