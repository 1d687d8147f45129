"""The mutants: planted mistakes, each at a marked place of the sources (mutants.py).

A place is a statement with a comment `# mutant: name`, behind it or on the line above; of a compound statement, its
head. What stands there is replaced by the mutant's own text, which speaks of the names that the code has now.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    place: str
    new: str
    checks: str = "sharp shards collapsed"  # those to try first
    span: int = 1  # statements that are replaced


MUTANTS = [
    Mutant(
        "a point estimate without merges", "merges",
        "pass", "estimates",
    ),
    Mutant(
        "a point estimate without cuts", "cuts",
        "if False:", "estimates",
    ),
    Mutant(
        "the search forgets what merging costs", "size factor",
        "self.factors[0] = len(items.draws)", "estimates",
    ),
    Mutant(
        "rows apart cost what rows together do", "merge cost",
        "total = (2.0 - loss.merge_cost) * max(together, 0.0) + loss.merge_cost * max(apart, 0.0)", "estimates",
    ),
    Mutant(
        "a row is its own company", "company",
        "total += (either - both) / either", "estimates",
    ),
    Mutant(
        "R-hat of ranks alone", "spread of ranks",
        "return _r_hat(_normal(halves))", "trust",
    ),
    Mutant(
        "R-hat of whole chains", "halves",
        "halves = draws", "trust",
    ),
    Mutant(
        "autocorrelations without what chains disagree on", "total variance",
        "total = within", "trust",
    ),
    Mutant(
        "the best chain is the one behind", "best chain",
        "best = int(means.argmin())", "trust",
    ),
    Mutant(
        "log_joint without the priors of hyper-parameters", "log joint",
        "log_joint = self.measure.log_prob(state.hyper, counts, self.n_rows) "
        "+ self.likelihood.log_evidence(counts, statistics)",
        "tests/models/mixtures/test_mixtures.py::test_log_joint_is_the_joint_density",
    ),
    Mutant(
        "a run goes on without what nobody asks for any more", "other settings",
        "differs = [name for name in asked if saved.get(name) != asked.get(name) and name not in free]",
        "tests/chain/test_integrity.py::test_a_run_with_jumps_does_not_go_on_without",
    ),
    Mutant(
        "standard deviations divided by all rows, holes included", "column sd",
        "sd = unit * np.sqrt(square / X.shape[0])", "tests/sources/test_sources.py::test_holes_are_not_among_what_is_described",
    ),
    Mutant(
        "shares of new groups without gamma", "fold in shares",
        "shares[g, k] += counts[k] / (how.keep * rows)", "tests/models/groups/test_groups.py",
    ),
    Mutant(
        "gamma draws are never refused", "gamma accepted",
        "if v > 0.0:", "tests/compiled/test_jit.py",
    ),
    Mutant(
        "single precision that never falls back", "float32 safe",
        'safe = dtype == "float32"', "tests/models/mixtures/test_mixtures.py",
    ),
    Mutant(
        "single precision is judged at the centres of clusters", "float32 reach",
        "return np.abs(mean) + width",
        "tests/conformance/test_likelihoods.py::test_single_precision_loses_no_more_than_is_said_of_narrow_columns",
    ),
    Mutant(
        "whole draws are the first ones only", "snapshots",
        "return draw < self.n_snapshots", "kept",
    ),
    Mutant(
        "chains agree by draws that came later", "first draws",
        "return check(export.to_dataset(chains)).passed", "trust",
    ),
    Mutant(
        "a launch that looks at the current halves", "cut sets",
        "sets[proposal.atoms[0]] = m", "cuts",
    ),
    Mutant(
        "a launch that is given up where there are two clusters", "cut worth",
        "worth[now] = (gain > 0.0) | np.array([len(proposal.atoms) == 2 for proposal in some])", "narrow",
    ),
    Mutant(
        "two rows of one cluster leave it to later anchors", "cut taken",
        "taken[[a, b] if join else [a]] = not join or a != b", "urn",
    ),
    Mutant(
        "anchors counted in q", "choice anchor",
        "if row == cuts.anchors[m, k]:\n"
        "    out.log_q[m] += -math.log1p(math.exp(odds))", "seeds cuts",
    ),
    Mutant(
        "anchors that may leave", "choice anchor",
        "if row == cuts.anchors[m, k] and (cuts.soft or sides.side[code] >= 0):", "cuts",
    ),
    Mutant(
        "q of halves that are not the drawn ones", "choice log q",
        "out.log_q[m] += away", "cuts",
    ),
    Mutant(
        "cuts with K of the wrong state", "cut n whole",
        "n_whole = len(edit.alive)", "urn",
    ),
    Mutant(
        "the choice of the pair left out of a cut", "cut choice",
        "log_ratio += log_joined", "cuts",
    ),
    Mutant(
        "the choice between one and two clusters left out", "cut choice",
        "log_ratio += math.log(n_away / model.n_rows)", "cuts",
    ),
    Mutant(
        "the pair chosen among the other rows", "cut choice",
        "log_ratio += log_joined + math.log(n_away / (model.n_rows - halves.stay.counts[m]))", "cuts",
    ),
    Mutant(
        "cuts that are never undone", "cut decision",
        "if splits and log_u < log_ratio:", "cuts",
    ),
    Mutant(
        "a partner that is chosen among others than one's own", "near rank",
        "return np.argsort((pool.atoms[chosen, None] == pool.atoms) - 1e-9 * closeness, axis=1, kind='stable')"
        "[:, 0]", "near",
    ),
    Mutant(
        "a partner that may stay", "choice partner",
        "if row == cuts.partners[m] and (cuts.soft or sides.side[code] >= 0):", "near",
    ),
    Mutant(
        "a partner counted in q", "choice partner",
        "if row == cuts.partners[m]:\n"
        "    out.log_q[m] += -math.log1p(math.exp(-odds))", "near anew",
    ),
    Mutant(
        "neighbours joined as if nothing else were tried", "neighbours choice",
        "log_ratio = old.log_odds(edit, m, n_whole)", "near",
    ),
    Mutant(
        "neighbours with K of the wrong state", "neighbours n whole",
        "n_whole = len(edit.alive)", "neighbours",
    ),
    Mutant(
        "new halves that are as likely as the old ones", "neighbours anew",
        "log_ratio = new.log_odds(edit, again.index(m), 1) + float(new.found.log_q[again.index(m)])\n"
        "log_ratio -= old.log_odds(edit, m, 1) + float(old.found.log_q[m])", "anew",
    ),
    Mutant(
        "new halves without a look at the old ones", "neighbours anew",
        "log_ratio = new.log_odds(edit, again.index(m), 1)", "anew",
    ),
    Mutant(
        "neighbours that are never joined", "neighbours sign",
        "log_ratio = log_ratio if splits else -math.inf", "near",
    ),
    Mutant(
        "the coin's two orders counted once", "coin log coin",
        "return math.lgamma(m + 1) + math.lgamma(n + 1) - math.lgamma(m + n + 2)", "coins",
    ),
    Mutant(
        "the cluster to be cut chosen among those there will be", "coin choice",
        "return gain + log_prior + log_odds + math.log(n_whole + 1)", "coins",
    ),
    Mutant(
        "a fair coin", "coin log coin",
        "return -(m + n - 1) * math.log(2.0)", "coins",
    ),
    Mutant(
        "merges with K of the wrong state", "coin n whole",
        "n_whole = len(edit.alive) - 1 + (len(edit.alive) == 2)", "coins",
    ),
    Mutant(
        "the chance of the pair left out of a merge", "merge ratio",
        "log_ratio = -_log_ratio(edit, a, b, -gain, -attempt.log_cut) + log_split", "coins",
    ),
    Mutant(
        "the chance of a cut left out of a merge", "merge ratio",
        "log_ratio = -_log_ratio(edit, a, b, -gain, log_chance) + log_split", "coins",
    ),
    Mutant(
        "the chance of the pair left out of a coin's cut", "cut pair",
        "", "urns",
    ),
    Mutant(
        "seeds drawn from either half", "seeds of the smaller",
        "if attempt.seeds and attempt.u[2] < 0.5:", "seeds",
    ),
    Mutant(
        "the choice of the half with seeds left out", "seeds log order",
        "log_order = 0.0", "seeds",
    ),
    Mutant(
        "the choice of seeds left out", "seeds log split",
        "return -log_order", "seeds",
    ),
    Mutant(
        "seeds always drawn from all rows", "seeds log split",
        "return -_log_subsets(m + n, seeds) - log_order", "seeds",
    ),
    Mutant(
        "what seeds say of the halves left out of a merge", "merge seeds",
        "_by_seeds(pending, attempt, (a, b))", "seeds",
    ),
    Mutant(
        "what seeds say of the halves left out of a cut", "cut by seeds",
        "log_split += 0.0", "seeded",
    ),
    Mutant(
        "seeds that look at the current halves", "seeds rest",
        "other = edit.wholes([proposal._replace(atoms=atoms[1:] or atoms)])\n"
        "halves = first, other", "seeds",
    ),
    Mutant(
        "topics cut only where there are two", "jump due",
        "return jump(self, state, engine, self.jumps, turn) if len(state.occupied) > 1 else state", "sits",
    ),
    Mutant(
        "top weights without room for new topics", "sit weights",
        "logs, _ = model.measure.sticks(state.hyper.measure, table.tables.astype(float), rng)\n"
        "logs -= np.logaddexp.reduce(logs[:-1])", "sits",
    ),
    Mutant(
        "a seating with beta in the place of gamma beta", "sit masses",
        "masses = beta", "sits",
    ),
    Mutant(
        "tables as rows of a process with the concentration of groups", "jump alpha",
        "hyper = model.measure.top_hyper(state.hyper.measure)._replace(alpha=state.hyper.measure.gamma)\n"
        "private = np.zeros_like(state.n_private)", "sits",
    ),
    Mutant(
        "tables opened too seldom", "draw seats open",
        "aim = uniform(key, first + i) * (masses[k] + j + 1.0) - masses[k]", "sits",
    ),
    Mutant(
        "rows that always join the first table", "draw seats join",
        "at[i] = at[order[begin[k]]]", "sits-long",
    ),
    Mutant(
        "tables counted in the place of their rows", "together counts",
        "return self.rows.log_marginal(counts, statistics[:, :-1])", "sits-rows",
    ),
    Mutant(
        "jumps with eta as it was in the beginning", "of tables eta",
        "return WordsOfTables(self.likelihood.pseudo, self._frequent)", "sits-eta",
    ),
    Mutant(
        "the room for beta left out of cuts of tokens", "tokens beta",
        "return math.log(hyper.alpha)", "tokens",
    ),
    Mutant(
        "the chance of beta's cut counted twice", "tokens share",
        "log_ratio -= 2.0 * _log_density(share, shapes[:, 0], shapes[:, 1])", "tokens",
    ),
    Mutant(
        "the choice of the second topic left out of cuts of tokens", "tokens choice",
        "pass", "tokens",
    ),
    Mutant(
        "a launch of tokens that looks at the current halves", "tokens launch",
        "return TokenCuts(cut, side, np.full(len(ratio), -1), ratio, masses, sets.anchors, key)", "tokens",
    ),
    Mutant(
        "anchors counted in what tokens choose", "tokens anchor",
        "if False:", "tokens",
    ),
    Mutant(
        "documents left out of cuts of tokens", "tokens prior",
        "chance[m] *= (2.0 if prior > 0 else 1.0)", "tokens",
    ),
    Mutant(
        "private topics have all words alike", "weigh own",
        "own = eta", "base-tail",
    ),
    Mutant(
        "topics that are drawn have words alike that they lack", "draw alike",
        "_draw_alike(trials, trials.pseudo.mean(), w * atoms, (w + 1) * atoms, cells)", "base",
    ),
    Mutant(
        "tables of words opened too seldom", "base tables open",
        "opened += uniform(key, n) * (a + j + 1.0) < a", "base",
    ),
    Mutant(
        "the prior of the base forgotten", "base draw",
        "base = rng.standard_gamma(0.2 + tables)", "base",
    ),
    Mutant(
        "eta moved by the base's tables, one of them too many", "base eta",
        "evidence = partial(words.log_openings, tables.sum() + 1.0, counts.astype(float), self.n_terms)", "base",
    ),
    Mutant(
        "a fresh word that weighs as if its document had one more", "repeats new",
        "new = habit.after * everything / (finite.law.gamma + fresh + 1.0)", "repeats",
    ),
    Mutant(
        "a fresh word whose topics are not weighed against gamma", "repeats new",
        "new = habit.after * everything / max(fresh, 1)", "repeats",
    ),
    Mutant(
        "a word may repeat itself", "repeats aim",
        "aim = uniform(habit.key, habit.first + i) * (new + (last - first))", "repeats",
    ),
    Mutant(
        "all fresh words are repeated alike", "repeats again",
        "aim -= (last - first - 1) / max(1, np.count_nonzero(times[first:last]))", "repeats",
    ),
    Mutant(
        "how soon words repeat moved by groups of fresh words", "repeats after",
        "fresh = Seatings(counts.sum(), self._rows_now(state))", "repeats-hyper",
    ),
    Mutant(
        "gamma moved by all words, although some only repeat others", "rows now",
        "return self.sizes", "repeats-hyper",
    ),
    Mutant(
        "counts in the tail include the row itself", "move weights",
        "weights[slot] = columns[slot, r] + math.log(members[slot] + (1 if slot == old else 0) - law.discount) + log_common", "collapsed",
    ),
    Mutant(
        "statistics in the tail include the row itself", "move update",
        "refresh(specs, state, old, block, r, size, columns, fresh)\n"
        "update(specs, state, old, block, r, -1)", "collapsed", span=2,
    ),
    Mutant(
        "stale columns of a joined atom", "move fresh",
        "", "tail",
    ),
    Mutant(
        "discount ignored for private atoms", "move weights",
        "weights[slot] = columns[slot, r] + math.log(members[slot]) + log_common", "collapsed",
    ),
    Mutant(
        "bound on the tail too small by three nats", "raise cap log weight",
        "log_weight = math.log(weight) - 3.0", "dp",
    ),
    Mutant(
        "bound on the tail not renewed after a change", "sweep raise changed",
        "pass", "rows",
    ),
    Mutant(
        "every atom mobile (J = K) under ghosts", "classify is mobile",
        "is_mobile = ghosts >= 0", "sharp",
    ),
    Mutant(
        "private atoms open to every shard", "classify is mobile",
        "is_mobile = (ghosts > 0) | (owner >= 0)", "few",
    ),
    Mutant(
        "rows may leave frozen atoms", "sweep labels",
        "labels[start + r] = np.int32(work.choice[r]) if z < shared else z", "few",
    ),
    Mutant(
        "one open: closed shards use frozen atoms", "shares usable",
        "usable = roles.n_shared if plan.lone >= 0 else roles.n_mobile", "open",
    ),
    Mutant(
        "one open: closed shards keep private atoms", "classify is private",
        "is_private = ~is_mobile & ((owner >= 0))", "open",
    ),
    Mutant(
        "number of ghosts chosen by looking at Z", "roles ghosts",
        "ghosts, extra = self.measure.ghosts(hyper, counts, self.n_rows, 1 + 40 * (len(counts) > 2), rng)", "sharp",
    ),
    Mutant(
        "ghost-only atoms dropped", "roles mobile",
        "extra = extra[:0]\n"
        "mobile, frozen, private = classify(ghosts, owner, plan)", "shards",
    ),
    Mutant(
        "ghosts drawn with one row too many", "ghosts logs",
        "logs = log_gamma_draws(np.append(counts + 1.0 - sigma, rest), rng)", "many",
    ),
    Mutant(
        "labels of the prior that join atoms by size alone", "simulate size",
        "if True:",
        "tests/conformance/test_measures.py::test_labels_from_the_prior",
    ),
    Mutant(
        "ghost-only atoms seated with alpha alone", "ghosts result",
        "return drawn[:-1], _seat(rng.random(int(drawn[-1])), alpha, sigma)", "many",
    ),
    Mutant(
        "weights from rows without ghosts", "weights sizes",
        "sizes = counts[roles.usable]", "shards",
    ),
    Mutant(
        "weights without the discount", "log weights result",
        "return log_gamma_draws(sizes, rng)", "few",
    ),
    Mutant(
        "Dirichlet rest mass shared by open shards", "weights result",
        "rest = hyper.alpha + hyper.sigma * len(sizes)\n"
        "mass = rng.standard_gamma(rest + counts.sum() - counts[roles.usable].sum())\n"
        "return weights, [TailLaw(hyper.sigma, rest, hyper.sigma, mass, rest, 1.0)] * self.n_shards", "dp",
    ),
    Mutant(
        "half the rate of new atoms", "birth result",
        "return 0.5 * hyper.alpha", "dp",
    ),
    Mutant(
        "new atoms at rate V, not sigma V", "birth result 2",
        "return float(rng.standard_gamma(hyper.alpha / hyper.sigma + n_atoms))", "shards",
    ),
    Mutant(
        "V drawn without K", "birth result 2",
        "return hyper.sigma * float(rng.standard_gamma(hyper.alpha / hyper.sigma + 1))", "shards",
    ),
    Mutant(
        "V without ghost-only atoms", "weights law",
        "laws = self.measure.tails(hyper, roles.n_shared - roles.n_extra, n_private, plan.open, rng)",
        "many shards",
    ),
    Mutant(
        "ghosts counted as data in parameters", "global step parameters",
        "parameters = draw_parameters(\n"
        "    self.likelihood, counts[drawn] + ghosts.own[drawn], statistics[drawn], roles.n_extra,\n"
        "    len(roles.mobile), rng(\"parameters\"),\n"
        ")", "shards",
    ),
    Mutant(
        "one row missing in the statistics", "statistics accumulate",
        "accumulate(specs, data, order[begin + (ends[k] - begin > 1) : ends[k]], sums[k])", "shards",
    ),
    Mutant(
        "concentration updated with ghosts as rows", "global step hyper",
        "hyper = self.measure.update(state.hyper, counts, 2 * self.n_rows, rng(\"hyper\"))", "joint sampled",
    ),
    Mutant(
        "concentration updated with one atom too many", "update shape",
        "shape, rate = self.concentration.shape + old_tables.sum() + 1, self.concentration.rate - log_x", "joint sampled",
    ),
    Mutant(
        "prior of the discount forgotten", "log density result",
        "return self.log_prob(PartitionHyper(alpha, s), counts, n) if inside else -math.inf", "sampled",
    ),
    Mutant(
        "imputed holes with half the noise", "draw holes pull",
        "pull[a] += 0.5 * normal(key, (first + i) * d + hole[a])", "hole",
    ),
    Mutant(
        "the same numbers on every shard", "sweep rows",
        "rows = LabelRows(shard.data, shard.labels, 0)", "dp",
    ),
    Mutant(
        "labels and births share numbers", "sweep keys",
        "return SweepKeys(*(key(self.seed, name, round_, sweep) for name in (\"tail\", \"tail\")))", "rows",
    ),
    Mutant(
        "every sweep of a round has the same numbers", "sweep keys",
        "return SweepKeys(*(key(self.seed, name, round_) for name in (\"label\", \"tail\")))", "tail",
    ),
    Mutant(
        "the same numbers in every global step", "rng result",
        "return generator(self.seed, purpose, 0)", "few open",
    ),
    Mutant(
        "features: counts in the tail include the row itself", "visit others",
        "others = float(members[slot])", "buffet",
    ),
    Mutant(
        "features: an absent entry weighs too little", "bernoulli ratio result",
        "return math.exp(min(weight, 700.0)) if others < 0.0 else others / (law.n - 1.0 - others)", "buffet-2",
    ),
    Mutant(
        "features: new atoms at the rate alpha / n", "law rate",
        "rate = hyper.alpha / n", "buffet-2",
    ),
    Mutant(
        "features: new atoms always accepted", "replace singles condition",
        "if True:", "buffet",
    ),
    Mutant(
        "features: a row's own atoms never replaced", "visit condition",
        "if draws.born[r] > 0:", "buffet",
    ),
    Mutant(
        "features: private columns in storage order", "visit order[i]",
        "pass", "order",
    ),
    Mutant(
        "features: rows that may change are skipped", "seek condition",
        "if uniform(own, entry_number(k)) * (1.0 + math.exp(min(gain, 700.0))) >= 2.0:", "buffet",
    ),
    Mutant(
        "features: rows and not ghosts in the tail", "global step laws",
        "laws = self.measure.law(hyper, everyone, open_=False), self.measure.law(hyper, self.n_rows)", "ghosts",
    ),
    Mutant(
        "features: every atom mobile (J = K) under ghosts", "global step mobile 2",
        "mobile, frozen, private = classify(ghosts + 1, owner, plan)", "ghosts",
    ),
    Mutant(
        "features: ghost-only atoms dropped", "global step mobile 2",
        "extra = extra[:0]\n"
        "mobile, frozen, private = classify(ghosts, owner, plan)", "ghosts",
    ),
    Mutant(
        "features: loadings drawn one by one", "draw precision",
        "precision = np.diag(np.diag(statistics.products)) / scales.noise + np.diag(self._precision(scales, size))", "ghosts",
    ),
    Mutant(
        "features: pairs as if their columns did not meet", "draw pair both",
        "both = a + b", "ghosts",
    ),
    Mutant(
        "features: every sweep has the same numbers", "sweep own",
        "sweep_key = stream(keys.entry, 0)", "sweeps",
    ),
    Mutant(
        "features: counts split without their loadings", "collect taken",
        "taken = binomial(left, 0.5, stream(own, k))", "factors",
    ),
    Mutant(
        "features: folds forget the coins", "fold log ratio",
        "log_ratio += math.log(size) + _log_set(len(chosen), new_size) - log_forward - LOG_FOLDS", "folds",
    ),
    Mutant(
        "features: folds forget the order of atoms", "fold log ratio",
        "log_ratio += _log_set(len(chosen), new_size) + log_coins - log_forward - LOG_FOLDS", "folds",
    ),
    Mutant(
        "features: jumps forget how probable the old entries were", "jump entries",
        'log_ratio -= float(found["log_q"][1])', "deaths",
    ),
    Mutant(
        "features: jumps forget what was drawn of the columns that go", "jump draws",
        "log_ratio += _log_draws(there, back)", "deaths",
    ),
    Mutant(
        "features: jumps as if both directions were as likely", "jump ahead",
        "pass", "deaths",
    ),
    Mutant(
        "features: the pool decides twice", "jump decision",
        "if not math.log(rng.random()) < log_ratio:",
        "tests/exactness/test_feature_jumps.py::test_the_second_stage_corrects_the_first",
    ),
    Mutant(
        "features: the pool decides twice on folds", "fold decision",
        "if math.log(rng.random()) >= log_ratio:",
        "tests/exactness/test_feature_jumps.py::test_the_second_stage_corrects_the_first",
    ),
    Mutant(
        "features: any atom as likely to die", "death choice",
        "return value - math.log(here.size)", "choices",
    ),
    Mutant(
        "features: one size of proposed loadings counted for all", "any spread",
        "return float(logsumexp(each, axis=1).sum())", "deaths",
    ),
    Mutant(
        "features: sets that emit an atom are never all there are", "emission set",
        "value += math.log(1.0 / MOST)", "absorptions",
    ),
    Mutant(
        "features: the signs of a set that absorbs stay", "absorption sign",
        "loadings = change.old.loadings[1:]", "absorptions",
    ),
    Mutant(
        "features: columns in one order only, of those that fit the pool", "discovery order",
        "return value - _log_choices(here.size, k)", "choices",
    ),
    Mutant(
        "features: all sizes of discoveries, however few columns there are", "discovery sizes", "value = 0.0", "sizes",
    ),
    Mutant(
        "features: any columns as likely to be replaced together", "similar choice",
        "value += math.log(1.0 / np.count_nonzero(weight))", "choices",
    ),
    Mutant(
        "features: any column as likely to be replaced", "common choice",
        "weight, value = _in_line(here, chosen[0]), -math.log(here.size)", "choices",
    ),
    Mutant(
        "features: every column is flipped", "flip decision",
        "if other is not None:", "turns",
    ),
    Mutant(
        "features: columns of ones are born whatever they say", "ones more",
        "log_ratio = 0.0", "turns",
    ),
    Mutant(
        "features: flips without the factors of counts", "flip entries",
        "entries = here.entries", "flips",
    ),
    Mutant(
        "features: flips as if as many rows had the column", "flip members",
        "members[k] = m", "flips",
    ),
    Mutant(
        "features: an intercept around zero, whatever its level", "intercept level",
        "return -self.centre, scales.base", "level",
    ),
    Mutant(
        "features: the scale of loadings counts the intercept", "free loadings",
        "free = A", "level",
    ),
    Mutant(
        "features: loadings grow, and their volume does not", "multiple volume",
        "return 0.0", "multiples",
    ),
    Mutant(
        "features: a shard finds the private atoms of the one before", "shards renew",
        "pass", "tests/models/features/test_shards_together.py",
    ),
    Mutant(
        "features: a shard finds the members of the one before", "shards members",
        "for slot in range(0):", "tests/models/features/test_shards_together.py",
    ),
    Mutant(
        "features: of several shards, the first alone is swept", "shards row",
        "pass", "tests/models/features/test_shards_together.py",
    ),
    Mutant(
        "features: sums are lost where slots run out", "shards sums",
        "for new, done in ():", "tests/models/features/test_shards_together.py",
    ),
    Mutant(
        "features: rows are added up in single precision", "sums in double",
        "X[r, j] = np.float32(data[start + r, j] - spec.centre[j])",
        "tests/models/features/test_shards_together.py",
    ),
    Mutant(
        "features: compiled jumps overlook the columns that stay", "pass pull",
        "linear[c, r] -= 0.0", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: compiled jumps read counts as bits", "pass pattern",
        "pattern = pattern * 2 + z", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: compiled jumps do not count how much larger an entry was", "pass old beyond",
        "pass", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: compiled jumps do not count how much larger an entry gets", "pass new beyond",
        "pass", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: jumps do not count how much larger an entry was", "launch old beyond",
        "pass", "beyond",
    ),
    Mutant(
        "features: jumps do not count how much larger an entry gets", "launch new beyond",
        "pass", "beyond",
    ),
    Mutant(
        "features: compiled jumps have the same numbers on every shard", "pass numbers",
        "aim, running, chosen = uniform(key, start + begin + r) * total[r], 0.0, 0", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: compiled jumps count the last pattern only", "pass log q",
        "found.log_q[1] = values[chosen, r] - top[r] - lane_log(total[r])", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: compiled jumps without the intercept", "pass always",
        "others[j, r] = 0.0", "tests/models/features/test_passes.py",
    ),
    Mutant(
        "features: jumps without the factors of counts", "jump counts",
        "entries = state.table.entries", "multiples",
    ),
    Mutant(
        "hierarchical: no row joins a table with a private dish", "at table weight",
        "weight = 0.0", "franchise",
    ),
    Mutant(
        "hierarchical: new dishes at alpha / P", "dish weights mass",
        "mass = law.urn.share", "franchise",
    ),
    Mutant(
        "hierarchical: new atoms at alpha / P", "move log beta",
        "pass", "direct",
    ),
    Mutant(
        "hierarchical: new topics at alpha / P", "birth result 3",
        "return math.exp(law.log_gamma + sticks[sticks.size - 1]) / n_words", "words",
    ),
    Mutant(
        "hierarchical: rows count themselves at mobile atoms", "move counts",
        "work.counts[z] -= z >= shared", "direct",
    ),
    Mutant(
        "hierarchical: what private topics weigh is as it was before a word left one", "flat left",
        "alive, n_private, birth = near.alive[0], near.alive[1], near.unseen[0]", "tests/conformance/test_group_kernels.py",
    ),
    Mutant(
        "hierarchical: words count themselves at mobile topics", "sweep total",
        "", "words",
    ),
    Mutant(
        "hierarchical: private topics of the group overlooked", "sweep near",
        "if near.alive[0] > 0 and near.within[w] > 0:", "words",
    ),
    Mutant(
        "hierarchical: private topics with the word overlooked", "sweep near",
        "if near.alive[0] > 0 and near.alive[1] > 0:", "page",
    ),
    Mutant(
        "hierarchical: a dead private atom keeps its stick", "move sticks",
        "pass", "direct",
    ),
    Mutant(
        "hierarchical: a dead private topic keeps its stick", "leave sticks",
        "pass", "words",
    ),
    Mutant(
        "hierarchical: new dishes as if a tail had no others", "birth mass",
        "return urn.birth", "tests/conformance/test_another_group_measure.py",
    ),
    Mutant(
        "hierarchical: sticks of a finite process broken as those of a Dirichlet process", "left of a tail",
        "if True:", "tests/conformance/test_another_group_measure.py",
    ),
    Mutant(
        "hierarchical: cuts of tokens as if each were alone", "tokens counted",
        "pass", "tests/conformance/test_another_group_measure.py",
    ),
    Mutant(
        "hierarchical: new atoms leave the rest of the tail as it is", "break stick sticks",
        "", "direct",
    ),
    Mutant(
        "hierarchical: rows leave frozen atoms", "assign condition",
        "if False:", "direct",
    ),
    Mutant(
        "hierarchical: a table counts itself among its dish's", "change dishes served",
        "_table_joins(specs, seating, group.end, i, tail, dish - shared, -1, work.single)", "served", span=2,
    ),
    Mutant(
        "hierarchical: one table for each atom of a group", "draw tables tables",
        "tables[k] += j == 0", "direct",
    ),
    Mutant(
        "hierarchical: tables of private atoms by their number", "assign masses",
        "masses = np.append(part.law.masses, np.full(len(alive), part.law.gamma / max(len(alive), 1)))", "direct",
    ),
    Mutant(
        "hierarchical: phi without the counts of one word", "draw end",
        "end[k] = _find(words, start, stop, last - 1)", "words",
    ),
    Mutant(
        "hierarchical: ghost-only topics have the words of the first", "global step usable",
        "usable = np.concatenate([roles.mobile, 0 * none, roles.frozen if roles.lone else roles.frozen[:0]])", "crowd",
    ),
    Mutant(
        "hierarchical: words that two shards have are counted on one of them", "merge new times",
        "new_times[n] = times[i] if a <= b else more_times[j]", "shared",
    ),
    Mutant(
        "hierarchical: frozen topics smooth no shard", "sweep sums",
        "sums = np.column_stack([topics.smooth[:, 0], words.base])", "lone",
    ),
    Mutant(
        "hierarchical: alias tables that never send on", "draw result",
        "return k, (x - chance) / (1.0 - chance)", "tables",
    ),
    Mutant(
        "hierarchical: the first topic of the chunk that the alias table gives", "sweep z",
        "return _within(phi[w], masses, c * CHUNK, usable, 0.0)", "tables",
    ),
    Mutant(
        "hierarchical: log eta without its Jacobian", "log density result 2",
        "return log_evidence(e) + prior.log_density(e)", "eta",
    ),
    Mutant(
        "hierarchical: mobile weights sum to one", "weights result 2",
        "return TopWeights(hyper.gamma * np.exp(logs - np.logaddexp.reduce(logs, initial=-np.inf)), urns, sticks)", "franchise",
    ),
    Mutant(
        "hierarchical: ghosts of rows, not of tables", "global step ghosts 2",
        "ghosts, extra = self.measure.ghosts(hyper.measure, table.counts[live].astype(float), self.sizes, plan.ghosts, seed.rng(\"ghosts\"))", "crowd",
    ),
    Mutant(
        "hierarchical: ghosts chosen by looking at the tables", "global step ghosts 2",
        "ghosts, extra = self.measure.ghosts(hyper.measure, tables, self.sizes, 1 + 40 * int(tables.sum() > 3), seed.rng(\"ghosts\"))", "words",
    ),
    Mutant(
        "hierarchical: rows join frozen atoms", "global step mobile 3",
        "mobile, frozen, private = classify(ghosts + (owner < 0), owner, plan)", "words",
    ),
    Mutant(
        "hierarchical: every atom mobile (J = K) under ghosts", "global step mobile 3",
        "mobile, frozen, private = classify(ghosts + 1, owner, plan)", "franchise",
    ),
    Mutant(
        "hierarchical: ghost-only atoms dropped", "global step mobile 3",
        "extra = extra[:0]\n"
        "mobile, frozen, private = classify(ghosts, owner, plan)", "words",
    ),
    Mutant(
        "hierarchical: weights without ghost tables", "global step tables",
        "tables += 0 * ghosts", "franchise",
    ),
    Mutant(
        "own likelihoods: counts include the row itself", "own counts",
        "counts[old] -= counts[old] == 1", "tests/models/mixtures/test_own.py",
    ),
    Mutant(
        "own likelihoods: a lone row's own atom is discarded", "own lone",
        "pass", "tests/models/mixtures/test_own.py",
    ),
    Mutant(
        "own likelihoods: alpha for each auxiliary atom", "own share",
        "share = math.log(urn[-1])", "tests/models/mixtures/test_own.py",
    ),
    Mutant(
        "own likelihoods: parameters that never go down", "own slice level",
        "level = log_density(x) - 1e-9", "tests/models/mixtures/test_own.py",
    ),
    Mutant(
        "as published: the tail's mass without its rows", "published rest",
        "logs = log_gamma_draws(np.append(counts - hyper.sigma, new), rng)", "tests/conformance/test_rules.py",
    ),
    Mutant(
        "as published: atoms of closed shards are collapsed", "published elsewhere",
        "return np.asarray(chosen)", "tests/conformance/test_rules.py",
    ),
    Mutant(
        "hierarchical: the tail's weight without its tables", "weights rest",
        "pass", "franchise",
    ),
    Mutant(
        "hierarchical: closed shards use stuck atoms", "global step n own 2",
        "usable = roles.n_shared if plan.lone >= 0 else roles.n_mobile", "lone",
    ),
    Mutant(
        "hierarchical: the same numbers on every shard", "sweeps first",
        "first, (now, finite) = 0, tail", "words",
    ),
    Mutant(
        "hierarchical: gamma without one table of every group", "update gamma",
        "gamma = move_concentration(self.group_concentration, gamma, Seatings(counts.sum() - (extent > 0).sum(), extent), rng)", "eta",
    ),
    Mutant(
        "hierarchical: gamma without its Jacobian", "log density result 3",
        "return prior.log_density(g) + tables + groups", "eta",
    ),
    Mutant(
        "hierarchical: concentrations updated with rows", "global step hyper 2",
        "own = self.measure.update(state.hyper.measure, state.table.counts[state.occupied].astype(float), self.sizes, seed.rng(\"hyper\"))", "eta",
    ),
    Mutant(
        "algorithm 8: a lone row's own atom is discarded", "pick weights",
        "alone = False", "eight",
    ),
    Mutant(
        "algorithm 8: alpha for each auxiliary atom", "pick share",
        "share = math.log((law.birth + law.extra * atoms))", "eight",
    ),
    Mutant(
        "algorithm 8: counts include the row itself", "pick members",
        "members[old] -= members[old] == 1\n"
        "alone = members[old] == 0", "eight", span=2,
    ),
    Mutant(
        "slice: some atoms above the smallest slice are left out", "jump rest",
        "rest = self.measure.rest_weights(hyper, len(live), 30.0 * lowest, rng)", "slice",
    ),
    Mutant(
        "slice: labels drawn by weight once more", "finite result",
        "return self.labels.finite(parameters, log_weights), np.exp(log_weights)", "slice",
    ),
    Mutant(
        "slice: the rest without its atoms", "rest weights c",
        "c = self.birth(hyper, 0, rng) / math.gamma(1.0 - sigma)", "slice",
    ),
    Mutant(
        "processors: alpha, not alpha / P", "global step law",
        "law = self.measure.collapsed_tail(state.hyper)", "shares",
    ),
    Mutant(
        "processors: the urn ignores the discount", "deal weights",
        "pass", "processors",
    ),
    Mutant(
        "processors: new clusters without the discount", "global step law",
        "law = self.measure.collapsed_tail(state.hyper, self.n_shards)._replace(extra=0.0)", "processors",
    ),
    Mutant(
        "asynchronous: a shard hears of itself and counts its rows twice", "of others result",
        "return summed(known[p])", "gossip",
    ),
    Mutant(
        "asynchronous: rows counted, their statistics not", "tail state",
        "state = self.likelihood.pack(counts.astype(float), 0.0 * statistics, len(work.top))", "gossip",
    ),
    Mutant(
        "asynchronous: atoms without the discount", "sweeps law",
        "law = self.measure.collapsed_tail(hyper)._replace(discount=0.0)", "gossip",
    ),
    Mutant(
        "asynchronous: weights of topics by rows, not by tables", "global step logs",
        "logs, urn = self.measure.sticks(hyper.measure, table.counts[live].astype(float), seed.rng(\"weights\"))", "gossip-words",
    ),
    Mutant(
        "asynchronous: words count themselves among their topic's", "leave slot, w]",
        "", "gossip-words",
    ),
    Mutant(
        "GPU: rows leave private atoms that have more rows", "device free rows",
        "free = (z < atoms.usable) | (slot >= 0)", "kernels",
    ),
    Mutant(
        "GPU: cuts are as likely as all rows staying", "device log q",
        "own = stay", "kernels",
    ),
    Mutant(
        "GPU: open rows are chosen by their labels", "device open rows",
        "is_open = ((marks & pick.OPEN) > 0) | (labels >= part.n_shared)", "bulk",
    ),
    Mutant(
        "GPU: rows make atoms twice as often in bulk", "device births",
        "log_birth = math.log(2.0 * part.law.birth) if part.law.birth > 0.0 else -math.inf", "bulk bulk-twins",
    ),
    Mutant(
        "GPU: two rows of an atom may leave it at once", "device lone rows",
        "lone = tail.members <= 2", "bulk bulk-twins",
    ),
    Mutant(
        "GPU: births get the slots of atoms that are there", "device slots of births",
        "labels[born] = part.n_shared + np.arange(born.sum())", "bulk bulk-twins",
    ),
    Mutant(
        "GPU: two features of a row are drawn as if they did not overlap", "device pair",
        "both = a + b", "tests/gpu/test_gpu_features.py::test_the_chain_is_that_of_the_cpu",
    ),
    Mutant(
        "GPU: births are never reported", "device births heard",
        "if False:", "tests/gpu/test_gpu_features.py::test_the_chain_is_that_of_the_cpu",
    ),
    Mutant(
        "GPU: shards with births keep what the device drew", "device host shards",
        "hosts = np.flatnonzero(away).tolist()", "tests/gpu/test_gpu_features.py::test_the_chain_is_that_of_the_cpu",
    ),
    Mutant(
        "GPU: sums without their last digits", "device digits",
        "total = (b.to(tl.float64) / DIGIT + a.to(tl.float64)) * unit[:, None]",
        "tests/gpu/test_gpu_features.py::test_sums_are_exact_in_any_order",
    ),
    Mutant(
        "GPU: the last pattern of a launch is never drawn", "device pattern",
        "takes = (drawn < 0) & ((below >= u) | (j == n_patterns - 2))",
        "tests/gpu/test_gpu_features.py::test_launches_are_those_of_the_cpu",
    ),
    Mutant(
        "GPU: folds count the coins of before", "device coins",
        "coin = coin + 0", "tests/gpu/test_gpu_features.py::test_folds_are_those_of_the_cpu",
    ),
    Mutant(
        "lines behind the checkpoint stay", "rewind cut",
        "pass",
        "tests/chain/test_resume.py::test_a_crash_and_resume",
    ),
    Mutant(
        "the checkpoint does not know the trace", "checkpoint appended",
        "appended = {name: [0, file.digest.hexdigest()] for name, file in self._appended.items()}",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "checksums that nobody compares", "checksum",
        "if False:",
        "tests/chain/test_store.py::test_a_flipped_byte_is_noticed",
    ),
    Mutant(
        "a checkpoint of any run will do", "own checkpoint",
        "if False:",
        "tests/chain/test_store.py::test_a_checkpoint_of_another_run_is_refused",
    ),
    Mutant(
        "whole draws are removed before a checkpoint does without them", "dropped later",
        "(self.path / name).unlink(missing_ok=True)",
        "tests/chain/test_resume.py::test_the_power_fails_while_snapshots_are_dropped",
    ),
    Mutant(
        "whole draws of another run are taken for this one's", "stray draws",
        "if False:",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "whole draws may be any that are whole", "whole digests",
        "if False:",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "the last round of the warm-up is a draw", "draw at",
        "return after if rest == 0 and after >= 0 else None",
        "tests/chain/test_resume.py::test_a_run_that_was_extended_is_that_of_its_length tests/models/mixtures/test_mixtures.py::test_draws_warm_up_and_thinning",
    ),
    Mutant(
        "a resumed chain forgets its whole draws", "resumed snapshots",
        "chain.snapshots = {}",
        "tests/chain/test_resume.py::test_ctrl_c_and_resume",
    ),
    Mutant(
        "all chains have the numbers of the first", "chain seed",
        "model = model.reseeded(int(key(model.seed, \"chain\", 0) >> np.uint64(2)))",
        "tests/chain/test_several.py::test_chains_have_numbers_of_their_own",
    ),
    Mutant(
        "intervals begin with the smallest draw", "shortest interval",
        "first = 0",
        "tests/chain/test_convergence.py::test_the_table_is_that_of_arviz",
    ),
    Mutant(
        "standard errors as if draws were independent", "standard error",
        "line[\"mcse_mean\"] = line[\"sd\"] / np.sqrt(draws.size)",
        "tests/chain/test_convergence.py::test_the_table_is_that_of_arviz",
    ),
    Mutant(
        "draws that are not exact carry no flag", "exact flag",
        "if False:",
        "tests/models/mixtures/test_mixtures.py::test_draws_of_the_published_rule_carry_a_flag",
    ),
    Mutant(
        "a command may be edited", "own command",
        "if False:",
        "tests/test_cli.py::test_a_command_that_was_changed",
    ),
    Mutant(
        "the length of a run may be edited", "own configuration",
        "if False:",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "a view reads what whole draws say of themselves", "whole draws looked at",
        "for name in ():",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "a reader that came between two checkpoints speaks of damage", "disturbed",
        "if True:",
        "tests/chain/test_integrity.py::test_a_reader_may_come_while_snapshots_are_dropped",
    ),
    Mutant(
        "results are written in their place", "results",
        "with open(run / name, \"wb\") as file:\n"
        "    _write_result(content, file)",
        "tests/test_cli.py::test_results_are_the_old_ones_or_the_new_ones",
    ),
    Mutant(
        "names may change the direction of writing", "plain",
        "return re.sub(\"[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]\", lambda odd: odd[0].encode(\"unicode_escape\").decode(), str(name))",
        "tests/test_cli.py::test_terminals_are_not_obeyed",
    ),
    Mutant(
        "everybody has the lock", "lock",
        "free = True",
        "tests/chain/test_lock.py::test_the_second_writer_is_refused_every_time",
    ),
    Mutant(
        "what a killed writer has left stays", "tidy",
        "pass",
        "tests/chain/test_lock.py::test_what_a_killed_writer_left_is_removed",
    ),
    Mutant(
        "whatever looks temporary is removed, whoever made it", "names of ours",
        "if path.is_file():",
        "tests/chain/test_lock.py::test_what_others_have_there_stays",
    ),
    Mutant(
        "an owner that has just begun has no name", "not signed yet",
        "owner = _owner(descriptor)",
        "tests/chain/test_lock.py::test_an_owner_that_has_not_signed_yet",
    ),
    Mutant(
        "a new run takes the chains that it finds for its own", "adopted chains",
        "for index in ():",
        "tests/chain/test_store.py::test_chains_of_another_run_are_not_adopted",
    ),
    Mutant(
        "chains that nobody asked for are part of a run", "strange chains",
        "if False:",
        "tests/chain/test_integrity.py::test_what_was_changed_is_said",
    ),
    Mutant(
        "a report believes what is behind the checkpoint", "counted draws",
        "count = None",
        "tests/chain/test_integrity.py::test_what_is_behind_the_checkpoint_is_no_draw",
    ),
    Mutant(
        "results may be edited", "own results",
        "if False:",
        "tests/test_cli.py::test_results_that_were_changed",
    ),
    Mutant(
        "files are written in their place", "temporary",
        "beside = path",
        "tests/chain/test_store.py::test_a_full_disk_leaves_the_old_file",
    ),
    Mutant(
        "rows of a source in the order of the file", "rows in order",
        "return self.take(indices[order])",
        "tests/sources/test_sources.py::test_rows_are_those_of_the_array",
    ),
    Mutant(
        "a piece that was replaced is read as it is", "piece changed",
        "if False:",
        "tests/sources/test_source_errors.py::TestAPieceThatIsNoLongerTheSame::test_replaced",
    ),
    Mutant(
        "names of a manifest lead anywhere", "plain name",
        "plain = isinstance(name, str)",
        "tests/sources/test_source_errors.py::test_a_manifest_that_means_harm",
    ),
    Mutant(
        "small archives may hold anything", "unpacked",
        "if False:",
        "tests/sources/test_source_errors.py::test_a_small_archive_with_a_huge_content",
    ),
    Mutant(
        "other pieces of the same shape are the same data", "pieces digest",
        "pass",
        "tests/sources/test_sources.py::test_other_data_have_another_fingerprint",
    ),
    Mutant(
        "sparse pieces have equally many rows", "stored values",
        "weight = np.arange(1, source.n_rows + 1)",
        "tests/sources/test_shard.py::test_sparse_pieces_are_balanced_by_stored_values",
    ),
    Mutant(
        "rows that come before are read, too", "rows skipped",
        "skipped = 0",
        "tests/sources/test_sources.py::test_rows_are_those_of_the_array",
    ),
    Mutant(
        "words have each other's counts", "words of documents",
        "return np.repeat(counts.indices, np.sort(counts.data).astype(np.int64)).astype(np.int32)",
        "tests/sources/test_fits.py::test_the_chain_of_a_source_is_that_of_its_rows",
    ),
    Mutant(
        "one far row makes up the scale", "far rows",
        "far = np.zeros(len(sd), bool)",
        "tests/models/mixtures/test_mixture_input.py::test_one_far_row_hides_no_clusters",
    ),
    Mutant(
        "a few far rows among few make up the scale", "few far rows",
        "if False:",
        "tests/models/mixtures/test_mixture_input.py::test_few_far_rows_hide_no_clusters",
    ),
    Mutant(
        "nothing is said of a scale that may be too wide", "wide said",
        "wide = np.zeros(len(sd), bool)",
        "tests/models/mixtures/test_mixture_input.py::test_a_standard_deviation_that_few_rows_decide_is_warned_of",
    ),
    Mutant(
        "narrow columns far from zero are constant", "constant",
        "return ~(self.sd > np.maximum(1e-12 * np.abs(self.mean), 1e-300))",
        "tests/models/mixtures/test_mixture_input.py::test_narrow_columns_far_from_zero",
    ),
    Mutant(
        "means of narrow columns as they were added up", "column mean",
        "return mean, unit * np.sqrt(square / seen)",
        "tests/models/mixtures/test_mixture_input.py::test_a_narrow_column_has_the_mean_of_its_digits",
    ),
    Mutant(
        "what is held out is fitted, too", "held out",
        "return rows, rows[np.sort(order[:n_out])]",
        "tests/test_datasets.py::test_what_is_held_out_is_not_fitted",
    ),
    Mutant(
        "tiny atoms are counted with the others", "above",
        "return {name: float(len(shares)) for name in ABOVE}",
        "tests/test_datasets.py::test_tiny_atoms_are_not_above_a_share",
    ),
    Mutant(
        "a new worker does nothing again", "past",
        "return [self._build, *point]",
        "tests/engines/test_processes.py::test_killed_before_and_after_recovery_points",
    ),
    Mutant(
        "a new worker starts from the beginning", "past",
        "return [self._build, *self._log]",
        "tests/engines/test_processes.py::test_killed_before_and_after_recovery_points",
    ),
    Mutant(
        "what was done before the recovery point is done again", "log clear",
        "pass",
        "tests/engines/test_processes.py::test_killed_before_and_after_recovery_points",
    ),
    Mutant(
        "sums that depend on who has which shards", "tree left",
        "left = start",
        "tests/engines/test_tree.py",
    ),
    Mutant(
        "the squares of numbers counted twice", "given squares",
        "return InverseGamma(self.shape + 0.5 * count, self.scale + squares)",
        "level",
    ),
    Mutant(
        "gamma priors as if on the logarithm", "gamma density",
        "return power + self.shape * math.log(x) - self.rate * x",
        "tests/models/mixtures/test_mixtures.py::test_log_joint_is_the_joint_density",
    ),
    Mutant(
        "slices at the height of the density", "slice level",
        "level = log_density(x)",
        "tests/conformance/test_measures.py::test_slices_keep_the_density",
    ),
    Mutant(
        "all rows count as yes", "bernoulli posterior",
        "return self.yes0 + statistics[:, :d], self.no0 + n",
        "tests/conformance/test_likelihoods.py::test_posterior_draws_average_to_the_predictive tests/conformance/test_likelihoods.py::test_marginal_likelihood_is_an_average_over_prior_draws",
    ),
    Mutant(
        "evidence of counts without the rate of the prior", "poisson prior",
        "prior = -gammaln(self.shape0)",
        "tests/conformance/test_likelihoods.py::test_marginal_likelihood_is_an_average_over_prior_draws",
    ),
    Mutant(
        "shares of categories add up over all columns", "categorical shares",
        "return {\"share\": gamma / gamma.sum(1, keepdims=True)}",
        "tests/conformance/test_likelihoods.py::test_posterior_draws_average_to_the_predictive",
    ),
    Mutant(
        "evidence of words without the prior's total", "multinomial marginal",
        "return cells - gammaln(posterior.sum(1))",
        "tests/conformance/test_likelihoods.py::test_marginal_likelihood_is_an_average_over_prior_draws",
    ),
    Mutant(
        "the prior's mean left out of the scatter", "diagonal scatter",
        "scatter = statistics[:, :d] - kappa * mean**2",
        "tests/conformance/test_likelihoods.py::test_marginal_likelihood_is_an_average_over_prior_draws",
    ),
    Mutant(
        "ghost-only atoms of counts as if there were no rows", "gp ghosts",
        "return rng.logseries(total / (hyper.c + total), size) if size else np.empty(0, np.int64)",
        "tests/conformance/test_feature_measures.py::test_ghosts_are_further_rows",
    ),
    Mutant(
        "entries of new atoms of counts are one too seldom", "gp first",
        "first = 0.9 / (hyper.c + n) / step",
        "tests/conformance/test_feature_measures.py::test_a_law_says_how_many_atoms_a_row_adds_and_with_which_entries",
    ),
    Mutant(
        "columns of counts without their concentration", "bnb atom",
        "value: Array = betaln(counts, c + n * self.failures)",
        "tests/conformance/test_feature_measures.py::test_rates_of_all_columns_add_up_to_the_number_of_atoms",
    ),
    Mutant(
        "ghost-only atoms of overspread counts as if ghosts were no rows", "bnb ghosts",
        "first = own_r / (c + n * self.failures) / (digamma(c + all_r) - digamma(c + n * self.failures))",
        "tests/conformance/test_feature_measures.py::test_ghosts_are_further_rows",
    ),
    Mutant(
        "new rows have no features of their own", "new atoms",
        "none = -0.0",
        "tests/models/features/test_feature_predictive.py::test_atoms_of_the_row_itself",
    ),
    Mutant(
        "all patterns of features as likely", "patterns prior",
        "yield rows, patterns, logs + alone[:, None]",
        "tests/models/features/test_feature_predictive.py::test_all_patterns_are_summed",
    ),
    Mutant(
        "annealing without its last step", "annealed step",
        "total += (following - power) * draw.log_rows(X, Z) * (following < 1.0)",
        "tests/models/features/test_feature_predictive.py::test_annealed_answers_agree_with_brute_force",
    ),
    Mutant(
        "densities that are averages of logarithms", "density of draws",
        "return np.mean(logs, axis=0)",
        "tests/models/mixtures/test_mixtures.py::test_predictions_are_averages_over_draws tests/models/mixtures/test_mixtures.py::test_density_integrates_to_one_on_a_line",
    ),
    Mutant(
        "new rows of a group stand in the order of their atoms", "order of new rows",
        "labels.append(drawn)",
        "tests/models/groups/test_simulate.py::test_pairs_of_words_of_new_groups",
    ),
    Mutant(
        "every new row that belongs to no known atom has one of its own", "rows of new atoms",
        "atoms[atoms == n_atoms] += np.arange(int(np.concatenate(rest).sum()))",
        "tests/models/groups/test_simulate.py::test_pairs_of_words_of_new_groups",
    ),
    Mutant(
        "shares of groups forget what the group has", "shares of groups",
        "shapes = np.zeros((len(counts), len(masses))) + masses",
        "tests/models/groups/test_simulate.py::test_words_of_groups_that_have_rows tests/models/groups/test_simulate.py::test_likelihoods_average_to_the_predictive_density",
    ),
    Mutant(
        "new rows are as likely in any cluster", "predictive weights",
        "yield rows, part, log_predictive(likelihood, atoms, statistics, part) - np.log(len(weights))",
        "tests/models/mixtures/test_mixtures.py::test_predictions_are_averages_over_draws",
    ),
    Mutant(
        "the bound is not raised for the atom that a row has left", "raise left",
        "if False:",
        "tests/conformance/test_kernels.py::test_bounds_follow_an_atom_that_a_row_has_left",
    ),
    Mutant(
        "features: rows that are far away go unsaid", "far said",
        "far = np.empty(0, int)", "tests/models/features/test_offsets.py::test_a_far_row_is_said",
    ),
    Mutant(
        "features: single precision that never falls back", "features float32",
        'safe = dtype == "float32"',
        "tests/models/features/test_offsets.py::test_single_precision_falls_back_where_it_would_lose",
    ),
    Mutant(
        "features: single precision overlooks what is drawn for holes", "features float32 holes",
        "pass",
        "tests/models/features/test_offsets.py::test_single_precision_knows_of_holes",
    ),
    Mutant(
        "features: counts in single precision", "precision of counts",
        "dtype = self.setup.dtype",
        "tests/models/features/test_offsets.py::test_counts_are_never_in_single_precision",
    ),
    Mutant(
        "the likelihood of topics at the eta that they began with", "topics eta",
        "likelihood = self.likelihood",
        "tests/models/groups/test_groups.py::test_the_likelihood_is_that_of_the_draws_eta",
    ),
    Mutant(
        "features: log_joint without the priors of hyper-parameters", "features log joint",
        "log_joint = (\n"
        "    self.measure.log_prob(state.hyper, members, self.n_rows)\n"
        "    + state.table.entries\n"
        "    + self.likelihood.log_joint(state.scales, everything)\n"
        ")",
        "tests/models/features/test_features.py::test_log_joint_is_the_joint_density",
    ),
    Mutant(
        "features: coins are looked up before the columns have changed", "fold coins",
        "coin = _coins(old[proposal.chosen])\n"
        "old[proposal.chosen] ^= moved\n"
        "return np.delete(old, proposal.folded, axis=0), coin, moved",
        "tests/exactness/test_feature_jumps.py::test_folds_have_the_coins_of_the_way_back", span=2,
    ),
    Mutant(
        "features: the chance of a set's size forgotten", "set size",
        "log_count = 0.0",
        "tests/exactness/test_feature_jumps.py::test_jumps_alone_agree_with_enumeration",
    ),
    Mutant(
        "a run knows of its pieces what a fingerprint does", "whole pieces",
        'found.append(f"{self._opened(piece).checksum:08x}")',
        "tests/sources/test_faults.py::test_a_piece_that_changed_between_two_sessions",
    ),
    Mutant(
        "a run goes on with pieces that were changed", "piece of a run",
        "if False:",
        "tests/sources/test_faults.py::test_a_piece_that_changed_between_two_sessions",
    ),
    Mutant(
        "large binomial draws with the chance of another part", "binomial split",
        "p = (p - split) * (1.0 - split)", "tests/compiled/test_jit.py::test_binomial_draws_have_the_law",
    ),
    Mutant(
        "features: tiny features are matched the wrong way round", "the way round",
        "pass", "tests/models/features/test_offsets.py::test_tiny_features_of_other_rows_are_no_match",
    ),
    Mutant(
        "a damaged run is made longer before it is refused", "refused as it was",
        "pass", "tests/chain/test_integrity.py::test_a_refused_resume_leaves_everything_as_it_was",
    ),
    Mutant(
        "R-hat of the last digits", "ranks of rounding",
        "pass", "tests/chain/test_convergence.py::test_rounding_sets_no_chains_apart",
    ),
    Mutant(
        "MPI: ranks stay when their launcher is gone", "ranks launcher",
        "pass", "tests/engines/test_mpi.py::test_ranks_end_with_their_launcher",
    ),
]  # fmt: skip
