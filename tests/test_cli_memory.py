"""When a command looks for garbage: not while it loads, nor in what is loaded."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, few

from nsysconv.cli import runtime
from nsysconv.errors import UsageError

PROFILE = str(FIXTURES / "kineto/basic-2.13.json")


def run(code: str) -> list[str]:
    """The words that a program prints last."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=CHILD_ENVIRONMENT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("command", few(["report", "info"], 1))
def test_garbage_is_looked_for_when_the_work_begins(command: str) -> None:
    found = run(f"""
import atexit, gc, sys
from nsysconv.cli import commands, lookups
from nsysconv.cli import main
found = []
def begun(begin=commands.begin_work):
    found.extend([gc.isenabled(), gc.get_freeze_count() > 10_000])
    begin()
    found.extend([gc.isenabled(), gc.get_freeze_count() > 10_000])
commands.begin_work = lookups.begin_work = begun
atexit.register(lambda: print(*found))
sys.argv = ["nsysconv", {command!r}, {PROFILE!r}]
main()
""")
    assert found == ["False", "False", "True", "True"]


def test_where_garbage_was_looked_for_all_along_nothing_changes() -> None:
    """As in a program that calls the commands."""
    found = run("""
import gc
from nsysconv.cli.runtime import begin_work
before = gc.get_freeze_count()  # Python 3.12 freezes objects of its own
begin_work()
print(gc.isenabled(), gc.get_freeze_count() - before)
""")
    assert found == ["True", "0"]


@pytest.mark.parametrize(("asked", "refused"), [("1", False), ("", True), ("64", True)])
def test_many_cores_take_addresses_only_where_numpy_starts_a_thread_for_each(
    monkeypatch: pytest.MonkeyPatch, asked: str, refused: bool
) -> None:
    monkeypatch.setattr(runtime, "cores", lambda: 128)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", asked)
    monkeypatch.setattr(runtime, "address_limit", lambda: 1 << 30)
    with pytest.raises(UsageError, match="1024 MB") if refused else nullcontext():
        runtime.check_addresses()
