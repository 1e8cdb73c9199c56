"""Files in which ranges, operators and Python functions are nested deep, or leaked."""

from __future__ import annotations

import random
from collections.abc import Iterator

from made import (
    CALLS,
    KERNELS,
    Export,
    Made,
    about,
    call,
    counted,
    event,
    gpu_event,
    kernel,
    launch,
    trace,
)

_MOST_BYTES = 12 << 20
_LENGTHS = (8, 8, 200, 2000)

Interval = tuple[int, int, str]


def make(random_: random.Random) -> Made:
    """Make one of the kinds of file."""
    shape = random_.choice((_deep, _leaked, _deep_again))
    count = about(random_, 20, 20_000 if shape is _leaked else 5_000)
    length = random_.choice(_LENGTHS)
    count = min(count, _MOST_BYTES // length)
    intervals = list(shape(count, length, alike=random_.random() < 0.3))
    launches = about(random_, 1, 300)
    form = random_.choice((_nsys, _nsys, _operators, _functions))
    done = f"{len(intervals)} {shape.__name__[1:]}, {length} characters, {launches} launches"
    return form(intervals, launches, done)


def _name(number: int, length: int, alike: bool) -> str:
    return "range".ljust(length, "x") if alike else f"range {number} ".ljust(length, "x")


def _deep(count: int, length: int, *, alike: bool) -> Iterator[Interval]:
    for number in range(count):
        yield 10 * number, 20 * count - 10 * number + 1000, _name(number, length, alike)


def _deep_again(count: int, length: int, *, alike: bool) -> Iterator[Interval]:
    times = 5
    each = max(count // times, 1)
    for turn in range(times):
        for start, end, name in _deep(each, length, alike=alike):
            yield start + turn * (20 * each + 2000), end + turn * (20 * each + 2000), name


def _leaked(count: int, length: int, *, alike: bool) -> Iterator[Interval]:
    for number in range(count):
        yield number, 10 * count + number + 1000, _name(number, length, alike)


def _launched(intervals: list[Interval], launches: int) -> Iterator[tuple[int, int, int]]:
    first, last = min(one[0] for one in intervals), max(one[1] for one in intervals)
    for number in range(1, launches + 1):
        start = first + (last - first) * number // (launches + 1)
        yield number, start, start + 1


def _nsys(intervals: list[Interval], launches: int, done: str) -> Made:
    export = Export()
    export.ranges(intervals)
    calls = list(_launched(intervals, launches))
    export.add(CALLS, (call(export, start, end, number) for number, start, end in calls))
    export.add(
        KERNELS,
        (kernel(export, start + 2, start + 4, "k", correlationId=n) for n, start, _ in calls),
    )
    truths = counted(range=len(intervals), api_call=launches, kernel=launches)
    return Made("nesting.sqlite", export.bytes(), (f"ranges: {done}",), truths)


def _operators(intervals: list[Interval], launches: int, done: str) -> Made:
    events = [event("cpu_op", name, start, end) for start, end, name in intervals]
    for number, start, end in _launched(intervals, launches):
        events += [launch(start, end, number), gpu_event("k", start + 2, start + 4, number)]
    truths = counted(operator=len(intervals), api_call=launches, kernel=launches)
    return Made("nesting.json", trace(events), (f"operators: {done}",), truths)


def _functions(intervals: list[Interval], launches: int, done: str) -> Made:
    events = [event("cpu_op", "aten::add", 0, 5)]
    for number, (start, end, name) in enumerate(intervals, 1):
        args = {"Python id": number, "Python parent id": number - 1 or None}
        events.append(event("python_function", name, start, end, args=args))
    for number, start, end in _launched(intervals, launches):
        events += [launch(start, end, number), gpu_event("k", start + 2, start + 4, number)]
    truths = counted(api_call=launches, kernel=launches)
    return Made("functions.json", trace(events), (f"Python functions: {done}",), truths)
