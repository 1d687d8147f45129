"""What a fit is given, as rows group after group: documents as their words, or rows with the group of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from unbounded.arrays import Array, checked_csr
from unbounded.categories import columns_of_strings
from unbounded.models.groups.words.documents import check_total, lengths_of
from unbounded.randomness import generator
from unbounded.sources import Source

_MOST_IN_MEMORY = 2**31 - 1  # words, four bytes each


class GroupedRows(NamedTuple):
    """Rows (of documents: words) group after group, the groups' sizes, and which row of the input each of them was."""

    rows: Any
    sizes: Array
    order: Any  # or all of them, as they were


def checked_groups(groups: ArrayLike | None, n_rows: int) -> Array:
    """The group of each row; without groups every row is one."""
    ids = np.arange(n_rows) if groups is None else np.asarray(groups)
    if ids.shape != (n_rows,):
        raise ValueError(f"groups must be one id for each of the {n_rows} rows, got shape {ids.shape}.")
    missing = ids != ids
    if ids.dtype == object:
        missing = np.array([g is None or g != g for g in ids.tolist()])
    if missing.any():
        raise ValueError(f"row {int(np.flatnonzero(missing)[0])} has no group.")
    return ids


def sorted_by_group(X: Any, groups: Array) -> GroupedRows:
    _, where, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if isinstance(X, Source):
        if (np.diff(where) < 0).any():
            raise ValueError("the rows of a source must be sorted by group; sort them, or give an array.")
        return GroupedRows(X, sizes, slice(None))
    order = np.argsort(where, kind="stable")
    return GroupedRows(X[order], sizes, order)


_WORD = re.compile(r"(?u)\b\w\w+\b")  # as scikit-learn's CountVectorizer has it


def check_documents(X: Any) -> None:
    """Refuse a text where a name of a file is expected."""
    if isinstance(X, str) and len(X.split()) > 1 and not Path(X).exists():
        raise ValueError("the documents are one string; give a list with a string for each document, or a file.")


def are_texts(X: Any) -> bool:
    """Whether these are documents as strings: a list, a column of a table, an array."""
    if not isinstance(X, list | tuple) and not (getattr(X, "ndim", 0) == 1 and hasattr(X, "dtype")):
        return False
    documents = list(X)
    if any(isinstance(document, bytes) for document in documents):
        raise ValueError("the documents are bytes; give strings: document.decode().")
    strings = [isinstance(document, str) for document in documents]
    if any(strings) and not all(strings):
        raise ValueError(
            f"document {strings.index(not strings[0])} is not like the first: give strings, or lists of words."
        )
    return bool(documents) and all(strings)


def check_no_texts(X: Any) -> None:
    """Refuse a table of texts, of which each column could be meant."""
    columns = columns_of_strings(X)
    if columns:
        one = repr(X.columns[columns[0]]) if hasattr(X, "columns") else f"number {columns[0]}"
        raise ValueError(f"column {one} holds words; give that column alone as the documents, or counts of words.")


def checked_tokens(tokens: Any, place: int) -> list[str]:
    """What a tokenizer made of the document in this place."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise ValueError(f"the tokenizer made {tokens!r} of document {place}; it must make a list of words.")
    words = list(tokens)
    odd = [word for word in words if not isinstance(word, str)]
    if odd:
        raise ValueError(f"the tokenizer made {odd[0]!r} of a word of document {place}; words must be strings.")
    return words


def checked_vocabulary(words: list[str]) -> list[str]:
    """Every word once."""
    word, times = Counter(words).most_common(1)[0] if words else ("", 0)
    if times > 1:
        raise ValueError(f"the vocabulary has the word {word!r} {times} times; give every column a word of its own.")
    return words


def plain_words(text: str) -> list[str]:
    """The words of a text of two letters or more, in lower case."""
    return _WORD.findall(text.lower())


def are_words(X: Any) -> bool:
    """Whether these are documents as lists of words."""
    if not isinstance(X, list | tuple) or not all(isinstance(document, list | tuple) for document in X):
        return False
    kinds = {type(word) for document in X for word in document}  # none: documents without words
    if kinds and not any(issubclass(kind, str | bytes) for kind in kinds):
        return False
    for d, document in enumerate(X):
        for word in document:
            if not isinstance(word, str):
                raise ValueError(
                    f"document {d} has the word {word!r}, which is not a string; give all words as strings."
                )
    return True


def count_words(documents: Sequence[Sequence[str]], vocabulary: Sequence[str]) -> sparse.csr_matrix:
    """[documents, words]; words that are not in the vocabulary are left out."""
    column = {word: w for w, word in enumerate(vocabulary)}
    pairs = [(d, column[w]) for d, document in enumerate(documents) for w in document if w in column]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    shape = (len(documents), max(len(column), 1))
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def checked_counts(X: Any) -> sparse.csr_matrix:
    """A CSR table of counts, words in order."""
    counts = checked_csr(sparse.csr_matrix(X))
    if counts.data.size and counts.data.min() < 0:
        raise ValueError("counts of words cannot be negative.")
    if (counts.data != np.rint(counts.data)).any():
        raise ValueError("counts of words must be whole numbers.")
    counts = counts.copy()
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts


def words_of(counts: sparse.csr_matrix) -> GroupedRows:
    """The words of all documents, as often as they are there."""
    sizes = lengths_of(counts)
    check_total(sizes, _MOST_IN_MEMORY, " in memory; fit those in files (docs/data.md)")
    try:
        words = np.repeat(counts.indices.astype(np.int32), counts.data.astype(np.int64))
    except MemoryError:
        raise ValueError(
            f"the documents have {sizes.sum():,} words, too many for the memory there is; fit those in files "
            "(docs/data.md)."
        ) from None
    return GroupedRows(words, sizes, slice(None))


def halves(data: GroupedRows) -> tuple[tuple[Any, Array], tuple[Any, Array]]:
    """Of each group's rows one half at random to be seen and one to be scored; groups of one row have no second."""
    rng = generator(0, "halves", data.rows.shape[0])
    group = np.repeat(np.arange(len(data.sizes)), data.sizes)
    order = np.lexsort([rng.random(len(group)), group])
    place = np.arange(len(group)) - np.repeat(np.cumsum(data.sizes) - data.sizes, data.sizes)
    first = np.zeros(len(group), bool)
    first[order] = place < (data.sizes[group] + 1) // 2
    if first.all():
        raise ValueError("document completion needs a group of at least two rows.")

    def part(chosen: Array) -> tuple[Any, Array]:
        return data.rows[chosen], np.bincount(group[chosen], minlength=len(data.sizes))

    return part(first), part(~first)
