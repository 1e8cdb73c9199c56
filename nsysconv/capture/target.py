"""Where the profiled program runs: the processes below the profiler's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

PROC = Path("/proc")
_TOOLS = ("nsys", "nvprof", "Qdstrm", "nsight-sys")


def find(profiler: int, program: Sequence[str], proc: Path = PROC) -> int | None:
    """The number of the process that runs `program` below the process `profiler`; None: there is none.

    The highest below it that has the program's arguments; where none has (programs may rename
    themselves), the highest that is no tool of the profiler's.
    """
    children = _children(proc)
    level = children.get(profiler, [])
    highest = None
    while level:
        for pid in level:
            if _runs(pid, program, proc):
                return pid
            if highest is None and not _is_tool(pid, proc):
                highest = pid
        level = [child for pid in level for child in children.get(pid, [])]
    return highest


def in_session(session: int, proc: Path = PROC) -> list[int]:
    """The processes of a session, zombies left out."""
    return [
        pid for pid, (_, own, state) in _processes(proc).items() if own == session and state != "Z"
    ]


def _children(proc: Path) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _, state) in sorted(_processes(proc).items()):
        if state != "Z":
            children.setdefault(parent, []).append(pid)
    return children


def _processes(proc: Path) -> dict[int, tuple[int, int, str]]:
    """Parent, session and state of every process."""
    found = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - thousands
    except OSError:  # a system without /proc
        return {}
    for name in names:
        try:
            stat = (proc / name / "stat").read_bytes()
            # The command stands in parentheses and may hold any bytes.
            state, parent, _, session, *_ = stat.rpartition(b")")[2].split()
            found[int(name)] = int(parent), int(session), state.decode()
        except (OSError, ValueError):  # it has ended
            continue
    return found


def _runs(pid: int, program: Sequence[str], proc: Path) -> bool:
    """Whether the process has the program's arguments, an interpreter's before them or not."""
    try:
        line = (proc / str(pid) / "cmdline").read_bytes().removesuffix(b"\0").split(b"\0")
    except OSError:
        return False
    wanted = [os.fsencode(argument) for argument in program]
    if len(line) < len(wanted) or line[len(line) - len(wanted) + 1 :] != wanted[1:]:
        return False
    name = os.path.basename(line[-len(wanted)])  # noqa: PTH119 - bytes
    # A tool of the profiler's may have the whole line behind its own options.
    return name == os.path.basename(wanted[0]) and not _is_tool(pid, proc)  # noqa: PTH119


def _is_tool(pid: int, proc: Path) -> bool:
    """Whether a process is the profiler's own, by the file it runs."""
    try:
        program = PurePath(os.readlink(proc / str(pid) / "exe"))  # noqa: PTH115 - may dangle
    except OSError:
        return False
    if program.name.startswith(_TOOLS):
        return True
    return any(part.lower().startswith("nsight-systems") for part in program.parts)
