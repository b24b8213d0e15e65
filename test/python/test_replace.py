# test_replace.py - whatever fails or stops, a path has the old bytes or the new ones.
import errno
import itertools
import os
import subprocess
import sys

import pytest

from weir import replace

OLD, NEW = b"old" * 1000, b"new" * 2000
CALLS = ["open", "fsync", "link", "replace", "unlink"]      # what replaced() asks of the system


def save(path, keep):
    with replace.replaced(path, keep) as f:
        f.write(NEW)


class Refused:
    """The nth call of os.NAME and all that follow it fail."""

    def __init__(self, monkeypatch, name, nth):
        self.real, self.left, self.failed = getattr(os, name), nth, 0
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments, **options):
        self.left -= 1
        if self.left >= 0:
            return self.real(*arguments, **options)
        self.failed += 1
        raise OSError(errno.EIO, "refused")


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_each_call_fails(tmp_path, monkeypatch, name, keep):
    """Then the caller is told, and no other file is left, except by an unlink that fails."""
    for nth in itertools.count():
        path = tmp_path / f"{nth}.bin"
        path.write_bytes(OLD)
        with monkeypatch.context() as patch:
            refused = Refused(patch, name, nth)
            try:
                save(path, keep)
            except OSError as error:
                assert error.errno == errno.EIO and refused.failed
            else:
                assert not refused.failed
        assert path.read_bytes() in (OLD, NEW)
        if not refused.failed:
            assert path.read_bytes() == NEW
            return
        if name != "unlink":
            assert not list(tmp_path.glob("*.tmp*"))


def test_a_full_disk_leaves_the_old_file(tmp_path):
    """The kernel refuses bytes past a limit in the middle of the write."""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    program = ("import resource, signal, sys\n"
               "from weir import replace\n"
               "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
               "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
               "try:\n"
               "    with replace.replaced(sys.argv[1]) as f:\n"
               "        f.write(b'new' * 2000)\n"
               "except OSError as error:\n"
               "    print(error.strerror)\n")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True,
                          timeout=60)
    assert done.stdout == "File too large\n", done.stderr
    assert path.read_bytes() == OLD and [p.name for p in tmp_path.iterdir()] == ["file"]


def killed_at(path, keep, stop):
    """Saves in a child that dies before its system call number `stop`; whether it got there."""
    child = os.fork()
    if child == 0:
        count = itertools.count()

        def counted(real):
            def call(*arguments, **options):
                if next(count) == stop:
                    os._exit(9)
                return real(*arguments, **options)
            return call

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        save(path, keep)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


KILLER = """
import sys
sys.path.insert(0, sys.argv[1])
import test_replace as t
for keep in (False, True):
    seen = set()
    for stop in range(100):
        with open(sys.argv[2], "wb") as f:
            f.write(t.OLD)
        died = t.killed_at(sys.argv[2], keep, stop)
        with open(sys.argv[2], "rb") as f:
            found = f.read()
        assert found in (t.OLD, t.NEW), len(found)
        seen.add(found)
        if not died:
            assert found == t.NEW and stop >= 4
            break
    assert died is False and len(seen) == 2
print("whole")
"""


def test_killed_before_each_call(tmp_path):
    """In a program of its own, which opens no device, so that its children may be forks."""
    done = subprocess.run([sys.executable, "-c", KILLER, os.path.dirname(__file__),
                           tmp_path / "file"], capture_output=True, text=True, timeout=60)
    assert done.stdout == "whole\n", done.stdout + done.stderr
