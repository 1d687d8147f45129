"""A run on disk: a folder with its configuration, and for each chain a trace, snapshots and a checkpoint.

    run.json                      what was asked, and the fingerprint of the data
    results.json                  digests of what the command line made of the draws (`results`)
    lock.json                     who is writing, while somebody is (`lock`)
    chain-0/trace.jsonl           one line per draw, appended
    chain-0/assignments.bin       int32 labels of every draw, appended (only when asked for)
    chain-0/assignments/000012.ub the same for matrices Z, whose width changes from draw to draw
    chain-0/snapshots/000012.ub   whole draws, for prediction and point estimates
    chain-0/checkpoint.ub         the last complete round, and digests of everything above
    progress.json                 what the last session is doing, or how it ended; no chain reads it, nor the next two
    about.json                    where the last session ran: engine, versions, size of the data
    chain-0/timing.json           seconds in each phase up to the checkpoint, over all sessions
    labels/shard-00003.npy        of a source: the point estimate for the rows of a shard (or Z/, for matrices)
    labels/shards.json            which rows these are

`.ub` files are a magic line, a SHA-256 line and an .npz without pickles (docs/runs.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from unbounded.arrays import Array, Arrays, packed_entries, unpacked_entries
from unbounded.chain.versions import versions
from unbounded.disk import (
    CHECKSUM,
    allocate,
    check_unpacked,
    is_as_written,
    parsed,
    spill_to_disk,
    with_checksum,
    write_whole,
)
from unbounded.round import PHASES, Clock

EXTENSIBLE = ("n_draws", "max_draws")  # settings that may change when a run is resumed
FORMAT, _LAYOUT = "format", 1  # an entry of run.json: how a run directory is laid out; older ones have none
RESTORE = "restore it from a backup or fit again"
SHARD_FOLDERS = ("labels", "Z")  # point estimates of the rows of a source, for each shard

_MAGIC = b"unbounded 2\n"
_KNOWN = (b"unbounded 1\n", _MAGIC)  # 1: matrices Z as bytes, labels in four of them


class RunError(RuntimeError):
    """Something is wrong with a run directory; the message says what, where, and what to do."""


class RunWarning(UserWarning):
    """A run is resumed, but its draws may differ from those of an uninterrupted one."""


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write a .ub file and return the digest of its content, which is never in memory as a whole."""
    digest = hashlib.sha256()

    def write(file: IO[bytes]) -> None:
        file.write(_MAGIC + b"0" * 64 + b"\n")
        named: dict[str, Any] = {name.replace("/", "|"): value for name, value in arrays.items()}
        sink: Any = _Digested(file, digest)
        np.savez(sink, allow_pickle=False, **named)
        file.seek(len(_MAGIC))
        file.write(digest.hexdigest().encode())

    write_file(path, write)
    return digest.hexdigest()


class _Digested:
    """A write-only file that adds whatever passes through it to a digest."""

    def __init__(self, file: IO[bytes], digest: Any):
        self._file, self._digest = file, digest

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return self._file.write(content)

    def read(self, size: int = -1) -> bytes:
        """Never called, but NumPy takes only objects with this method for files."""
        raise OSError("this file is write-only")

    def flush(self) -> None: ...


def write_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """A file of a run directory."""
    try:
        write_whole(path, write)
    except OSError as error:
        raise RunError(
            f"could not write {path}: {error.strerror or error}; make room or fix the permissions, then resume."
        ) from error


