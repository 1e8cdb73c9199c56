"""What the launching thread did in the host part of a gap, as the operating system and samples say."""

from __future__ import annotations

import random

import pytest
from conftest import few
from small_store import (
    Call,
    CpuSample,
    Kernel,
    OsrtCall,
    Overhead,
    Range,
    Row,
    Switch,
    answers,
    cells,
    hand_computed,
)

from nsysconv.facts import Fact

# A gap [100, 1110), which the host ends at 1100.
GAP = (Call(0, 5, 1), Kernel(10, 100, 1), Call(1100, 1105, 2), Kernel(1110, 1200, 2))


def on_cpu(start: int, end: int, then: str | None = None, cpu: int = 0, tid: int = 11) -> list[Row]:
    return [Switch(start, 1, cpu, tid=tid), Switch(end, 0, cpu, then, tid=tid)]


def host(*rows: Row, **given: object) -> dict[tuple[str, str], int]:
    """The time of each activity and name."""
    found = answers("idle_host", *GAP, *rows, **given)
    return {(row["activity"], row["name"]): row["host_sum_ns"] for row in found}


def test_calls_and_states_of_the_thread_add_up() -> None:
    found = host(
        *on_cpu(80, 160), OsrtCall(150, 300, "read"), *on_cpu(290, 400, "Running"),
        *on_cpu(500, 600, "Interruptible"), OsrtCall(800, 900, "pthread_mutex_lock"),
        *on_cpu(800, 820), *on_cpu(880, 1000), *on_cpu(1050, 1090),
    )  # fmt: skip
    assert found == {
        ("os_call", "read"): 150, ("os_call", "pthread_mutex_lock"): 100,
        # [100, 150), [300, 400), [500, 600), [900, 1000), [1050, 1090)
        ("thread", "[running]"): 390,
        ("thread", "[ready]"): 100, ("thread", "[blocked]"): 200, ("thread", "[off the CPU]"): 50,
        ("outside", "[nothing recorded]"): 10,
    }  # fmt: skip
    assert sum(found.values()) == 1000


@pytest.mark.parametrize(("switches", "known"), [
    ([Switch(200, 1), Switch(300, 1), Switch(400, 0)], {"[running]": 100}),
    ([Switch(200, 0), Switch(300, 0), Switch(400, 1)], {"[off the CPU]": 100}),
    # On another CPU than it left.
    ([Switch(200, 1, 3), Switch(300, 0, 4), Switch(400, 1, 4)], {"[off the CPU]": 100}),
    # What a source writes that is neither.
    ([Switch(200, 1), Switch(300, 7), Switch(400, 0)], {}),
    ([Switch(200, 1)], {}),
    ([Switch(200, 0, state="Terminated")], {}),
    # Of other threads.
    (on_cpu(200, 300, tid=12), {}),
])  # fmt: skip
def test_of_switches_that_do_not_fit_nothing_is_believed(
    switches: list[Row], known: dict[str, int]
) -> None:
    found = host(*switches)
    rest = 1000 - sum(known.values())
    assert found == {**{("thread", state): time for state, time in known.items()},
                     ("outside", "[nothing recorded]"): rest}  # fmt: skip


@pytest.mark.parametrize(("state", "shown"), [
    (None, "[off the CPU]"), ("Unknown", "[off the CPU]"), ("Running", "[ready]"),
    ("Unscheduled", "[ready]"), ("Uninterruptible", "[blocked]"), ("Stopped", "[blocked]"),
    ("Waiting", "[blocked]"), ("OSRuntime", "[blocked]"), ("Transition", "[off the CPU]"),
])  # fmt: skip
def test_states_in_which_a_thread_leaves(state: str | None, shown: str) -> None:
    found = host(Switch(200, 0, state=state), Switch(300, 1))
    assert found["thread", shown] == 100


def test_calls_that_nest_are_the_outer_one() -> None:
    found = host(OsrtCall(200, 400, "fread"), OsrtCall(250, 300, "read"), OsrtCall(390, 500, "poll"))
    assert found["os_call", "fread"] == 200
    assert found["os_call", "poll"] == 100  # from where the first one ends
    assert ("os_call", "read") not in found


