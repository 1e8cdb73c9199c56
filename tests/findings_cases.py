"""Made-up profiles in a few lines, and what a rule says of them.

    session [0, 1000)                             when the profiler's session was; else none is known
    without api_links                             a fact that is not recorded
    gpu sms=10 major=8 minor=0 memory=4096        what is known of the devices
    rank 1                                        what follows is a profile of its own, of this rank
    call cudaLaunchKernel [0, 5) #1 thread=2      a call, its correlation and result (result=701)
    kernel gemm [5, 20) #1 ×10 every 20 device=1  ten kernels, of correlations 1 to 10
    copy HtoD kind=Pageable bytes=64 [0, 5)       kind: of the host's memory
    os read [0, 5) thread=2                       a call of the operating system's runtime libraries
    runs [0, 5) cpu=1 then=Running                when a thread was on a CPU, and its state as it left
    set [0, 5)      graph [0, 5)      migration bytes=4096 [0, 5)      profiler [0, 5)
    collective allreduce bytes=4096 [0, 5)        what is recorded of a kernel's collective
    range NAME [0, 5)      operator NAME [0, 5) shapes=[[2,3]] types=["float"] strides=[[3,1]]
    memory 64 [5, 5) used=164 held=512 at=7       allocated (freed: -64), in use and held then, address
    → copy_bound saves 5                          or: costs 5; warns 90; says nothing; cannot look

Times are in µs. docs/definitions/findings.md and tests/findings/cases.toml are written so.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import small_store as small

from nsysconv.facts import Fact

_INTERVAL = re.compile(r"\[(\d+), (\d+)\)")
_REPEAT = re.compile(r"×(\d+) every (\d+)")
_CORRELATION = re.compile(r"#(\d+)(?=\s|$)")
_OPTION = re.compile(r"\b(\w+)=(\S+)")
_NS = 1000
_NAMED_WITH_OPTIONS = ("copy", "set", "migration", "kernel", "collective")
_NOT_BY_DEFAULT = frozenset({Fact.UTC})


@dataclass
class Part:
    """The profile of one rank, or the only one (rank None)."""

    rank: int | None
    rows: list[small.Row] = field(default_factory=list)


@dataclass
class Case:
    """A made-up run, and what a rule says of it: `verb` saves or costs `time` µs, warns with a value of
    so much, nothing, cannot."""

    parts: list[Part]
    rule: str
    verb: str
    time: int
    session: tuple[int, int] | None = None
    without: frozenset[Fact] = frozenset()
    gpu: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> Case:
    """Return the case that lines describe."""
    case = Case([Part(None)], "", "", 0)
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "→":
            _conclude(case, rest)
        elif word == "session":
            low, high = map(int, _INTERVAL.search(rest).groups())
            case.session = (low * _NS, high * _NS)
        elif word == "without":
            case.without |= frozenset(map(Fact, rest.split()))
        elif word == "gpu":
            names = {"sms": "sm_count", "major": "compute_major", "minor": "compute_minor",
                     "memory": "memory_bytes"}  # fmt: skip
            case.gpu |= {names[key]: int(value) for key, value in _OPTION.findall(rest)}
        elif word == "rank":
            if case.parts[-1].rank is None and not case.parts[-1].rows:
                case.parts.pop()
            case.parts.append(Part(int(rest)))
        else:
            case.parts[-1].rows += _events(word, rest)
    return case


def _conclude(case: Case, text: str) -> None:
    if match := re.fullmatch(r"(\w+) (saves|costs|warns) (\d+)", text):
        case.rule, case.verb, case.time = match[1], match[2], int(match[3])
    elif match := re.fullmatch(r"(\w+) (says nothing|cannot look)", text):
        case.rule, case.verb = match[1], match[2].split()[0]
    else:
        raise ValueError(text)


def _events(word: str, text: str) -> Iterator[small.Row]:
    low, high = map(int, _INTERVAL.search(text).groups())
    repeat = _REPEAT.search(text)
    count, every = map(int, repeat.groups()) if repeat else (1, 0)
    correlation = _CORRELATION.search(text[_INTERVAL.search(text).end() :])
    first = int(correlation[1]) if correlation else 0
    options = dict(_OPTION.findall(text[_INTERVAL.search(text).end() :]))
    head = text[: _INTERVAL.search(text).start()].strip()
    name_options = dict(_OPTION.findall(head)) if word in _NAMED_WITH_OPTIONS else {}
    options |= name_options
    name = head if word not in _NAMED_WITH_OPTIONS else _OPTION.sub("", head).strip()
    if word == "runs":
        where = {"cpu": int(options.get("cpu", 0)), "tid": int(options.get("thread", small.TID))}
        yield small.Switch(low * _NS, 1, **where)
        yield small.Switch(high * _NS, 0, state=options.get("then"), **where)
        return
    for i in range(count):
        at = ((low + every * i) * _NS, (high + every * i) * _NS)
        yield _event(word, name, at, first + i if first else 0, options)


def _event(
    word: str, name: str, at: tuple[int, int], correlation: int, given: dict[str, str]
) -> small.Row:
    numbers = {key: int(value) for key, value in given.items() if value.isdigit()}
    if word == "memory":
        return small.Memory(at[0], int(name), numbers.get("at"), numbers.get("used"), numbers.get("held"))
    pid = numbers.get("pid", small.PID)
    where = {"pid": pid, "device": numbers.get("device", 0)}
    stream = numbers.get("stream", small.STREAM)
    tid = numbers.get("thread", small.TID)
    if word == "kernel":
        grid = (numbers["blocks"], 1, 1) if "blocks" in numbers else None
        block = (numbers["threads"], 1, 1) if "threads" in numbers else None
        return small.Kernel(*at, correlation, stream, name=name or "kernel", grid=grid, block=block,
                            occupancy=numbers.get("occupancy"), **where)  # fmt: skip
    if word == "collective":
        size = numbers["bytes"]
        both = {"in_elements": size, "out_elements": size}
        return small.Collective(*at, name, "0", dtype="Byte", **both, **where)
    if word == "copy":
        host = given.get("kind", "Pinned")
        kinds = {"HtoD": (host, "Device"), "DtoH": ("Device", host), "DtoD": ("Device", "Device")}
        src, dst = kinds[name]
        return small.Memcpy(*at, correlation, stream, direction=name, src=src, dst=dst,
                            bytes=numbers.get("bytes", 1000), **where)  # fmt: skip
    if word == "set":
        return small.Memset(*at, correlation, stream, bytes=numbers.get("bytes", 1000), **where)
    if word == "graph":
        return small.Graph(*at, correlation, stream, **where)
    if word == "migration":
        return small.Migration(*at, bytes=numbers.get("bytes", 1000), **where)
    if word == "call":
        return small.Call(*at, correlation, name=name, tid=tid, pid=pid, result=numbers.get("result"))
    if word == "os":
        return small.OsrtCall(*at, name, tid=tid, pid=pid)
    if word == "range":
        return small.Range(*at, name, tid=tid, pid=pid)
    if word == "operator":
        return small.Operator(*at, name, tid=tid, pid=pid, shapes=given.get("shapes"),
                              types=given.get("types"), strides=given.get("strides"))  # fmt: skip
    if word == "profiler":
        return small.Overhead(*at, pid=pid)
    raise ValueError(word)


@contextmanager
def stored(case: Case) -> Iterator[Path]:
    """The store of a made-up run for as long as the block lasts."""
    gpus = dict.fromkeys(range(8), case.gpu) if case.gpu else None
    start, length = case.session or (None, None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.db"
        for part in case.parts:
            small.write(
                path,
                *part.rows,
                ranks=None if part.rank is None else {small.PID: part.rank},
                without={*case.without, *_NOT_BY_DEFAULT},
                recording_ns=length,
                recording_start_ns=start,
                gpus=gpus,
                label="small" if part.rank is None else f"rank{part.rank}",
                run="run",
            )
        yield path
