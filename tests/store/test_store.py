"""The store's promises (a reader sees all of an entry or nothing; damage and strangers' files are never
used).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilebench import store as store_module
from tilebench.store import Entry, Store, StoreWarning, make_key

KEY = make_key("source", "flags")
FILES = {"kernel.cubin": bytes(range(256)) * 4, "kernel.ptx": b"ptx", "log.txt": b""}
META = {"arch": "sm_90a", "registers": 40}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def filled(root: Path) -> Path:
    """The directory of one written entry."""
    Store(root).put(KEY, FILES, META)
    directory = Store(root).directory
    assert directory is not None
    return directory / KEY


def quiet(action: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoreWarning)
        return action()


def test_what_is_put_is_got_by_another_process_too(root: Path) -> None:
    filled(root)
    assert quiet(lambda: Store(root).get(KEY)) == Entry(FILES, META)


def test_an_absent_key_is_a_quiet_miss(root: Path) -> None:
    assert quiet(lambda: Store(root).get(KEY)) is None
    filled(root)
    assert quiet(lambda: Store(root).get(make_key("other"))) is None


def test_without_a_root_entries_stay_in_memory() -> None:
    memory = Store(None)
    memory.put(KEY, FILES)
    assert memory.get(KEY) is not None
    assert Store(None).get(KEY) is None


def test_the_memory_layer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MEMORY_ENTRIES", 4)
    memory = Store(None)
    for i in range(9):
        memory.put(make_key(str(i)), {"a": b"x"})
    assert [memory.get(make_key(str(i))) is not None for i in range(9)] == [False] * 5 + [True] * 4


def test_directories_are_for_this_user_alone(root: Path) -> None:
    entry = filled(root)
    for path in (root, entry.parent, entry):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in entry.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_in_an_entry_can_be_executed_by_a_loader(root: Path) -> None:
    source = Path(store_module.__file__).read_text()
    assert "pickle" not in source
    assert "marshal" not in source
    assert {p.name for p in filled(root).iterdir()} == {*FILES, "manifest.json", "meta.json"}


# ------------------------------------------------------------------ damage


def damaged(root: Path) -> Store:
    """A fresh Store that must find the entry damaged, say so once, and build again."""
    fresh = Store(root)
    with pytest.warns(StoreWarning, match="damaged") as said:
        assert fresh.get(KEY) is None
    assert len(said) == 1
    assert not (fresh.directory / KEY).exists()  # type: ignore[operator]
    fresh.put(KEY, FILES, META)
    assert quiet(lambda: Store(root).get(KEY)) == Entry(FILES, META)
    return fresh


@pytest.mark.parametrize("name", [*FILES, "meta.json"])
def test_a_flipped_bit_anywhere_is_found(root: Path, name: str) -> None:
    entry = filled(root)
    data = (entry / name).read_bytes()
    for position in range(0, len(data), max(1, len(data) // 12)):
        broken = bytearray(data)
        broken[position] ^= 1 << position % 8
        (entry / name).write_bytes(bytes(broken))
        damaged(root)


def test_a_flipped_byte_in_the_manifest_never_gives_wrong_bytes(root: Path) -> None:
    entry = filled(root)
    data = (entry / "manifest.json").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        for position in range(len(data)):
            shutil.rmtree(root)
            filled(root)
            broken = bytearray(data)
            broken[position] ^= 4
            (entry / "manifest.json").write_bytes(bytes(broken))
            assert Store(root).get(KEY) in (None, Entry(FILES, META))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: (e / "kernel.cubin").write_bytes(b""),
        lambda e: (e / "kernel.cubin").write_bytes(FILES["kernel.cubin"][:-1]),
        lambda e: (e / "kernel.cubin").write_bytes(FILES["kernel.cubin"] + b"\0"),
        lambda e: (e / "kernel.cubin").unlink(),
        lambda e: (
            (e / "kernel.cubin").rename(e / "x"),
            (e / "kernel.ptx").rename(e / "kernel.cubin"),
            (e / "x").rename(e / "kernel.ptx"),
        ),
        lambda e: (e / "manifest.json").write_text("{}"),
        lambda e: (e / "manifest.json").write_text("[" * 100_000),
        lambda e: (e / "manifest.json").write_bytes(b"\xff\xfe"),
        lambda e: (e / "manifest.json").write_text(
            json.dumps({"format": 1, "key": KEY, "files": {"../x": {"size": 1, "sha256": ""}}})
        ),
    ],
)
def test_truncated_missing_swapped_and_made_up_files_are_found(
    root: Path, change: Callable[[Path], Any]
) -> None:
    entry = filled(root)
    change(entry)
    damaged(root)


def test_an_entry_under_another_key_is_not_taken(root: Path) -> None:
    entry = filled(root)
    other = make_key("other")
    shutil.copytree(entry, entry.parent / other)
    with pytest.warns(StoreWarning, match="another entry"):
        assert Store(root).get(other) is None


# ------------------------------------------------------------------ strangers


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
@pytest.mark.parametrize("which", ["root", "version", "entry"])
def test_what_others_could_have_written_is_refused(root: Path, which: str, mode: int) -> None:
    entry = filled(root)
    {"root": root, "version": entry.parent, "entry": entry}[which].chmod(mode)
    fresh = Store(root)
    with pytest.warns(StoreWarning, match="written by others") as said:
        assert [fresh.get(KEY), fresh.get(KEY)] == [None, None]
    assert len(said) == 1
    assert entry.exists()  # somebody else's: left alone


def test_a_file_that_others_can_write_is_refused(root: Path) -> None:
    entry = filled(root)
    (entry / "kernel.cubin").chmod(0o666)
    with pytest.warns(StoreWarning, match="written by others"):
        assert Store(root).get(KEY) is None


@pytest.mark.parametrize("which", ["entry", "file", "manifest", "version"])
def test_links_are_refused(root: Path, tmp_path: Path, which: str) -> None:
    entry = filled(root)
    path = {
        "entry": entry,
        "file": entry / "kernel.cubin",
        "manifest": entry / "manifest.json",
        "version": entry.parent,
    }[which]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(StoreWarning):
        assert Store(root).get(KEY) is None


def test_another_users_directory_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(root)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    fresh = Store(root)
    with pytest.warns(StoreWarning, match="another user"):
        assert fresh.get(KEY) is None
    fresh.put(make_key("mine"), FILES)
    assert fresh.get(make_key("mine")) is not None  # from memory
    assert len(list(root.glob("v*/*"))) == 1


def test_a_fifo_in_an_entry_does_not_hang(root: Path) -> None:
    entry = filled(root)
    (entry / "kernel.cubin").unlink()
    os.mkfifo(entry / "kernel.cubin", 0o600)
    with pytest.warns(StoreWarning, match="plain file"):
        assert Store(root).get(KEY) is None


def test_a_pickle_is_bytes_like_any_other(root: Path) -> None:
    entry = filled(root)
    (entry / "manifest.json").write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    damaged(root)
    assert not Path("/tmp/never").exists()


# ------------------------------------------------------------------ a disk that fails


def steps(monkeypatch: pytest.MonkeyPatch, at: int, code: int) -> Callable[[], int]:
    """Make the `at`-th disk operation fail with `code`; gives a counter of the operations."""
    seen = 0

    def wrap(module: Any, name: str) -> None:
        plain = getattr(module, name)

        def failing(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == at:
                raise OSError(code, os.strerror(code))
            return plain(*args, **kwargs)

        monkeypatch.setattr(module, name, failing)

    for name in ("open", "fsync", "rename", "mkdir", "fdopen", "lstat"):
        wrap(os, name)
    return lambda: seen


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EBUSY, errno.ENOENT]
)
def test_any_failing_step_of_a_write_leaves_the_run_alone(tmp_path: Path, code: int) -> None:
    for step in range(1, 40):
        root = tmp_path / f"{code}-{step}"
        writer = Store(root)
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            count = steps(patch, step, code)
            writer.put(KEY, FILES, META)
            done = count() < step
        assert writer.get(KEY) == Entry(FILES, META)
        assert len(said) <= 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            assert Store(root).get(KEY) in (None, Entry(FILES, META))
        if done:
            return
    raise AssertionError("the write has more steps than were tried")


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOENT, errno.EBUSY, errno.ESTALE])
def test_any_failing_step_of_a_read_is_a_miss(root: Path, code: int) -> None:
    filled(root)
    for step in range(1, 40):
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count = steps(patch, step, code)
            found = Store(root).get(KEY)
            done = count() < step
        assert found in (None, Entry(FILES, META))
        if not (root / "v1" / KEY).exists():
            filled(root)
        if done:
            return
    raise AssertionError("the read has more steps than were tried")


def test_a_read_only_root_warns_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    writer = Store(root)
    with pytest.warns(StoreWarning, match="Read-only file system") as said:
        assert all(writer.put(make_key(str(i)), FILES) for i in range(5))
    assert len(said) == 1
    assert writer.get(make_key("3")) is not None


SMALL_DISK = """
import resource, signal, sys, warnings
from pathlib import Path
from tilebench.store import Store, make_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    store = Store(Path(sys.argv[1]))
    store.put(make_key("big"), {"a": b"x" * 10_000})
    store.put(make_key("big2"), {"a": b"x" * 10_000})