def slow(rows: list[Row]) -> dict[tuple[str, str], int]:
    """The same, nanosecond by nanosecond."""
    names = {"Running": "[ready]", "Interruptible": "[blocked]", None: "[off the CPU]"}
    calls = [row for row in rows if isinstance(row, OsrtCall)]
    switches = sorted((row for row in rows if isinstance(row, Switch)), key=lambda row: row.start)
    found: dict[tuple[str, str], int] = {}
    for moment in range(100, 1100):
        around = [call for call in calls if call.start <= moment < call.end]
        before = [switch for switch in switches if switch.start <= moment]
        after = [switch for switch in switches if switch.start > moment]
        key = ("outside", "[nothing recorded]")
        if around:
            key = ("os_call", min(around, key=lambda call: call.start).name)
        elif before and after:
            here, then = before[-1], after[0]
            if (here.runs, then.runs, here.cpu) == (1, 0, then.cpu):
                key = ("thread", "[running]")
            elif (here.runs, then.runs) == (0, 1):
                key = ("thread", names[here.state])
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("seed", few(range(12), 6))
def test_against_a_slow_version(seed: int) -> None:
    dice, rows = random.Random(seed), list[Row]()
    for start in sorted(dice.sample(range(50, 1150, 50), 8)):
        rows.append(OsrtCall(start, start + dice.randrange(1, 50), dice.choice(("read", "futex"))))
    for moment in dice.sample(range(1200), 25):
        state = dice.choice((None, "Running", "Interruptible"))
        rows.append(Switch(moment, dice.randrange(2), dice.randrange(2), state))
    assert host(*rows) == slow(rows)


test_by_hand = hand_computed(
    ("api calls ranges and the profiler come first", host,
     (OsrtCall(0, 2000, "poll"), Call(200, 300, 9, name="cudaMalloc"), Range(400, 600, "load"),
      Overhead(700, 750), *on_cpu(0, 2000)),
     {("api_call", "cudaMalloc"): 100, ("range", "load"): 200, ("os_call", "poll"): 650}),
    ("gaps name the longest of these", cells,
     ("idle_gaps during during_ns", *GAP, OsrtCall(200, 800, "getc"), *on_cpu(0, 1150)), [("getc", 600)]),
)


# -- samples

SAMPLES = (
    *(CpuSample(at, "parse", "app") for at in range(110, 710, 50)),  # twelve
    *(CpuSample(at, "0x7f12", "libm.so") for at in (720, 730)),
    *(CpuSample(at, "0x7f34", "libm.so") for at in (740,)),
    CpuSample(5, "main", "app"),  # before the first operation
    CpuSample(1102, "0xcafe", "libcuda.so"),  # in an API call
    *(CpuSample(at, "worker", None, tid=12) for at in (200, 300, 1500)),
)


def test_functions_by_samples() -> None:
    rows = cells(
        "host_functions function library sample_count thread_count start_up_sample_count "
        "waited_sample_count", *GAP, *SAMPLES
    )  # fmt: skip
    assert rows == [
        ("parse", "app", 12, 1, 0, 12),
        ("[unresolved]", "libm.so", 3, 1, 0, 3),
        ("worker", None, 3, 1, 0, 0),
        ("main", "app", 1, 1, 1, 0),
        ("[unresolved]", "libcuda.so", 1, 1, 0, 0),
    ]


def test_the_function_of_an_activity() -> None:
    """Of at least ten samples, and only of those in its time."""
    rows = answers("idle_host", *GAP, *SAMPLES, *on_cpu(50, 760), Range(760, 1100, "later"))
    functions = {row["name"]: row["function"] for row in rows}
    assert functions == {"[running]": "parse (app)", "later": None}


def test_two_devices_that_wait_at_once_count_a_sample_once() -> None:
    other = (Call(6, 8, 3), Kernel(10, 90, 3, device=1), Call(1106, 1108, 4),
             Kernel(1112, 1150, 4, device=1))  # fmt: skip
    rows = cells("host_functions function waited_sample_count", *GAP, *other, *SAMPLES)
    assert rows[0] == ("parse", 12)


# -- findings


