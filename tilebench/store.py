"""The store of built kernels: an in-memory layer over `root/v<format>/<key>/` on disk.

An entry is a directory with `manifest.json` (the size and SHA-256 of each file) and raw files. It is written
beside its final place, synced, and renamed, so a reader sees all of it or nothing; every load checks the
digests, and a damaged entry is set aside and counted as a miss. Only what this user owns and nobody else can
write is read: a digest detects damage, the owner check keeps others out. Nothing here ever makes a run fail:
what cannot be read is a miss, what cannot be written stays in memory, and one warning says why.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

FORMAT = 1
MEMORY_ENTRIES = 512
MANIFEST, META = "manifest.json", "meta.json"
STALE_SECONDS = 3600
_POSIX = hasattr(os, "getuid")
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE_LIMIT = 1 << 30


class StoreWarning(UserWarning):
    """The store could not be used, or set a damaged entry aside. The kernel runs all the same."""


@dataclass(frozen=True)
class Entry:
    """A stored build: its files by name, and what was said of it (plain JSON data)."""

    files: Mapping[str, bytes]
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


class _Refused(Exception):
    """An entry or directory that must not be trusted; the text says why."""


class _Damaged(Exception):
    """An entry whose bytes are not the ones that were written."""


def make_key(*parts: str | bytes) -> str:
    """SHA-256 over the parts, each with its length: the generated source, flags, compiler version, target."""
    digest = hashlib.sha256(f"tilebench-{FORMAT}".encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Store:
    """Built kernels by key. root: the directory (None: memory only). Safe to use from several threads and
    processes.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._memory: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._swept = False

    @property
    def directory(self) -> Path | None:
        """Where entries of this format lie."""
        return None if self.root is None else self.root / f"v{FORMAT}"

    # ---------------------------------------------------------------- reading

    def get(self, key: str) -> Entry | None:
        """The entry, or None: absent, refused or damaged (then one warning says so). Never raises for the
        disk.
        """
        with self._lock:
            entry = self._memory.get(key)
            if entry is not None:
                self._memory.move_to_end(key)
                return entry
        if self.directory is None:
            return None
        try:
            entry = self._load(_plain_key(key))
        except _Refused as error:
            self._say("refused", f"the stored kernels in {self.root} are not used: {error}")
            return None
        except _Damaged as error:
            self._set_aside(key)
            self._say(key, f"a stored kernel was damaged ({error}); it is built again")
            return None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._say(
                    "read", f"the stored kernels in {self.root} cannot be read: {error.strerror or error}"
                )
            return None
        self._remember(key, entry)
        return entry

    def _load(self, key: str) -> Entry:
        directory = self.directory
        assert directory is not None
        assert self.root is not None
        if not _POSIX:
            return _read_entry(key, lambda name: (directory / key / name).read_bytes())
        _check_root(self.root)
        _check(os.lstat(directory), str(directory), is_directory=True)
        version = os.open(directory, os.O_RDONLY | _DIRECTORY)
        try:
            _check(os.fstat(version), str(directory), is_directory=True)
            try:
                entry = os.open(key, os.O_RDONLY | _DIRECTORY, dir_fd=version)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and _exists(key, version):
                    raise _Refused(
                        f"{key[:12]}... is not a directory of its own (a link or a file)"
                    ) from None
                raise
            try:
                _check(os.fstat(entry), key[:12], is_directory=True)
                return _read_entry(key, lambda name: _read_file(name, entry))
            finally:
                os.close(entry)
        finally:
            os.close(version)

    def _remember(self, key: str, entry: Entry) -> None:
        with self._lock:
            self._memory[key] = entry
            self._memory.move_to_end(key)
            while len(self._memory) > MEMORY_ENTRIES:
                self._memory.popitem(last=False)

    # ---------------------------------------------------------------- writing

    def put(self, key: str, files: Mapping[str, bytes], meta: Mapping[str, Any] | None = None) -> Entry:
        """Keep an entry, in memory always and on disk if it can be. meta: plain JSON data. Gives the
        entry.
        """
        entry = Entry(dict(files), dict(meta or {}))
        self._remember(_plain_key(key), entry)
        if self.directory is not None:
            try:
                self._write(key, entry)
            except _Refused as error:
                self._say("refused", f"the stored kernels in {self.root} are not used: {error}")
            except OSError as error:
                self._say(
                    "write",
                    f"built kernels stay in memory, {self.root} cannot be written: {error.strerror or error}",
                )
        return entry

    def _write(self, key: str, entry: Entry) -> None:
        directory = self.directory
        assert directory is not None
        assert self.root is not None
        self.root.parent.mkdir(parents=True, exist_ok=True)
        for path in (self.root, directory):
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
        if _POSIX:
            _check_root(self.root)
            _check(os.lstat(directory), str(directory), is_directory=True)
        self._sweep(directory)
        final = directory / key
        if final.exists():
            return
        temporary = directory / f".tmp-{os.getpid()}-{secrets.token_hex(8)}"
        files = {**entry.files, META: json.dumps(entry.meta, sort_keys=True).encode()}
        try:
            os.mkdir(temporary, 0o700)
            for name, data in files.items():
                _write_file(temporary / _plain_name(name), data)
            table = {n: {"size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()}
            manifest = {"format": FORMAT, "key": key, "files": table}
            _write_file(temporary / MANIFEST, json.dumps(manifest, sort_keys=True).encode())
            _sync_directory(temporary)
            try:
                os.rename(temporary, final)
            except OSError as error:
                # Another process was first: its copy is as good as ours.
                if (
                    error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.EACCES)
                    or not final.exists()
                ):
                    raise
            else:
                _sync_directory(directory)
        finally:
            if temporary.exists():
                shutil.rmtree(temporary, ignore_errors=True)

    def _set_aside(self, key: str) -> None:
        directory = self.directory
        assert directory is not None
        aside = directory / f".bad-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            os.rename(directory / key, aside)
        except OSError:
            return  # gone, or not ours to move: it stays a miss
        shutil.rmtree(aside, ignore_errors=True)

    def _sweep(self, directory: Path) -> None:
        """Remove what interrupted writers left behind, once for each Store."""
        if self._swept:
            return
        self._swept = True
        for name in _names(directory):
            if name.startswith((".tmp-", ".bad-")) and _is_stale(directory / name):
                shutil.rmtree(directory / name, ignore_errors=True)

    def clear(self) -> None:
        """Forget every entry, in memory and on disk. Safe while others read: they see a miss."""
        with self._lock:
            self._memory.clear()
        directory = self.directory
        if directory is None:
            return
        aside = directory.with_name(f".bad-{os.getpid()}-{secrets.token_hex(8)}")
        try:
            os.rename(directory, aside)
        except FileNotFoundError:
            return
        except OSError as error:
            self._say(
                "write", f"the stored kernels in {self.root} cannot be removed: {error.strerror or error}"
            )
            return
        shutil.rmtree(aside, ignore_errors=True)

    def _say(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._said:
                return
            self._said.add(about)
        warnings.warn(text, StoreWarning, stacklevel=4)


@cache
def store_at(root: Path | None) -> Store:
    """The Store of this process for a directory: one, so that its in-memory layer is shared."""
    return Store(root)


def current_store() -> Store:
    """The Store that the configuration names."""
    from tilebench import config

    return store_at(config.current().cache_dir)


# ------------------------------------------------------------------ files


def _plain_key(key: str) -> str:
    assert re.fullmatch(r"[0-9a-zA-Z]+", key), f"{key!r} is no key"
    return key


def _plain_name(name: str) -> str:
    assert name != MANIFEST, "the manifest is the store's own"
    assert re.fullmatch(r"\w[\w.-]*", name), f"{name!r} is no file name"
    return name


def _check_root(root: Path) -> None:
    """The root may be a link of this user's to somewhere else; what it leads to must be this user's alone."""
    if stat.S_ISLNK(os.lstat(root).st_mode) and os.lstat(root).st_uid != os.geteuid():
        raise _Refused(f"{root} is a link made by another user")
    _check(os.stat(root), str(root), is_directory=True)


def _check(status: os.stat_result, what: str, *, is_directory: bool) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _Refused(f"{what} is a link")
    if not (stat.S_ISDIR if is_directory else stat.S_ISREG)(status.st_mode):
        raise _Refused(f"{what} is not a {'directory' if is_directory else 'plain file'}")
    if status.st_uid != os.geteuid():
        raise _Refused(f"{what} belongs to another user (uid {status.st_uid})")
    if status.st_mode & 0o022:
        raise _Refused(
            f"{what} can be written by others (mode {status.st_mode & 0o777:o}); chmod go-w makes it usable"
        )


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read_file(name: str, directory: int) -> bytes:
    try:
        handle = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _Refused(f"{name} is a link") from None
        if error.errno == errno.ENOENT and name != MANIFEST:
            raise _Damaged(f"{name} is missing") from None
        raise
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        _check(status, name, is_directory=False)
        if status.st_size > _FILE_LIMIT:
            raise _Damaged(f"{name} is {status.st_size} bytes long")
        return file.read()


def _read_entry(key: str, read: Callable[[str], bytes]) -> Entry:
    try:
        manifest = json.loads(read(MANIFEST))
        table = cast("dict[str, dict[str, Any]]", manifest["files"])
        expected = [(_plain_name(name), int(row["size"]), str(row["sha256"])) for name, row in table.items()]
        if manifest["format"] != FORMAT or manifest["key"] != key:
            raise _Damaged("the manifest is of another entry")
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise _Damaged(f"its manifest does not parse: {type(error).__name__}") from None
    files: dict[str, bytes] = {}
    for name, size, digest in expected:
        data = read(name)
        if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
            raise _Damaged(f"{name} does not have the digest that was written")
        files[name] = data
    meta = cast("dict[str, Any]", json.loads(files.pop(META, b"{}")))
    return Entry(files, meta)


def _write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, _WRITE | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    if not _POSIX:
        return
    handle = os.open(path, os.O_RDONLY | _DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _names(directory: Path) -> Iterable[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return ()


def _is_stale(path: Path) -> bool:
    """Whether a working directory is an hour old, or its process (on this machine) is gone."""
    try:
        age = time.time() - os.lstat(path).st_mtime
        if abs(age) > STALE_SECONDS:
            return True
        os.kill(int(path.name.split("-")[1]), 0)
    except ProcessLookupError:
        return _POSIX
    except (OSError, ValueError, IndexError):
        return False
    return False