print(len(said), store.get(make_key("big")) is not None, Store(Path(sys.argv[1])).get(make_key("big")))
"""


def test_a_full_disk_costs_one_warning(root: Path) -> None:
    done = run(SMALL_DISK, str(root))
    assert done.stdout.split() == ["1", "True", "None"], done.stderr
    assert not list(root.glob("v1/*"))


def run(code: str, *arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **kwargs,
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from tilebench.store import Store, make_key
step, seen = int(sys.argv[2]), 0
def wrap(name):
    plain = getattr(os, name)
    def killing(*args, **kwargs):
        global seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*args, **kwargs)
    setattr(os, name, killing)
for name in ("open", "fsync", "rename", "mkdir", "fdopen", "lstat"):
    wrap(name)
files = {"kernel.cubin": bytes(range(256)) * 4, "kernel.ptx": b"ptx", "log.txt": b""}
Store(Path(sys.argv[1])).put(make_key("source", "flags"), files, {"arch": "sm_90a", "registers": 40})
print(seen)
"""


def test_a_writer_killed_at_any_step_leaves_nothing_or_all(tmp_path: Path) -> None:
    total = int(run(KILLED, str(tmp_path / "whole"), "0").stdout)
    for step in range(1, total + 1):
        root = tmp_path / str(step)
        assert run(KILLED, str(root), str(step)).returncode == -signal.SIGKILL
        found = quiet(lambda root=root: Store(root).get(KEY))
        assert found in (None, Entry(FILES, META))
        quiet(lambda root=root: Store(root).put(KEY, FILES, META))
        assert quiet(lambda root=root: Store(root).get(KEY)) == Entry(FILES, META)
        assert not list(root.glob("v1/.tmp-*")), "what the dead writer left is swept"