def said(*rows: Row, without: frozenset[Fact] = frozenset()) -> dict[str, tuple[str, str]]:
    """Finding and advice of each rule. Each nanosecond is a microsecond: short gaps are no finding."""
    every = [
        row._replace(start=1000 * row.start, end=None if row.end is None else 1000 * row.end)
        for row in (*GAP, *rows)
    ]
    found = answers("findings", *every, without=without)
    return {row["rule"]: (row["finding"], row["advice"]) for row in found}


def test_a_wait_names_what_for_and_who_ran_meanwhile() -> None:
    """The launching thread waits for another, which runs for 600 of the 800.00 µs."""
    finding, advice = said(
        OsrtCall(200, 1000, "pthread_cond_wait"), *on_cpu(50, 200), *on_cpu(300, 900, tid=12),
        *on_cpu(400, 500, tid=13),
    )["host_wait"]  # fmt: skip
    assert finding == (
        "The GPU was idle for 800.00 µs while the launching thread waited for another thread or process "
        "(pthread_cond_wait); meanwhile thread 12 ran for 600.00 µs. One gap accounts for all of it."
    )
    assert advice.startswith("Hand work over earlier")


def test_a_thread_that_no_cpu_runs() -> None:
    finding, advice = said(
        *on_cpu(50, 200, "Running"), *on_cpu(200, 900, tid=12), *on_cpu(900, 1150)
    )["host_wait"]  # fmt: skip
    assert finding == (
        "The GPU was idle for 700.00 µs while the launching thread waited for a CPU "
        "(2 threads on 1 CPU); meanwhile thread 12 ran for 700.00 µs. One gap accounts for all of it."
    )
    assert advice.startswith("Use no more threads than cores")


def test_what_is_named_is_the_longest_of_several_waits() -> None:
    finding, _ = said(
        OsrtCall(200, 700, "__read"), OsrtCall(700, 800, "usleep"), OsrtCall(800, 900, "fgets")
    )["host_wait"]  # fmt: skip
    assert finding == (
        "The GPU was idle for 700.00 µs while the launching thread waited for input or files (__read, "
        "fgets), 600.00 µs of it. One gap accounts for all of it."
    )


def test_a_busy_host_names_its_function() -> None:
    finding, _ = said(*SAMPLES, *on_cpu(50, 1150))["host_bound"]
    assert ", 1.00 ms of it on a CPU, most samples in parse (app). " in finding


def test_page_faults_have_advice_of_their_own() -> None:
    faults = [CpuSample(at, "clear_page_erms", "[kernel.kallsyms]") for at in range(200, 800, 50)]
    _, advice = said(*faults, *on_cpu(50, 1150))["host_bound"]
    assert advice.startswith("Reuse buffers")


@pytest.mark.parametrize(("without", "words"), [
    (frozenset({Fact.OSRT_CALLS}), "Record OS runtime calls"),
    (frozenset(), "Look for page faults"),
])  # fmt: skip
def test_a_blocked_host(without: frozenset[Fact], words: str) -> None:
    switches = (Switch(50, 1), Switch(150, 0, state="Interruptible"), Switch(1050, 1))
    finding, advice = said(*switches, without=without)["host_bound"]
    assert finding.endswith(", 900.00 µs of it blocked. One gap accounts for all of it.")
    assert advice.startswith(words)


def test_start_up_says_what_the_first_launching_thread_did() -> None:
    """Of 905 µs before the first launch returned, 6 are in calls, and 700 in `read`."""
    rows = (
        Call(0, 1, 8, name="cuInit"), Call(900, 905, 1), Kernel(910, 2000, 1),
        OsrtCall(100, 800, "read"), OsrtCall(0, 900, "poll", tid=12), *on_cpu(0, 100),
    )  # fmt: skip
    every = [row._replace(start=1000 * row.start, end=None if row.end is None else 1000 * row.end)
             for row in rows]  # fmt: skip
    found = {row["rule"]: row["finding"] for row in answers("findings", *every)}
    assert found["start_up"] == (
        "905.00 µs passed before the first launch returned, 899.00 µs of it outside API calls "
        "(700.00 µs in read)."
    )
