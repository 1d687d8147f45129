"""What the command line makes of the draws: one file knows the digests of all others, and what the fit warned of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unbounded.chain.store import RunError, RunStore, read_file, unreadable, write_json
from unbounded.disk import is_as_written, parsed

FILE, SUMMARY = "results.json", "summary.txt"


def record(run: Path, names: Iterable[str], warned: Sequence[str]) -> None:
    """Written after all results, so that a fit that is killed before leaves none that pass for whole."""
    write_json(run / FILE, {"files": {name: _digest(run / name) for name in names}, "warnings": list(warned)})


def check_results(store: RunStore) -> tuple[str, ...]:
    """An error where a result is not what was written; else what the fit warned of. Runs without results have none."""
    path = store.path / FILE
    if not path.exists():
        if (store.path / SUMMARY).exists() and not store.is_older:
            raise RunError(f"{path} is missing, so that nobody knows whether results were changed; {_again(store)}")
        return ()
    content = _content(path)
    if content is None:
        raise RunError(f"{path} is damaged: it was changed or cut; {_again(store)}")
    for name, digest in content["files"].items():
        # mutant: own results
        if _digest(store.path / name) != digest:
            why = "was changed or deleted, or the results were not written to their end"
            raise RunError(f"{store.path / name} {why}; {_again(store)}")
    return tuple(map(str, content["warnings"]))


def warnings_of(run: Path) -> tuple[str, ...]:
    """What earlier sessions warned of."""
    content = _content(run / FILE) if (run / FILE).is_file() else None
    return () if content is None else tuple(map(str, content["warnings"]))


def _again(store: RunStore) -> str:
    return f"`unbounded resume {store.path}` writes the results again."


def _content(path: Path) -> dict[str, Any] | None:
    """What was written; None where it was edited."""
    try:
        content = parsed(read_file(path))
    except ValueError:
        return None
    whole = isinstance(content, dict) and is_as_written(content)
    whole = whole and isinstance(content.get("files"), dict) and isinstance(content.get("warnings"), list)
    return content if whole else None


def _digest(path: Path) -> str:
    """Of a file; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise unreadable(path, error) from error