def write_to(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file whole or not at all; what is no regular file, such as a pipe, is written to directly."""
    try:
        if path.exists() and not path.is_file():
            with open(path, "wb") as file:
                write(file)
        else:
            write_whole(path.resolve(), write)
    except OSError as error:
        raise RunError(f"could not write {path}: {error.strerror or error}.") from error


def write_json(path: Path, content: Any) -> None:
    content = with_checksum(content) if isinstance(content, Mapping) else content
    write_file(path, lambda file: file.write((json.dumps(content, indent=1) + "\n").encode()))


def read_file(path: Path) -> bytes:
    """A file that a run cannot do without."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path} is missing; {RESTORE}.") from None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> RunError:
    return RunError(f"could not read {path}: {error.strerror or error}; {RESTORE}.")


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file that no chain reads; empty if it is missing, damaged or was edited."""
    try:
        content = parsed(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and is_as_written(content) else {}


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, Array]:
    """The arrays of a .ub file, after its checksum was compared; large ones stay on disk until they are used.

    names: those that are wanted; by default all.
    """
    try:
        with open(path, "rb") as file:
            _check_digest(path, file)
            file.seek(len(_MAGIC) + 65)
            with np.load(file, allow_pickle=False) as content:
                check_unpacked(content.zip)
                there = {name.replace("|", "/"): name for name in content.files}
                wanted = there.keys() if names is None else there.keys() & names
                return {name: spill_to_disk(content[there[name]]) for name in there if name in wanted}
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}.") from error


def _check_content(path: Path) -> None:
    try:
        with open(path, "rb") as file:
            _check_digest(path, file)
    except OSError as error:
        raise unreadable(path, error) from error


def _check_digest(path: Path, file: IO[bytes]) -> None:
    magic, expected, digest = file.read(len(_MAGIC)), file.read(65), hashlib.sha256()
    if magic not in _KNOWN and magic.startswith(b"unbounded "):
        raise RunError(f"{path} was written by a later version of unbounded; go on with that one.")
    if magic not in _KNOWN:
        raise RunError(f"{path} is damaged: it does not begin as files of a run do; {RESTORE}.")
    while part := file.read(2**20):
        digest.update(part)
    # mutant: checksum
    if digest.hexdigest().encode() + b"\n" != expected:
        raise RunError(f"{path} is damaged (its checksum does not match); {RESTORE}.")


class RunStore:
    """The folder of a run."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def prepare(self, config: Mapping[str, Any]) -> None:
        """Start a new run here; refuse to overwrite another one, or to adopt its chains."""
        if self.exists():
            raise RunError(f"{self.path} already holds a run; resume it or choose another directory.")
        for index in self.chains():  # mutant: adopted chains
            if not self._chain(index, config).is_own():
                raise RunError(
                    f"{self.path / 'run.json'} is missing, and {self.path / f'chain-{index}'} is of a run with other "
                    "settings or data; restore run.json from a backup or choose another directory."
                )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            content = json.dumps(with_checksum({FORMAT: _LAYOUT, **config}), indent=2) + "\n"
            write_whole(self.path / "run.json", lambda file: file.write(content.encode()))
        except OSError as error:
            raise RunError(f"cannot write to the run directory {self.path}: {error.strerror or error}.") from error

    def withdraw(self) -> None:
        """Undo what `prepare` began, where no chain has a first state, so that there is nothing to resume."""
        if any(self.path.glob("chain-*/checkpoint.ub")):
            return
        for name in ("run.json", "about.json", "progress.json"):
            (self.path / name).unlink(missing_ok=True)
        for chain in self.chains():
            with suppress(OSError):  # not empty: somebody else has put something there
                (self.path / f"chain-{chain}" / "snapshots").rmdir()
                (self.path / f"chain-{chain}").rmdir()

    def exists(self) -> bool:
        return (self.path / "run.json").exists()

    def config(self) -> dict[str, Any]:
        """What the run was asked for."""
        return {name: value for name, value in self._written().items() if name != FORMAT}

    def _written(self) -> dict[str, Any]:
        """run.json, after its digest was compared."""
        path = self.path / "run.json"
        if not self.exists():
            if any(map(self.has_chain, self.chains())):
                raise RunError(f"{path} is missing, although there are chains; {RESTORE} elsewhere.")
            raise RunError(f"{self.path} holds no run (run.json is missing).")
        try:
            config = parsed(read_file(path))
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}; {RESTORE}.") from error
        if not isinstance(config, dict):
            raise RunError(f"{path} is damaged: it is not the configuration of a run; {RESTORE}.")
        # mutant: own configuration
        if not is_as_written(config):
            raise RunError(f"{path} was changed; {RESTORE}.")
        if config.get(FORMAT, _LAYOUT) != _LAYOUT:
            raise RunError(f"{path} was written by a later version of unbounded; go on with that one.")
        return {name: value for name, value in config.items() if name != CHECKSUM}

    @property
    def is_older(self) -> bool:
        """Whether it was begun by a version whose results have no digests."""
        return FORMAT not in self._written()

    def grow(self, config: Mapping[str, Any]) -> None:
        """Record the length of a run that was extended."""
        fixed = {name: value for name, value in self._written().items() if name not in EXTENSIBLE}
        write_json(self.path / "run.json", fixed | {name: config[name] for name in EXTENSIBLE if name in config})

    def n_draws(self) -> int:
        """Draws of the longest chain, as far as checkpoints count them."""
        return max((self.chain(index).count() for index in self.chains()), default=0)

    def chains(self) -> list[int]:
        """The numbers of the chains that have a folder."""
        found = [folder.name[6:] for folder in self.path.glob("chain-*") if folder.is_dir()]
        return sorted(int(number) for number in found if number.isdecimal() and number == str(int(number)))

    def own_chains(self) -> list[ChainStore]:
        """The chains that exist; an error if there are more than the run was asked for."""
        asked = self.config().get("n_chains")
        for index in self.chains():
            # mutant: strange chains
            if isinstance(asked, int) and index >= asked:
                raise RunError(
                    f"{self.path / f'chain-{index}'} is not of this run, which has n_chains={asked}; remove it."
                )
        return [self.chain(index) for index in self.chains()]

    def has_chain(self, index: int) -> bool:
        return (self.path / f"chain-{index}" / "checkpoint.ub").exists()

    def folders(self) -> list[Path]:
        """The folders that runs write to, as far as they exist."""
        chains = [self.path / f"chain-{index}" for index in self.chains()]
        inside = [chain / name for chain in chains for name in ("snapshots", "assignments")]
        found = [self.path, *chains, *inside, *(self.path / name for name in SHARD_FOLDERS)]
        return [folder for folder in found if folder.is_dir()]

    def note(self, about: Mapping[str, Any]) -> None:
        """Write about.json: where this session runs."""
        write_json(self.path / "about.json", about)

    def save_shards(self, folder: str, values: Array, edges: Array) -> None:
        """The point estimate for every row, in a file for each shard; the list of files is written last."""
        where = self.path / folder
        try:
            where.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write to the run directory {where}: {error.strerror or error}.") from error
        shards = []
        for p, (start, stop) in enumerate(pairwise(edges.tolist())):
            name = f"shard-{p:05d}.npy"
            write_file(where / name, partial(np.save, arr=values[start:stop], allow_pickle=False))
            shards.append({"file": name, "first": start, "rows": stop - start})
        write_json(where / "shards.json", shards)

    def chain(self, index: int) -> ChainStore:
        return self._chain(index, self.config())

    def _chain(self, index: int, config: Mapping[str, Any]) -> ChainStore:
        fixed = {name: value for name, value in config.items() if name not in EXTENSIBLE} | {"chain": index}
        return ChainStore(self.path / f"chain-{index}", json.dumps(fixed, sort_keys=True))


