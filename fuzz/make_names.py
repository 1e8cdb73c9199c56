"""Files with many names, long names, and very many devices, streams, threads and processes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from made import (
    CALLS,
    KERNELS,
    Export,
    Made,
    about,
    call,
    gpu_event,
    kernel,
    launch,
    process,
    times_of,
    trace,
)

_MOST_EVENTS_OF_A_TRACE = 60_000


@dataclass(frozen=True)
class Work:
    """A kernel and its launch."""

    name: str
    device: int = 0
    stream: int = 7
    tid: int = 4242
    pid: int = 4242


def make(random_: random.Random) -> Made:
    """Make one of the kinds of file."""
    kind = random_.choice((_long, _different, _different, _devices, _streams, _threads, _processes))
    works = kind(random_)
    longest = max(len(work.name) for work in works)
    done = f"{len(works)} kernels: {kind.__name__[1:]}, {longest} characters"
    form = random_.choice((nsys, nsys, _trace))
    if form is _trace:
        works = works[:_MOST_EVENTS_OF_A_TRACE]
    return form(works, done)


_SPELLINGS: tuple[Callable[[int, int], str], ...] = (
    lambda n, length: f"kernel_{n}_".ljust(length, "x"),
    lambda n, length: f"void k{n}<{'a<' * (length // 4)}int{'>' * (length // 4)}>(int)",
    lambda n, length: f"void k{n}<{'int, ' * (length // 5)}int>(float*)",
    lambda n, length: f"k{n}{'(' * length}",
    lambda n, length: f"k{n}<" + "<" * length,
    lambda n, length: f"ns::{'a::' * (length // 3)}k{n}(T1, T2)",
    lambda n, length: f"k{n} " + "größe" * (length // 5),
    lambda n, length: f"_ZN{length}{'k' * length}{n}E",
)


def _long(random_: random.Random) -> list[Work]:
    spelling = random_.choice(_SPELLINGS)
    length = random_.choice((1000, 20_000, 200_000))
    return [Work(spelling(n, length)) for n in range(random_.randint(1, 25))]


def _different(random_: random.Random) -> list[Work]:
    spelling = random_.choice(_SPELLINGS)
    return [Work(spelling(n, 20)) for n in range(about(random_, 1000, 100_000))]


def _devices(random_: random.Random) -> list[Work]:
    return [Work("k", device=n) for n in range(about(random_, 50, 3000)) for _ in range(2)]


def _streams(random_: random.Random) -> list[Work]:
    return [Work("k", stream=n) for n in range(about(random_, 50, 5000)) for _ in range(2)]


def _threads(random_: random.Random) -> list[Work]:
    return [Work("k", tid=n + 1) for n in range(about(random_, 50, 5000)) for _ in range(2)]


def _processes(random_: random.Random) -> list[Work]:
    # An export has small numbers for programs that are not traced, whose names are kept out.
    first = 10_000
    last = first + about(random_, 50, 2000)
    return [Work("k", pid=n, tid=n) for n in range(first, last) for _ in range(2)]


def nsys(works: list[Work], done: str) -> Made:
    """Return an export of these kernels."""
    export = Export()
    kernels, calls = [], []
    for number, work in enumerate(works, 1):
        start = 1000 * number
        calls.append(call(export, start, start + 100, number, work.tid, work.pid))
        kernels.append(
            kernel(export, start + 200, start + 700, work.name, correlationId=number,
                   deviceId=work.device, streamId=work.stream, globalPid=process(work.pid))
        )  # fmt: skip
    export.add(CALLS, calls)
    export.add(KERNELS, kernels)
    truths = (times_of("kernel", kernels), times_of("api_call", calls))
    return Made("names.sqlite", export.bytes(), (done,), truths)


def _trace(works: list[Work], done: str) -> Made:
    events, times = [], []
    for number, work in enumerate(works, 1):
        start = 1000 * number
        times.append({"start": start + 200, "end": start + 700})
        events.append(launch(start, start + 100, number, work.tid))
        place = (work.device, work.stream)
        events.append(gpu_event(work.name, start + 200, start + 700, number, *place))
    return Made("names.json", trace(events), (done,), (times_of("kernel", times),))
