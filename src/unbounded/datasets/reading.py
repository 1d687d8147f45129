"""Rows from files, by their extension; small data sets, by name; and objects of other libraries."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unbounded import sources
from unbounded.datasets import examples, hdf5
from unbounded.disk import check_promise
from unbounded.sources.files import absolute, is_local, said
from unbounded.sources.formats import check_numeric, check_parquet, csv_header, read_csr

_OURS = ("penguins", "cells", "news", "glyphs")
_OF_SCIKIT_LEARN = ("iris", "wine", "digits", "breast_cancer", "diabetes")  # it ships these
NAMES = (*_OURS, *_OF_SCIKIT_LEARN)
_H5AD = ".h5ad"


def load(what: Any, columns: Sequence[str] | None = None) -> Any:
    """Rows that every estimator takes, from a path, a name or an object.

    - a path: `.csv`, `.parquet`, `.feather` and `.arrow` become data frames, a `.npz` of scipy.sparse CSR. Of an
      `.h5ad` file (AnnData) it is `X`, or what stands behind a `#`: `cells.h5ad#X_pca` is `obsm["X_pca"]`, a name of a
      layer is that layer. A `.npy`, a folder of pieces, `.zarr` or a URL opens as a source, unread (docs/data.md).
    - a name: one of `NAMES`, small sets that come with this library or with scikit-learn.
    - an object: a bunch of scikit-learn, an AnnData, a table of Arrow or any other data frame; arrays stay as they are.

    columns: of a table, these alone, by their names; they may hold words, for `Categorical`.

    Examples
    --------
    >>> from unbounded import datasets
    >>> datasets.load("iris").shape
    (150, 4)
    >>> datasets.load("penguins", ["bill_depth_mm", "body_mass_g"]).shape
    (344, 2)
    >>> datasets.load(datasets.load_penguins()).columns[:2].tolist()
    ['bill_length_mm', 'bill_depth_mm']
    """
    if not isinstance(what, str | Path):
        found = _from_object(what)
    else:
        found = _from_text(str(what))
        if columns is None and hasattr(found, "iloc"):
            check_numeric(found, what, ", or say which columns are of which kind (docs/start/data-in.md)")
    return found if columns is None else _chosen(found, columns, what)


def _chosen(found: Any, columns: Sequence[str], what: Any) -> Any:
    name = what if isinstance(what, str | Path) else "the data"
    if not hasattr(found, "iloc"):
        raise ValueError(f"{name} has no names of columns; give the columns of a table, such as a .csv file.")
    names = [str(name) for name in found.columns]
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise ValueError(f"{name} has no column {unknown[0]!r}; it has {', '.join(map(repr, names))}.")
    return found.iloc[:, [names.index(name) for name in columns]]


def located(what: str) -> str:
    """The same data, also from another folder: a name stays what it is, a path becomes absolute.

    Examples
    --------
    >>> from unbounded import datasets
    >>> datasets.located("iris")
    'iris'
    """
    return what if _is_name(what) else absolute(what)


def _is_name(text: str) -> bool:
    """Whether it is the name of a data set; a file of this name takes precedence."""
    return text in NAMES and not Path(text).exists()


def _from_text(text: str) -> Any:
    if _is_name(text):
        return _from_object(_named(text))
    file, _, part = text.partition("#") if f"{_H5AD}#" in text else (text, "", "")
    path = Path(file)
    if path.is_dir() or path.suffix == ".npy" or not is_local(text):
        return sources.open(text)
    if not path.exists():
        near = "" if path.suffix else f" (and it is none of the names {', '.join(NAMES)})"
        raise ValueError(f"{path} does not exist{near}.")
    if path.suffix == _H5AD:
        return _load_h5ad(path, part)
    if path.suffix not in _READERS:
        endings = ", ".join(sorted([".npy", _H5AD, *_READERS]))
        raise ValueError(f"{path} has an unknown ending; use one of {endings}.")
    return _READERS[path.suffix](path)


def _named(name: str) -> Any:
    if name in _OURS:
        return getattr(examples, f"load_{name}")()
    import sklearn.datasets

    return getattr(sklearn.datasets, f"load_{name}")(as_frame=True)


def _from_object(what: Any) -> Any:
    """Rows of an object, recognised by its attributes: no library is imported for the purpose."""
    if hasattr(what, "DESCR") and hasattr(what, "data"):  # a bunch
        return what.data
    if hasattr(what, "obsm") and hasattr(what, "X"):  # an AnnData
        return _rows_of_anndata(what, "", "the AnnData")
    if hasattr(what, "to_pandas"):  # a table of Arrow, a data frame of polars
        return what.to_pandas()
    return what


# ---- files


def _load_frame(path: Path) -> Any:
    try:
        frame = _read_csv(path) if path.suffix == ".csv" else _columnar(path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; convert it (iconv -t utf-8).") from None
    except _Ragged as error:
        raise ValueError(f"{path} {error}") from None
    except ImportError:
        raise ValueError(f'reading {path.suffix} needs pyarrow: pip install "unbounded[parquet]".') from None
    except MemoryError as error:
        raise ValueError(f"{path} needs more memory than there is: {said(error)}.") from error
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a table: {said(error)}.") from error
    return frame


class _Ragged(Exception):
    """The lines of a table do not have the same length."""


def _read_csv(path: Path) -> Any:
    """A data frame. A line that is too long is an error of pandas; one that is too short would be missing values."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, header=csv_header(path), float_precision="round_trip")
    except pd.errors.ParserError as error:
        _check_lengths(path)
        raise ValueError(str(error)) from None
    if len(frame.columns) and frame.iloc[:, -1].isna().any():
        _check_lengths(path)
    return frame