class ChainStore:
    """The folder of one chain. Its checkpoint says which run it belongs to, and what else the folder must hold."""

    def __init__(self, path: Path, run: str = ""):
        self.path = path
        self._run = np.frombuffer(hashlib.sha256(run.encode()).digest(), np.uint8)
        self._appended = {name: _Appended() for name in ("trace.jsonl", "assignments.bin")}
        self._whole: dict[str, str] = {}  # digests of snapshots and matrices, by name
        self._dropped: list[str] = []  # names of snapshots that the next checkpoint will not need

    def prepare(self) -> None:
        """Make the folders; readers make none."""
        try:
            (self.path / "snapshots").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write to the run directory {self.path}: {error.strerror or error}.") from error

    # ---- checkpoints, which know the other files

    def checkpoint(self) -> dict[str, Array] | None:
        """The last checkpoint, or None; an error where it, or a file that it lists, has changed."""
        path = self.path / "checkpoint.ub"
        if not path.exists():
            if self._lines(None) or self._all_numbered("snapshots"):
                raise RunError(f"{path} is missing, although there are draws; {RESTORE} elsewhere.")
            return None
        arrays = read_arrays(path)
        # mutant: own checkpoint
        if not np.array_equal(arrays.get("run", ()), self._run):
            raise RunError(
                f"{path} belongs to another run, or run.json was changed; restore the run's own files or fit again."
            )
        if "files" in arrays:  # older checkpoints know no other files
            files = json.loads(arrays["files"].tobytes())
            self._check(files, int(arrays["n_draws"]))
            self._whole, self._dropped = files["whole"], files.get("dropped", [])
        return arrays

    def count(self) -> int:
        """How many draws there are: those that the checkpoint counts. What is behind them will be made anew."""
        path = self.path / "checkpoint.ub"
        return int(read_arrays(path, ["n_draws"]).get("n_draws", 0)) if path.exists() else 0

    def is_own(self) -> bool:
        """Whether the checkpoint, if there is one, is of the run that this store was made for."""
        path = self.path / "checkpoint.ub"
        return not path.exists() or np.array_equal(read_arrays(path, ["run"]).get("run", ()), self._run)

    def stamp(self) -> str:
        """Changes with every checkpoint."""
        return _digest_of(self.path / "checkpoint.ub")

    def check(self, seen: Collection[str] = ()) -> set[str]:
        """Check every byte that the checkpoint relies on; returns digests. seen: those of whole draws that need not be
        read again."""
        stamp = self.stamp()
        if self.checkpoint() is None:
            return set()
        # mutant: whole draws looked at
        for name in (name for name, digest in self._whole.items() if digest not in seen):
            _check_content(self.path / name)
        return {stamp, *self._whole.values()}

    def save_checkpoint(self, arrays: Arrays) -> None:
        """Everything that the checkpoint relies on reaches the disk before it does."""
        try:
            for name in self._appended:
                if (self.path / name).exists():
                    with open(self.path / name, "rb") as file:
                        os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"could not write the trace in {self.path}: {error.strerror or error}.") from error
        # mutant: checkpoint appended
        appended = {name: [file.length, file.digest.hexdigest()] for name, file in self._appended.items()}
        files = {"appended": appended, "whole": self._whole, "dropped": self._dropped}
        about = {"files": files, "versions": versions()}
        packed = {name: np.frombuffer(json.dumps(value).encode(), np.uint8) for name, value in about.items()}
        write_arrays(self.path / "checkpoint.ub", {**arrays, **packed, "run": self._run})
        self._remove_dropped()  # no sooner: the checkpoint before this one relied on them

    def _check(self, files: Mapping[str, Any], count: int) -> None:
        for name, (length, digest) in files["appended"].items():
            if length and _Appended.of(self.path / name, length).digest.hexdigest() != digest:
                raise RunError(f"{self.path / name} is damaged: it was changed or cut; {RESTORE}.")
        for name, digest in files["whole"].items():
            # mutant: whole digests
            if _digest_of(self.path / name) != digest:
                raise RunError(f"{self.path / name} is damaged or missing; {RESTORE}.")
        for folder in ("snapshots", "assignments"):
            for draw, path in self._all_numbered(folder).items():
                known = (*files["whole"], *files.get("dropped", ()))
                # mutant: stray draws
                if draw < count and f"{folder}/{path.name}" not in known:
                    raise RunError(f"{path} is not of this run; remove it.")

    # ---- the clock

    def clock(self) -> Clock:
        """The time that the chain has taken up to its checkpoint, as far as it was recorded."""
        saved = read_json(self.path / "timing.json")
        seconds, rounds = saved.get("seconds"), saved.get("rounds")
        numbers = seconds.items() if isinstance(seconds, dict) else ()
        known = {name: float(value) for name, value in numbers if name in PHASES and isinstance(value, int | float)}
        return Clock(known, rounds if isinstance(rounds, int) else 0)

    def save_clock(self, clock: Clock) -> None:
        rounded = {name: round(value, 6) for name, value in clock.seconds.items()}
        write_json(self.path / "timing.json", {"rounds": clock.rounds, "seconds": rounded})

    # ---- draws

    def append_draw(self, draw: int, scalars: Mapping[str, float], assignments: Array | None) -> None:
        self._append("trace.jsonl", json.dumps({"draw": draw, **scalars}).encode() + b"\n")
        if assignments is not None and assignments.ndim == 1:
            self._append("assignments.bin", np.ascontiguousarray(assignments, dtype="<i4").tobytes())
        if assignments is not None and assignments.ndim == 2:
            small = assignments.dtype == np.uint8
            self._save_whole("assignments", draw, packed_entries(assignments) if small else {"Z": assignments})

    def _append(self, name: str, content: bytes) -> None:
        try:
            with open(self.path / name, "ab") as file:
                file.write(content)
        except OSError as error:
            raise RunError(f"could not write the trace in {self.path}: {error.strerror or error}.") from error
        self._appended[name].add(content)

    def draws(self, count: int | None = None) -> list[dict[str, float]]:
        """The first `count` draws of the trace, or all complete lines."""
        draws = []
        for number, line in enumerate(self._lines(count)):
            try:
                draw = parsed(line)
            except ValueError:
                draw = None
            if not isinstance(draw, dict):
                raise RunError(f"{self.path / 'trace.jsonl'} is damaged: line {number + 1} is not a draw; {RESTORE}.")
            if draw.pop("draw", number) != number:
                raise RunError(f"{self.path / 'trace.jsonl'} is damaged: draw {number} is not in its place; {RESTORE}.")
            draws.append(draw)
        return draws

    def _lines(self, count: int | None) -> list[bytes]:
        path = self.path / "trace.jsonl"
        lines = read_file(path).splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if count is not None and len(whole) < count:
            raise RunError(f"{path} is damaged: it has {len(whole)} draws, the checkpoint {count}; {RESTORE}.")
        return whole[:count]

    def assignments(self, n_rows: int, count: int) -> list[Array]:
        """Assignments of the first `count` draws: labels, or matrices Z."""
        path = self.path / "assignments.bin"
        if not path.exists() and self._all_numbered("assignments"):
            files = (self._name("assignments", draw) for draw in range(count))
            return [spill_to_disk(unpacked_entries(read_arrays(path))) for path in files]
        if count == 0:
            return []
        if not path.exists() or path.stat().st_size < 4 * n_rows * count:
            raise RunError(f"{path} is damaged: it has fewer draws than the checkpoint; {RESTORE}.")
        whole = allocate((count, n_rows), "<i4")
        with open(path, "rb") as file:
            file.readinto(whole.reshape(-1).view(np.uint8).data)
        return list(whole)

    def rewind(self, count: int, n_rows: int) -> list[dict[str, float]]:
        """Cut everything back to the draws that the checkpoint lists: the rest will be drawn again, bit for bit."""
        kept = self.draws(count)
        lengths = {"trace.jsonl": sum(map(len, self._lines(count))), "assignments.bin": 4 * n_rows * count}
        try:
            for name, length in lengths.items():
                path = self.path / name
                if path.exists() and path.stat().st_size > length:
                    os.truncate(path, length)  # mutant: rewind cut
                self._appended[name] = _Appended.of(path, length)
            self._remove_dropped()
            for folder in ("snapshots", "assignments"):
                for draw, path in self._all_numbered(folder).items():
                    if draw >= count:
                        path.unlink()
                    else:
                        self._whole[f"{folder}/{path.name}"] = _digest_of(path)
        except OSError as error:
            raise RunError(f"could not write the trace in {self.path}: {error.strerror or error}.") from error
        return kept

    # ---- snapshots

    def save_snapshot(self, draw: int, arrays: Arrays) -> None:
        self._save_whole("snapshots", draw, arrays)

    def drop_snapshot(self, draw: int) -> None:
        """Forget a snapshot; its file stays until a checkpoint no longer needs it."""
        name = f"snapshots/{self._name('snapshots', draw).name}"
        del self._whole[name]
        self._dropped.append(name)  # mutant: dropped later

    def _remove_dropped(self) -> None:
        for name in self._dropped:
            (self.path / name).unlink(missing_ok=True)
        self._dropped = []

    def snapshots(self) -> dict[int, dict[str, Array]]:
        """The snapshots that the checkpoint lists, by draw."""
        return {
            draw: read_arrays(path)
            for draw, path in self._all_numbered("snapshots").items()
            if f"snapshots/{path.name}" in self._whole
        }

    def _save_whole(self, folder: str, draw: int, arrays: Arrays) -> None:
        path = self._name(folder, draw)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"could not write {path}: {error.strerror or error}.") from error
        self._whole[f"{folder}/{path.name}"] = write_arrays(path, arrays)

    def _name(self, folder: str, draw: int) -> Path:
        return self.path / folder / f"{draw:06d}.ub"

    def _all_numbered(self, folder: str) -> dict[int, Path]:
        """The files of a folder, by the number of their draw."""
        found = sorted(self.path.glob(f"{folder}/*.ub"))
        for path in found:
            if not path.stem.isdecimal():
                raise RunError(f"{path} is not of this run; remove it.")
        return {int(path.stem): path for path in found}


