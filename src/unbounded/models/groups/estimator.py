"""The scikit-learn face of the hierarchical Dirichlet process: documents and their topics, groups and their atoms."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from unbounded import likelihoods
from unbounded.arrays import Array, Data, checked_csr, is_csr, is_sparse
from unbounded.chain.run import Chain
from unbounded.contracts import Engine, Likelihood
from unbounded.disk import allocate
from unbounded.docstrings import joined
from unbounded.estimator import ChainEstimator, Heldout
from unbounded.family import Choices, Init
from unbounded.inputs import Randomness
from unbounded.likelihoods import Bound, Gaussian
from unbounded.models.groups import point_estimate as topics
from unbounded.models.groups import reading, simulate
from unbounded.models.groups import start as hierarchical_start
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.jump import DEFAULT_JUMPS
from unbounded.models.groups.kernels import KERNELS
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import FORMS, Groups, GroupsState
from unbounded.models.groups.predictive import Draw, completion, fold_in
from unbounded.models.groups.reading import GroupedRows
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.shard import GroupHyper
from unbounded.models.groups.simulate import Members
from unbounded.models.groups.words.documents import Words, lengths
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.labelled.labels import n_labelled
from unbounded.models.labelled.losses import uncertainty
from unbounded.models.labelled.packing import unpacked
from unbounded.models.mixtures.jump import Jumps, check_jumps
from unbounded.priors import Gamma
from unbounded.randomness import key
from unbounded.rows import fingerprint
from unbounded.sources import Rows, Source

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import DataTree

_SWEEPS = 20
_FEW_GROUPS = 20_000

CHOICES = Choices(
    atoms="topics",
    assignments="labels",
    dimensions=("row",),
    n_rows=n_labelled,
    likelihoods=(Tokens, *likelihoods.MEMBERS),
    bound=Bound,
    samplers=HIERARCHICAL,
    kernels=KERNELS,
    double_only=("reference",),
    start=hierarchical_start,
)


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class HierarchicalDirichletProcess(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ChainEstimator):
    """Hierarchical Dirichlet process: topics of documents, or atoms that groups of rows share, as many as needed.

    Parameters
    ----------
    likelihood : str, likelihood or None, default None
        None: "tokens" for documents, "gaussian" for grouped rows. Or any likelihood of a mixture, or
        `Tokens(concentration, base)` to fix the concentration of topics over words or to give it another prior, and to
        say whether words have a common base that is learned.
    concentration : float, Gamma or None, default None
        Of the top process, alpha: how many topics. A number fixes it; None is Gamma(1, 1).
    group_concentration : float, Gamma or None, default None
        Of the groups, gamma: how many topics a group has. A number fixes it; None is Gamma(1, 1).
    form : {"direct", "franchise"}, default "direct"
        Two exact samplers of the same posterior. "direct" integrates tables out and is sparse for words; "franchise"
        keeps them and moves whole tables.
    init : str, int, array of labels or tuple, default ("grown", "few")
        "grown": of documents, many random topics on a pilot, of which those remain that the words support; of rows, a
        mixture. "few": of documents, few topics on a pilot; of rows, one atom. A number: so many random topics. "one".
        Or the topic of every token (document after document, words in the order of their columns) or row. A tuple has
        the starts of chains in turn: chains that agree although they come from both sides have mixed.
    jumps : bool, Jumps or None, default None
        Moves of whole topics: how much of them is tried, and how often (docs/jumps.md). None: as is usual, where the
        sampler has any (the hybrid one, with an exact rule); a run that was begun without any goes on without.
    tokenizer : function of a string, CountVectorizer or None, default None
        What makes words of documents that are strings. A function returns a list of words; a vectorizer, such as
        `CountVectorizer(stop_words="english")`, counts them. None: all words of two letters or more, in lower case.

    Attributes
    ----------
    n_topics_ : int
        Topics of a reference draw, the one that agrees best with all others; their posterior is
        `posterior_["n_topics"]`.
    components_ : array of shape (n_topics_, n_words)
        Posterior mean of each topic's distribution over words (documents only).
    proportions_ : array of shape (n_groups, n_topics_)
        Posterior mean of each training group's shares of the topics.
    topic_shares_ : array of shape (n_topics_,)
        Share of all tokens or rows, largest first.
    topic_history_ : array of shape (n_snapshots, n_topics_)
        The same share in each of the draws that were kept, in the order of the chains.
    labels_ : array of shape (n_rows,)
        The topic of every row (or token) in the reference draw.
    uncertainty_ : array of shape (n_rows,)
        How much the company of each of them changes from draw to draw, as for mixtures.
    vocabulary_ : list of str
        The words of the columns, when documents were strings, lists of words or a DataFrame.
    vectorizer_ : CountVectorizer
        The one that was given, fitted.
    n_empty_ : int
        Documents without words; they are kept, with the proportions of a new document.

    Examples
    --------
    >>> import unbounded as ub
    >>> sport, vote, film = ["goal", "team", "coach"], ["party", "poll", "mayor"], ["actor", "scene", "cast"]
    >>> X = [words * 4 for words in (sport, vote, film)] * 10
    >>> model = ub.HierarchicalDirichletProcess(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.n_topics_
    3
    >>> sorted(sorted(words) for words in model.top_words(n_words=3))
    [['actor', 'cast', 'scene'], ['coach', 'goal', 'team'], ['mayor', 'party', 'poll']]
    """

    likelihood: str | Likelihood | None = field(default=None, kw_only=False)
    concentration: float | Gamma | None = None
    group_concentration: float | Gamma | None = None
    form: str = "direct"
    init: str | int | ArrayLike | tuple[Any, ...] = ("grown", "few")
    jumps: bool | Jumps | None = None
    tokenizer: Callable[[str], Sequence[str]] | BaseEstimator | None = None

    _choices: ClassVar[Choices] = CHOICES

    def _chosen_likelihood(self) -> Any:
        return ("tokens" if self._words else "gaussian") if self.likelihood is None else self.likelihood

    def _measure(self) -> HierarchicalMeasure:
        alpha, gamma = (Gamma() if v is None else v for v in (self.concentration, self.group_concentration))
        return HierarchicalMeasure(alpha, gamma)

    def _usual_jumps(self) -> Jumps:
        check_jumps(self.jumps)
        return DEFAULT_JUMPS

    def _moves(self) -> dict[str, Any]:
        return {"form": self.form} | self._chosen_jumps()

    def _extent(self, X: Data) -> Array:
        return self._sizes

    # ---- fitting

    def fit(
        self, X: Rows, groups: ArrayLike | None = None, *, holdout: Rows | tuple[Rows, ArrayLike] | None = None
    ) -> Self:
        """Sample the posterior of topics.

        X: documents as counts of words (CSR, array, source, or a DataFrame whose columns are words), as lists of words,
        or as strings; or, with `groups`, rows and the
        group of each of them, those of a source sorted by group. holdout: documents, or a pair (rows, groups), that are
        kept out: of each group one half is seen and the mean log probability of the other half is recorded with every
        draw.
        With `checkpoint`, a run that was interrupted there is resumed and ends as if it never stopped.

        Examples
        --------
        >>> model.fit(X[:24], holdout=X[24:]).posterior_["holdout"].shape
        (1, 50)
        >>> model = model.fit(X)
        """
        self._words = groups is None
        data = self._read(X, groups, reset=True)
        if data.rows.shape[0] == 0:
            raise ValueError("the documents have no words; at least one of them needs some.")
        self._sizes, self._order = data.sizes, data.order
        self._check_settings(data.rows.shape[0])
        heldout = None if holdout is None else reading.halves(self._read(*self._pair(holdout), reset=False))
        return self._sample(data.rows, heldout)

    def fit_transform(self, X: Rows, y: ArrayLike | None = None, **fit_params: Any) -> Array:
        """y: the groups of rows.

        Examples
        --------
        >>> model.fit_transform(X).shape
        (30, 3)
        """
        return self.fit(X, y, **fit_params).transform(X)

    def _pair(self, X: Data) -> tuple[Any, Any]:
        if self._words:
            return X, None
        if not isinstance(X, tuple) or len(X) != 2:
            raise ValueError("groups of rows come as a pair (rows, groups).")
        return X

    def _score(self, model: Groups, engine: Engine, heldout: Heldout, state: GroupsState) -> float:
        seen, rest = heldout
        return float(completion(model.likelihood, model.draw(state), seen, rest, _SWEEPS, key(0, "holdout")).mean())

    def _heldout_fingerprint(self, heldout: Heldout) -> str:
        (seen, _), (rest, sizes) = heldout
        return fingerprint(seen) + fingerprint(rest) + fingerprint(sizes)

    def _config(self, X: Data, heldout: Heldout, seed: int) -> dict[str, Any]:
        return super()._config(X, heldout, seed) | {"groups": fingerprint(self._sizes)}

    def _about(self, X: Data, model: Any) -> dict[str, Any]:
        few = len(self._sizes) <= _FEW_GROUPS  # whose sizes fit into a note
        sizes = {"group_sizes": self._sizes.tolist()} if few else {}
        return super()._about(X, model) | {"groups": len(self._sizes)} | sizes

    # ---- point estimates

    def _estimate(self, chains: Sequence[Chain]) -> None:
        self._snapshots = [snap for chain in chains for _, snap in sorted(chain.snapshots.items())]
        labels = [snap["labels"] for snap in self._snapshots]
        self._reference = topics.reference(labels)
        sizes = np.bincount(self._reference)
        self.n_topics_ = self._n_features_out = len(sizes)
        self.topic_shares_ = sizes / sizes.sum()
        self.labels_ = allocate(self._reference.shape, self._reference.dtype)
        self.labels_[self._order] = self._reference
        shares = allocate((len(self._sizes), self.n_topics_), float)
        shares[...] = 0.0
        words = np.zeros((self.n_topics_, self._likelihood.n_terms)) if self._words else None
        history = []
        for draw, snap, share in self._draws():
            history.append(topics.sizes(draw.counts, share))
            for some, part in topics.proportions(snap["labels"], self._sizes, draw.masses[:-1], share):
                shares[some] += part
            if words is not None:
                expected = share.T @ sparse.csr_matrix(draw.statistics) + draw.hyper.content.pseudo
                words += expected / expected.sum(1, keepdims=True)
        shares /= len(labels)
        self.proportions_, self.topic_history_ = shares, np.array(history)
        if words is not None:
            self.components_ = words / len(labels)

    def _draws(self) -> Iterator[tuple[Draw, Any, Array]]:
        """Snapshots as draws, each with [K, n_topics_]: how an atom's rows are spread over the reference topics."""
        for s, snap in enumerate(self._snapshots):
            yield self._draw(s), snap, topics.spread(snap["labels"], self._reference)

    def _draw(self, s: int) -> Draw:
        snap = self._snapshots[s]
        statistics = unpacked(snap, self._likelihood.n_terms).astype(float)
        hyper = GroupHyper.of(self._prior, snap["hyper"])
        masses = self._prior.expected_masses(hyper.measure, snap["tables"])
        return Draw(snap["counts"], snap["tables"], statistics, hyper, masses)

    def _unit(self) -> str:
        return "tokens" if self._words else "rows"

    def _row_estimates(self) -> Array:
        return self.labels_

    def _atom_shares(self) -> Array:
        return self.topic_shares_

    @property
    def uncertainty_(self) -> Array:
        """How much the company of each row changes: of all rows that are with it in `labels_` or in a draw, the share
        that is not with it in both, averaged over draws; 0 is never, 1 is always.

        Examples
        --------
        >>> model.uncertainty_.shape  # of every word
        (360,)
        """
        check_is_fitted(self, "posterior_")
        sorted_by_group = uncertainty(self._reference, [snap["labels"] for snap in self._snapshots])
        out = np.empty_like(sorted_by_group)
        out[self._order] = sorted_by_group
        return out

    # ---- results

    def transform(self, X: Rows, groups: ArrayLike | None = None) -> Array:
        """Posterior mean of each new group's shares of the topics, averaged over draws.

        Documents: one row each; words that fit never saw are left out. Rows: one row for each group in the order of
        the sorted group ids; without groups every row is a group of its own. Each row adds up to one: what belongs to
        none of the topics is left out.

        Examples
        --------
        >>> model.transform([["goal", "team", "goal", "coach"]]).round().max()
        np.float64(1.0)
        """
        check_is_fitted(self, "posterior_")
        X = self._given(X)
        if isinstance(X, Source):
            return _by_blocks(self.transform, X, groups)
        data = self._read(X, groups, reset=False)
        total = np.zeros((len(data.sizes), self.n_topics_))
        for j, (draw, _, share) in enumerate(self._draws()):
            draw_key = key(self._seed, "transform", j)
            _, shares = fold_in(self._likelihood, draw, data.rows, data.sizes, _SWEEPS, draw_key, _SWEEPS // 2)
            total += (shares[:, :-1] / shares[:, :-1].sum(1, keepdims=True)) @ share
        return total / len(self._snapshots)

    def score_samples(self, X: Rows, groups: ArrayLike | None = None) -> Array:
        """Log probabilities of the rows or tokens of the second halves of new groups given their first halves.

        Rows of a group are split at random, always in the same way. The shares of a group's topics come from the rows
        seen; every other row is scored on its own by a distribution that sums to one over its possible values,
        averaged over draws.

        Examples
        --------
        >>> len(model.score_samples(X[:2]))  # half of 24 words
        12
        """
        check_is_fitted(self, "posterior_")
        X = self._given(X)
        if isinstance(X, Source):
            return _by_blocks(self.score_samples, X, groups)
        seen, rest = reading.halves(self._read(X, groups, reset=False))
        logs = [
            completion(self._likelihood, draw, seen, rest, _SWEEPS, key(self._seed, "score", j))
            for j, (draw, _, _) in enumerate(self._draws())
        ]
        return logsumexp(logs, axis=0) - np.log(len(logs))

    def score(self, X: Rows, groups: ArrayLike | None = None) -> float:
        """Mean of `score_samples`: log probability per held-out token or row.

        Examples
        --------
        >>> bool(model.score(X) > -2.2)  # nine words: at random it would be about -log 9
        True
        """
        return float(np.mean(self.score_samples(X, groups)))

    def perplexity(self, X: Rows, groups: ArrayLike | None = None) -> float:
        """exp(-score): as if each word were one of so many that are equally likely.

        Examples
        --------
        >>> bool(3.0 <= model.perplexity(X) < 9.0)  # three words of a topic are equally likely
        True
        """
        return float(np.exp(-self.score(X, groups)))

    def top_words(self, vocabulary: Sequence[str] | None = None, n_words: int = 10) -> list[list[str]]:
        """The most probable words of every topic, largest topics first.

        Examples
        --------
        >>> len(model.top_words(n_words=2))
        3
        """
        check_is_fitted(self, "posterior_")
        if not self._words:
            raise ValueError("the topics of rows have no words: top_words is for documents, fit(X) without groups.")
        if isinstance(n_words, bool) or not isinstance(n_words, int | np.integer) or n_words < 1:
            raise ValueError(f"n_words must be a whole number of at least 1, got {n_words!r}.")
        n_columns = self.components_.shape[1]
        words = getattr(self, "vocabulary_", None) if vocabulary is None else list(vocabulary)
        words = list(map(str, range(n_columns))) if words is None else reading.checked_vocabulary(words)
        if len(words) != n_columns:
            raise ValueError(f"the vocabulary has {len(words)} words, the documents have {n_columns}.")
        return [[words[w] for w in np.argsort(-topic)[:n_words]] for topic in self.components_]

    def sample(
        self,
        n_samples: int = 1,
        random_state: Randomness = None,
        size: int | None = None,
    ) -> sparse.csr_matrix | tuple[Array, Array]:
        """New groups from the posterior predictive distribution, each from one of the draws that were kept whole.

        Documents: a CSR table of counts, a row for each of n_samples new documents. Rows: a pair (rows, groups), as
        `fit` takes them. size: how many words or rows each group has; None: as many as one of the fit's groups, chosen
        at random for each of them, since the model says nothing about sizes.

        Examples
        --------
        >>> model.sample(4, size=12).shape, model.sample(4, size=12).sum()
        ((4, 9), np.float64(48.0))
        """
        rng, which = self._sampling(n_samples, random_state)
        if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
            raise ValueError(f"size must be a whole number of at least 1 or None, got {size!r}.")
        sizes = rng.choice(self._sizes[self._sizes > 0], n_samples) if size is None else np.full(n_samples, size)
        order = np.argsort(which, kind="stable")
        rows = np.concatenate([
            simulate.new_groups(self._prior, self._likelihood, self._draw(s), sizes[which == s], rng)
            for s in np.unique(which)
        ])  # fmt: skip
        groups = np.repeat(order, sizes[order])
        if not self._words:
            place = np.argsort(groups, kind="stable")
            return self._in_words(rows[place]), groups[place]
        return sparse.csr_matrix((np.ones(len(rows)), (groups, rows)), (n_samples, self.n_features_in_))

    def to_arviz(
        self,
        X: Rows | None = None,
        posterior_predictive: bool = False,
        random_state: Randomness = None,
        groups: ArrayLike | None = None,
    ) -> InferenceData | DataTree:
        """The draws for ArviZ: an InferenceData, or a DataTree where ArviZ 1.x is installed.

        X (and groups): what the fit was given. Added is the log likelihood of every word or row under each draw that
        was kept whole, given the shares of its group and the topics, which are drawn for the purpose; for `az.loo`,
        which then leaves out single words or rows. posterior_predictive: as many new words or rows in the same groups.
        The coordinate `group` says which group a row is of: `.groupby("group").sum()` makes documents of words.

        Examples
        --------
        >>> model.to_arviz(X).log_likelihood["rows"].sizes["row"]  # words
        360
        """
        check_is_fitted(self, "posterior_")
        if content_of(self._likelihood).repeats_after is not None and (X is not None or posterior_predictive):
            raise ValueError(
                "where documents repeat themselves (repeats_after), to_arviz takes neither X nor predictions."
            )
        data = None
        if X is not None:
            read = self._read(X, groups, reset=False)
            self._check_size(read.rows.shape[0])
            if not np.array_equal(read.sizes, self._sizes):
                raise ValueError("the groups are of other sizes than those of the fit; give those of the fit.")
            data = self._as_given(read.rows)
        return self._for_arviz(data, posterior_predictive, random_state)

    def _log_likelihood(self, s: int, X: Data, rng: np.random.Generator) -> Array:
        draw, groups = self._draw(s), Members(self._sizes, self._snapshots[s]["labels"])
        return self._as_given(simulate.log_likelihood(self._prior, self._likelihood, draw, groups, X[self._order], rng))

    def _new_rows(self, s: int, n: int, rng: np.random.Generator) -> Array:
        """In the groups of the fit: as many in each as it has."""
        draw, groups = self._draw(s), Members(self._sizes, self._snapshots[s]["labels"])
        return self._as_given(simulate.new_rows(self._prior, self._likelihood, draw, groups, rng))

    def _row_groups(self) -> Array:
        return self._as_given(np.repeat(np.arange(len(self._sizes)), self._sizes))

    def _as_given(self, rows: Any) -> Any:
        """Rows that are sorted by group, in the order in which the fit was given them."""
        return rows if isinstance(self._order, slice) else rows[np.argsort(self._order)]

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Rows | None = None,
        vocabulary: Sequence[str] | None = None,
    ) -> Path:
        """Write the run directory of the fit as one HTML page, by default to its report.html (docs/report.md).

        X: grouped rows, as fit was given them; of documents the page has no use for them. vocabulary: the words of the
        columns, where documents came as counts.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model.set_params(checkpoint=folder).fit(X).report().name
        'report.html'
        """
        known = getattr(self, "vocabulary_", None) if vocabulary is None else list(vocabulary)
        order = getattr(self, "_order", None)
        return self._report(path, X, vocabulary=known, order=None if isinstance(order, slice) else order)

    # ---- reading

    def _read(self, X: Data, groups: ArrayLike | None, reset: bool) -> GroupedRows:
        if self._words != isinstance(likelihoods.resolve(self._chosen_likelihood(), self._choices.likelihoods), Tokens):
            raise ValueError("documents take Tokens; any other likelihood takes rows and their groups: fit(X, groups).")
        if self._words:
            reading.check_documents(X)
        X = self._given(X)
        if isinstance(X, Source) and not reset:
            X = X[:]
        if self._words:
            if groups is not None:
                raise ValueError("documents have no groups: each of them is one.")
            return self._read_source(X) if isinstance(X, Source) else self._read_documents(X, reset)
        return self._read_rows(X, groups, reset)

    def _read_rows(self, X: Data, groups: ArrayLike | None, reset: bool) -> GroupedRows:
        X = self._check_array(X, reset)
        if is_sparse(X) and isinstance(likelihoods.resolve(self._chosen_likelihood()), Gaussian):
            raise ValueError("sparse rows take the multinomial likelihood; give an array for any other.")
        ids = reading.checked_groups(groups, X.shape[0])
        if reset:
            self._likelihood = self._bind(X, training=True)
        else:
            self._bind(X, training=False)
            self._likelihood.check(X)
        return reading.sorted_by_group(X, ids)

    def _read_source(self, X: Source) -> GroupedRows:
        """Documents of a source, whose words are nowhere in memory."""
        self._likelihood = self._bind(self._check_source(X, reset=True, least=1), training=True)
        sizes = lengths(X)
        self.n_empty_ = int((sizes == 0).sum())
        return GroupedRows(Words(X, sizes), sizes, slice(None))

    def _read_documents(self, X: Data, reset: bool) -> GroupedRows:
        if reset:
            for name in ("vocabulary_", "vectorizer_"):  # of an earlier fit
                self.__dict__.pop(name, None)
        if reading.are_texts(X):
            X = self._tokenized(X, reset)
        reading.check_no_texts(X)
        if reset and hasattr(X, "columns"):
            self.vocabulary_ = reading.checked_vocabulary([str(word) for word in X.columns])
        if reading.are_words(X):
            if reset:
                self.vocabulary_ = sorted({word for document in X for word in document})
            if not hasattr(self, "vocabulary_"):
                raise ValueError("fit took counts of words; give counts here, too.")
            X = reading.count_words(X, self.vocabulary_)
        X = checked_csr(X) if is_csr(X) else X
        counts = reading.checked_counts(
            validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=1,
                ensure_all_finite=True,
            )
        )  # fmt: skip
        if reset and counts.shape[0] < 1:
            raise ValueError("there are no documents.")
        bound = self._bind(counts, training=reset)
        data = reading.words_of(counts)
        if reset:
            self._likelihood, self.n_empty_ = bound, int((data.sizes == 0).sum())
        return data

    def _tokenized(self, X: Data, reset: bool) -> Any:
        """Texts as lists of words, or as the counts of the vectorizer that was given."""
        tokenizer: Any = reading.plain_words if self.tokenizer is None else self.tokenizer
        if hasattr(tokenizer, "fit_transform"):
            if not reset:
                return self.vectorizer_.transform(X)
            self.vectorizer_: Any = clone(tokenizer)
            counts = self.vectorizer_.fit_transform(X)
            self.vocabulary_ = self.vectorizer_.get_feature_names_out().tolist()
            return counts
        if not callable(tokenizer):
            raise ValueError(f"tokenizer must be a function, a CountVectorizer or None, got {tokenizer!r}.")
        return [reading.checked_tokens(tokenizer(text), d) for d, text in enumerate(X)]

    # ---- checks

    def _sparse_ok(self) -> bool:
        if self.likelihood is None:
            return True
        return likelihoods.resolve(self.likelihood, self._choices.likelihoods).name in ("tokens", "multinomial")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan |= self.likelihood is None  # documents may be sparse, and rows may have holes
        return tags

    def _check_init(self, init: Init, n_rows: int) -> None:
        hierarchical_start.check(init, n_rows)

    def _check_shards(self, n_rows: int) -> None:
        """Any number of shards will do: some may have no group."""

    def _check_settings(self, n_rows: int) -> None:
        super()._check_settings(n_rows)
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {FORMS}, got {self.form!r}.")


def _by_blocks(function: Callable[[Any], Array], X: Source, groups: ArrayLike | None) -> Array:
    """A function of groups, block by block; the randomness of a group belongs to its place in the block."""
    if groups is not None:
        raise ValueError("rows of a source in groups are too many at once; give those of some groups, as an array.")
    return np.concatenate([function(rows) for _, rows in X.blocks()])