def test_old_remains_are_swept_and_young_ones_of_living_writers_are_not(root: Path) -> None:
    version = filled(root).parent
    old, young = version / ".tmp-1-old", version / f".tmp-{os.getpid()}-young"
    for path in (old, young):
        path.mkdir()
    long_ago = time.time() - 2 * store_module.STALE_SECONDS
    os.utime(old, (long_ago, long_ago))
    Store(root).put(make_key("next"), FILES)
    assert not old.exists()
    assert young.exists()


MANY = """
import sys, warnings
from pathlib import Path
from tilebench.store import Store, make_key
warnings.simplefilter("error")
root, worker = Path(sys.argv[1]), int(sys.argv[2])
bad = 0
for turn in range(60):
    store = Store(root)
    key = make_key("shared" if turn % 3 else f"{worker}", str(turn % 7))
    want = {"a": key.encode() * 50, "b": b""}
    found = store.get(key)
    if found is None:
        store.put(key, want)
    elif dict(found.files) != want:
        bad += 1
print(bad)
"""


def test_processes_share_a_store_without_errors(root: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(root), str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(6)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert (out.strip(), worker.returncode) == ("0", 0), err
    assert not [p for p in root.glob("v1/*") if p.name.startswith(".")]


def test_threads_share_a_store_without_errors(root: Path) -> None:
    shared = Store(root)
    wrong: list[object] = []

    def work(i: int) -> None:
        for turn in range(30):
            key = make_key(str(turn % 5))
            shared.put(key, {"a": key.encode()})
            found = shared.get(key)
            if found is None or found.files["a"] != key.encode():
                wrong.append((i, turn))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_clearing_while_others_read_is_a_miss_for_them(root: Path) -> None:
    stop = threading.Event()
    bad: list[object] = []

    def read() -> None:
        while not stop.is_set():
            found = Store(root).get(KEY)
            if found not in (None, Entry(FILES, META)):
                bad.append(found)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        readers = [threading.Thread(target=read) for _ in range(2)]
        for r in readers:
            r.start()
        for _ in range(40):
            Store(root).put(KEY, FILES, META)
            Store(root).clear()
        stop.set()
        for r in readers:
            r.join()
    assert not bad


def test_a_key_needs_every_part_and_their_borders() -> None:
    assert make_key("ab", "c") != make_key("a", "bc")
    assert make_key("a") != make_key("a", "")
    assert make_key("é") == make_key("é".encode())
    assert len(make_key()) == 64


@pytest.fixture(autouse=True)
def _restore_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_loose_umask_changes_nothing(root: Path) -> None:
    os.umask(0)
    entry = filled(root)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700
    assert quiet(lambda: Store(root).get(KEY)) == Entry(FILES, META)