class _Appended:
    """How much of a file the chain has written, and a digest of that."""

    def __init__(self) -> None:
        self.length, self.digest = 0, hashlib.sha256()

    def add(self, content: bytes) -> None:
        self.length += len(content)
        self.digest.update(content)

    @classmethod
    def of(cls, path: Path, length: int) -> _Appended:
        """The first `length` bytes of a file, or as many as there are."""
        known = cls()
        try:
            with open(path, "rb") as file:
                while known.length < length and (content := file.read(min(1 << 20, length - known.length))):
                    known.add(content)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unreadable(path, error) from error
        return known


def _digest_of(path: Path) -> str:
    """The digest in the header of a file, with which `read_arrays` compares the content."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC) + 64)[len(_MAGIC) :].decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise unreadable(path, error) from error


def warn_of_other_versions(saved: Arrays, path: Path) -> None:
    """Other versions of libraries may round differently: the chain stays right, but is not that of one session."""
    before = json.loads(saved["versions"].tobytes()) if "versions" in saved else versions()
    changed = [f"{name} {before[name]}, now {now}" for name, now in versions().items() if before.get(name, now) != now]
    if changed:
        warnings.warn(
            f"{path} was written with {', '.join(changed)}; from here on draws may differ in their last digits from "
            "those of an uninterrupted run.", RunWarning, stacklevel=2,
        )  # fmt: skip