def _check_lengths(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        width = len(next(lines, []))
        for line in lines:
            if line and len(line) != width:
                raise _Ragged(f"has {len(line)} values in line {lines.line_num} and {width} in the first; mend it.")


def _columnar(path: Path) -> Any:
    table = _read_parquet(path) if path.suffix == ".parquet" else _read_arrow(path)
    table.validate(full=True)  # else a damaged index of a column of words is one into any memory
    return table.to_pandas()


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    check_parquet(pq.read_metadata(path), path.stat().st_size)
    return pq.read_table(path)


def _read_arrow(path: Path) -> Any:
    """A file with its index at the end, or a stream. What a batch unpacks to is known when it has been unpacked."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        found = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        batches: list[Any] = []
        unpacked = 0
        for batch in (found.get_batch(b) for b in range(found.num_record_batches)) if is_file else found:
            batches.append(batch)
            unpacked += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
            check_promise(path.stat().st_size, unpacked)
        return pa.Table.from_batches(batches, found.schema)


def _load_csr(path: Path) -> Any:
    try:
        return read_csr(path)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise ValueError(f"{path} is not a whole .npz file: it is damaged, or was cut short; make it again.") from None
    except MemoryError as error:
        raise ValueError(f"{path} needs more memory than there is: {said(error)}.") from error
    except Exception as error:  # zipfile, zlib and NumPy have many
        why = f"{path} is not a CSR matrix as scipy.sparse.save_npz writes it"
        raise ValueError(f"{why}: {said(error)}.") from error


_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _load_frame, ".parquet": _load_frame, ".feather": _load_frame, ".arrow": _load_frame, ".npz": _load_csr,
}  # fmt: skip


# ---- AnnData


def _load_h5ad(path: Path, part: str) -> Any:
    try:
        import anndata
    except ImportError:
        raise ValueError('reading .h5ad needs anndata: pip install "unbounded[anndata]".') from None
    try:
        hdf5.check(path)
        annotated = anndata.read_h5ad(path)
    except MemoryError as error:
        raise ValueError(f"{path} needs more memory than there is: {said(error)}.") from error
    except Exception as error:
        raise ValueError(f"{path} cannot be read as AnnData: {said(error)}.") from error
    return _rows_of_anndata(annotated, part, str(path))


def _rows_of_anndata(annotated: Any, part: str, called: str) -> Any:
    """X, a layer of it, or one of the other descriptions of cells, such as principal components."""
    if part in ("", "X"):
        found = annotated.X
    elif part in annotated.obsm:
        found = annotated.obsm[part]
    elif part in annotated.layers:
        found = annotated.layers[part]
    else:
        there = ", ".join(["X", *annotated.obsm, *annotated.layers])
        raise ValueError(f"{called} has no {part!r}; it has {there}.")
    if found is None:
        raise ValueError(f"{called} has no X; choose one of {', '.join([*annotated.obsm, *annotated.layers])}.")
    return found.tocsr() if hasattr(found, "tocsr") else found
