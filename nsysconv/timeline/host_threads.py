"""What the operating system says of threads: their calls, when they ran, and what samples saw them run.

Reports ask for a few of many threads, whose rows are found when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv import codes
from nsysconv.report import MISSING
from nsysconv.store.read import Columns
from nsysconv.timeline.arrays import Array, distinct, sums, take
from nsysconv.timeline.events import number_threads
from nsysconv.timeline.intervals import Segments, Union
from nsysconv.timeline.timeline import Timeline, cached_whole

Thread = tuple[int, int]
"""A thread as (pid, tid)."""

STATES = RUNNING, READY, BLOCKED, OFF_CPU = ("[running]", "[ready]", "[blocked]", "[off the CPU]")
"""What a thread is: on a CPU; ready, and on none; not ready; on none, the source does not say why."""

UNRESOLVED = "[unresolved]"
"""The name of functions of which only the address is known."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_READY_CODES, _BLOCKED_CODES = (
    [codes.THREAD_STATES.index(word) for word in words]
    for words in (
        ("Running", "Unscheduled"),
        ("Interruptible", "Uninterruptible", "Stopped", "Waiting", "OSRuntime"),
    )
)


@cached_whole
def os_calls(timeline: Timeline, thread: Thread) -> Segments:
    """Return when a thread was in which outermost call of the OS's runtime libraries, by `name_id`."""
    names = ("start_ns", "dur_ns", "name_id")
    column = _of_thread(timeline, "osrt_call", names, thread)
    start, dur = column["start_ns"], column["dur_ns"]
    timed = np.flatnonzero((start != MISSING) & (dur > 0))
    order = timed[np.lexsort((-dur[timed], start[timed]))]
    end = start[order] + dur[order]
    # A call that crosses the end of an earlier one counts from there on.
    reach = np.append(MISSING, np.maximum.accumulate(end)[:-1])[: len(end)]
    begun = np.maximum(start[order], reach)
    outer = end > begun
    return Segments(*(take(each, outer) for each in (begun, end, column["name_id"][order])))


@cached_whole
def os_call_names(timeline: Timeline) -> Mapping[int, str]:
    """Return the names of calls of the OS's runtime libraries by name id."""
    ids = distinct(timeline.profile.columns("osrt_call", ("name_id",))["name_id"])
    return {int(each): "[no name]" for each in ids} | timeline.profile.names(ids)


@cached_whole
def scheduling(timeline: Timeline, thread: Thread) -> Segments:
    """Return when a thread was in which of STATES, by its index; where that is not known, in none.

    It is known between two of its switches, if these are a begin and an end on one CPU, or an end and a
    begin: of others one is missing, or is wrong.
    """
    names = ("start_ns", "cpu", "is_running", "state")
    column = _of_thread(timeline, "cpu_switch", names, thread)
    order = np.argsort(column["start_ns"], kind="stable")
    order = order[column["start_ns"][order] != MISSING]
    moment, runs, cpu, state = (
        column[n][order] for n in ("start_ns", "is_running", "cpu", "state")
    )
    before, after = runs[:-1], runs[1:]
    known = (moment[1:] > moment[:-1]) & (_ran(runs, cpu) | (before == 0) & (after == 1))
    states = np.full(len(codes.THREAD_STATES) + 1, STATES.index(OFF_CPU))
    states[_READY_CODES], states[_BLOCKED_CODES] = STATES.index(READY), STATES.index(BLOCKED)
    left = states[np.where(state == MISSING, -1, state)][:-1]
    label = np.where(before == 1, STATES.index(RUNNING), left)
    return Segments(*(take(each, known) for each in (moment[:-1], moment[1:], label)))


def running_threads(timeline: Timeline, when: Union) -> dict[Thread, int]:
    """Return how long each thread ran within these intervals, in ns; all threads at once."""
    names = ("start_ns", "pid", "tid", "cpu", "is_running")
    column = timeline.profile.columns("cpu_switch", names)
    number, threads = number_threads(column["pid"], column["tid"])
    order = np.lexsort((column["start_ns"], number))
    order = order[column["start_ns"][order] != MISSING]
    moment, runs, cpu = (column[name][order] for name in ("start_ns", "is_running", "cpu"))
    ran = np.flatnonzero(_ran(runs, cpu) & (number[order][1:] == number[order][:-1]))
    spent = sums(number[order][ran], when.covered(moment[ran], moment[ran + 1]), len(threads))
    return dict(zip(threads, spent.tolist(), strict=True))


def _ran(runs: Array, cpu: Array) -> Array:
    # A mask over pairs of a switch and the next: a thread ran on one CPU in between.
    result: Array = (runs[:-1] == 1) & (runs[1:] == 0) & (cpu[:-1] == cpu[1:])
    return result


def cpus_in_use(timeline: Timeline) -> tuple[int, int]:
    """Return how many threads of the recording ran, and on how many CPUs."""
    column = timeline.profile.columns("cpu_switch", ("pid", "tid", "cpu"))
    return len(number_threads(column["pid"], column["tid"])[1]), len(distinct(column["cpu"]))


@dataclass(frozen=True)
class Samples:
    """Samples of one thread in the order of time: when, and the function and library by name id."""

    moment: Array
    function: Array
    library: Array


@cached_whole
def samples(timeline: Timeline, thread: Thread) -> Samples:
    """Return the samples of a thread."""
    names = ("start_ns", "name_id", "library_id")
    column = _of_thread(timeline, "cpu_sample", names, thread)
    order = np.argsort(column["start_ns"], kind="stable")
    order = order[column["start_ns"][order] != MISSING]
    return Samples(*(column[n][order] for n in ("start_ns", "name_id", "library_id")))


@cached_whole
def frame_names(timeline: Timeline) -> Mapping[int, str]:
    """Return the functions and libraries of samples by name id; an address has no name."""
    column = timeline.profile.columns("cpu_sample", ("name_id", "library_id"))
    ids = distinct(np.concatenate([*column.values()]))
    texts = timeline.profile.names(ids[ids != MISSING])
    return {i: UNRESOLVED if _ADDRESS.fullmatch(text) else text for i, text in texts.items()}


def _of_thread(timeline: Timeline, table: str, names: Sequence[str], thread: Thread) -> Columns:
    mine = _of_launching(timeline, table, tuple(names))
    pid, tid = thread
    which = (mine["tid"] == tid) & (mine["pid"] == pid)
    return {name: take(mine[name], which) for name in names}


@cached_whole
def _of_launching(timeline: Timeline, table: str, names: tuple[str, ...]) -> Columns:
    # The rows of threads that call the API, of millions of all threads: read some at a time.
    profile, every = timeline.profile, ("pid", "tid", *names)
    found: dict[str, list[Array]] = {name: [np.empty(0, np.int64)] for name in every}
    hidden, first = profile.examination.rows.get(table, np.empty(0, np.int64)), 0
    for block in profile.blocks(table, every) if table in profile.extents else ():
        mine = np.zeros(len(block["pid"]), bool)
        for pid, tid in timeline.calls.threads:
            mine |= (block["tid"] == tid) & (block["pid"] == pid)
        here = hidden[(hidden >= first) & (hidden < first + len(mine))] - first
        mine[here] = False
        first += len(mine)
        for name in every:
            found[name].append(take(block[name], mine))
    return {name: np.concatenate(parts) for name, parts in found.items()}
