"""Run commands of nsysconv in a process that lacks what only POSIX has, as Windows does.

python without_posix.py reads lines of commands from stdin, words in JSON, and writes a line of JSON for
each: the exit status, what came on stdout and what on stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from dataclasses import astuple
from pathlib import Path

MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
OF_OS = (
    "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "chown", "fchmod", "fchown", "fork", "forkpty", "getegid",
    "geteuid", "getgid", "getpgid", "getuid", "killpg", "link", "mkfifo", "posix_spawn", "pread",
    "preadv", "pwrite", "pwritev", "sched_getaffinity", "setsid", "statvfs",
)  # fmt: skip
OF_SIGNAL = (
    "SIGALRM", "SIGCHLD", "SIGHUP", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "pthread_sigmask",
    "setitimer",
)  # fmt: skip


def remove() -> None:
    """Remove all of these from this process."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


if __name__ == "__main__":
    remove()
    # It has another kind of lock on Windows, and here neither.
    warnings.filterwarnings("ignore", "only soft file lock")
    from run_command import run

    for line in sys.stdin:
        print(json.dumps(astuple(run(*json.loads(line), cwd=Path.cwd()))), flush=True)
