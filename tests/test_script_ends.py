"""Scripts end soon after their last line, however they end and whatever they left open."""

import subprocess
import sys
import textwrap
import time
from itertools import product

import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, NSYS, by_turns, few

EXPORT = NSYS / "ranges-3.0.0.sqlite"
TRACE = FIXTURES / "kineto" / "recorded-training.json.gz"

_SECONDS = 4.0
"""From a script's last line to the end of its process: a second on an idle machine."""

_OPENED = "profile = nsysconv.open(EXPORT); profile.report('kernels')\n"

# How a script ends: its text, and its exit status. What it leaves open is opened before.
ENDINGS = {
    "closed": ("with nsysconv.open(EXPORT) as profile: profile.report('kernels')", 0),
    "closed-twice": (_OPENED + "profile.close(); profile.close()", 0),
    "export-left-open": (_OPENED, 0),
    "trace-left-open": ("profile = nsysconv.open(TRACE); profile.report('operators')", 0),
    "store-left-open": (
        "nsysconv.import_files([EXPORT], 'left.db')\n"
        "profile = nsysconv.open('left.db'); profile.report('kernels')", 0),
    "several-left-open": ("kept = [nsysconv.open(EXPORT) for _ in range(8)]", 0),
    "private-copy-left-open": (_OPENED + "profile.sql('select count(*) from kernel')", 0),
    "rows-on-request-left-open": (
        "profile = nsysconv.open(TRACE, include='python_functions')\n"
        "profile.report('modules')", 0),
    "deleted": (_OPENED + "del profile; gc.collect()", 0),
    "cycle": (_OPENED + "ring = [profile]; ring.append(ring); del ring, profile", 0),
    "exception": (_OPENED + "last_line(); raise ValueError('meant')", 1),
    "sys-exit": (_OPENED + "last_line(); sys.exit(3)", 3),
    "interrupted": (_OPENED + "last_line(); signal.raise_signal(signal.SIGINT)", -2),
    "used-by-atexit": (_OPENED + "atexit.register(profile.report, 'transfers')", 0),
    "generator-left-half-way": (
        "def rows():\n"
        "    with nsysconv.open(EXPORT) as profile:\n"
        "        for name in ('kernels', 'transfers'):\n"
        "            yield profile.report(name)\n"
        "left = rows(); next(left)", 0),
    "batches-left-half-way": (
        _OPENED + "left = profile.profile.batches('kernel', 2); next(left)", 0),
    "thread-that-has-ended": (
        "def work():\n"
        "    global profile\n"
        "    profile = nsysconv.open(EXPORT); profile.report('kernels')\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()", 0),
    "thread-that-ends-later": (
        "def work(ready):\n"
        "    profile = nsysconv.open(EXPORT); ready.set()\n"
        "    time.sleep(0.3); profile.report('kernels')\n"
        "ready = threading.Event()\n"
        "threading.Thread(target=work, args=(ready,)).start(); ready.wait()", 0),
    "daemon-thread-at-work": (
        "def work(ready):\n"
        "    profile = nsysconv.open(EXPORT); ready.set()\n"
        "    while True: profile.forget(); profile.report('kernels')\n"
        "ready = threading.Event()\n"
        "threading.Thread(target=work, args=(ready,), daemon=True).start(); ready.wait()", 0),
    "comparison": ("nsysconv.compare(EXPORT, EXPORT); left = nsysconv.open(EXPORT)", 0),
}  # fmt: skip

_SCRIPT = """\
import atexit, gc, signal, sys, threading, time
import nsysconv

EXPORT, TRACE = sys.argv[1:3]


def last_line():
    print(time.time(), flush=True)


{body}
last_line()
"""


# Others end in the same ways.
ONE_OF_EACH = {"store-left-open", "interrupted", "thread-that-ends-later"}
# As a script, and as `python -c` with warnings as errors.
TURNS = by_turns([each for each in ENDINGS if each in ONE_OF_EACH], ["", "-Werror"], 2)


@pytest.mark.parametrize(
    ("ending", "options"),
    [*TURNS, *few(product([each for each in ENDINGS if each not in ONE_OF_EACH], ["", "-Werror"]), 0)],
)
def test_script_ends_soon_after_its_last_line(ending, options, tmp_path):
    body, status = ENDINGS[ending]
    script = _SCRIPT.format(body=body)
    if options:
        command = [sys.executable, options, "-c", script]
    else:
        (tmp_path / "script.py").write_text(textwrap.dedent(script))
        command = [sys.executable, "script.py"]
    done = subprocess.run(
        [*command, str(EXPORT), str(TRACE)],
        cwd=tmp_path, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ended = time.time()
    assert done.returncode == status, done.stderr
    assert "Exception ignored" not in done.stderr
    assert status or not done.stderr
    assert ended - float(done.stdout.split()[0]) < _SECONDS
