"""Whether two sides of a diff may be compared: one difference at a time, and whole fixtures."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, Shelf
from golden_cases import FIXTURES
from small_store import (
    EVENTS,
    TOTALS,
    Call,
    Graph,
    Kernel,
    Memcpy,
    Migration,
    Operator,
    Range,
    Row,
    Total,
    write,
)

from nsysconv.diff import comparability
from nsysconv.diff.comparability import Properties, failure, properties_of
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.steps import in_slice, steps
from nsysconv.timeline.timeline import Timeline

KINETO = FIXTURES / "kineto"


PLAIN: tuple[Row, ...] = (Call(0, 10, 1), Kernel(20, 120, 1))
A100 = {0: {"name": "NVIDIA A100-SXM4-40GB", "sm_count": 108, "compute_major": 8, "compute_minor": 0}}
H100 = {0: {"name": "NVIDIA H100 80GB HBM3", "sm_count": 132, "compute_major": 9, "compute_minor": 0}}
Make = Callable[..., Timeline]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Makes stores of a few rows, each once: `attributes` of the profile, `noted` slugs with their
    severities and facts, `count` of each, `recorded` their text, `world` and `hosts` of its processes;
    the other options as for `small_store.write`.
    """
    folder, made = tmp_path_factory.mktemp("profiles"), dict[str, Timeline]()
    with ExitStack() as stack:

        def make(*rows: Row, **asked: Any) -> Timeline:
            key = repr((rows, asked))
            if key not in made:
                made[key] = anew(*rows, **asked)
            return made[key]

        def anew(
            *rows: Row,
            attributes: dict[str, Any] | None = None,
            noted: dict[str, tuple[Severity, str]] | None = None,
            count: int = 1,
            recorded: str = "",
            world: int | None = None,
            **options: Any,
        ) -> Timeline:
            path = folder / f"{len(made)}.db"
            write(path, *(rows or PLAIN), **options)
            connection = sqlite3.connect(path)
            for name, value in (attributes or {}).items():
                connection.execute(f"UPDATE profile SET {name} = ?", (value,))
            for slug, (severity, facts) in (noted or {}).items():
                connection.execute(
                    "INSERT INTO note (profile_id, slug, severity, count, place, text, facts) "
                    "SELECT id, ?, ?, ?, '', 'noted', ? FROM profile",
                    (slug, severity.value, count, facts),
                )  # fmt: skip
            if recorded:
                connection.execute("UPDATE note SET text = ?", (recorded,))
            if world is not None:
                connection.execute("UPDATE process SET world_size = ?", (world,))
            connection.commit()
            connection.close()
            (found,) = stack.enter_context(reading(path)).profiles()
            return Timeline(found)

        yield make


def properties(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Properties:
    return properties_of(timeline, in_slice(timeline, steps(timeline, rule)))


def comparability_notes(
    base: list[Timeline], other: list[Timeline], *, rule: StepRule = ANY_STEPS
) -> list[Note]:
    sides = [[properties(timeline, rule) for timeline in side] for side in (base, other)]
    return comparability.comparability_notes(*sides)


def unlike(notes: list[Note]) -> set[str]:
    return {note.slug for note in notes if note.severity is not Severity.INFO}


def texts(notes: list[Note]) -> dict[str, str]:
    return {note.slug: note.text for note in notes}


# -- two sides, and what is said of them

# The rows and options of one profile, and those of all profiles of a side.
Made = tuple[tuple[Row, ...], dict[str, Any]]
Side = list[Made]
INFO, APPROXIMATED, DROPPED = Severity.INFO, Severity.APPROXIMATED, Severity.DROPPED


def one(*rows: Row, **options: Any) -> Made:
    """A profile to be made; its options are those of the fixture `profile`."""
    return rows, options


def noted(slug: str, severity: Severity, facts: str = "", *rows: Row, **options: Any) -> Made:
    """A profile that has such a note."""
    return one(*rows, noted={slug: (severity, facts)}, **options)


def rank(number: int, *rows: Row, **options: Any) -> Made:
    return one(*rows, ranks={1: number}, **options)


def having(**attributes: Any) -> Made:
    return one(attributes=attributes)


def captured(*options: str) -> Made:
    return noted("capture-options", INFO, "overhead", *PLAIN, recorded=", ".join(options))


def session(ms: float) -> Made:
    return one(recording_start_ns=0, recording_ns=round(1_000_000 * ms))


def stepped(count: int, name: str = "ProfilerStep#{}") -> Made:
    return one(*PLAIN, *(Operator(200 * i, 200 * i + 100, name.format(i)) for i in range(count)))


def on_two_devices(first: int, second: int) -> Made:
    return one(Kernel(0, first), Kernel(0, second, device=1), ranks={1: 3})


def ranks_of(size: int) -> Side:
    return [rank(i, world=size, gpus={0: {"uuid": "a"}}) for i in range(size)]


KERNEL, IDLE, POINT = Kernel(20, 120), one(Call(0, 10, 1)), one(Kernel(20, 20))
UUID = {0: {"uuid": "a"}}
ON_UNLIKE_GPUS = [rank(0, gpus=A100), rank(1, gpus=H100)]
PARTIAL = noted("api-calls-partial", INFO, "api_calls")
# As many that to lose 2 more is 0.2 %, and to lose 3 more is 0.3 %.
MANY = [Kernel(10 * i, 10 * i + 5) for i in range(998)]
WHOLE = one(*MANY)
ODD_LINES = noted("line-unreadable", DROPPED, "", *MANY, count=2)
FEW_LOST, MANY_LOST = (noted("wrong-type", DROPPED, "kernels", *MANY, count=count) for count in (2, 3))
CUT = noted("trace-truncated", DROPPED)
LATE = 5_000_000_000

ALIKE: dict[str, tuple[Side, Side]] = {
    "equal profiles": ([one()], [one()]),
    "equal profiles of several runs": ([one()] * 2, [one()] * 3),
    "a GPU model spelled otherwise": (
        [one(gpus=A100)], [one(gpus={0: {"name": "A100-SXM4-40GB", "sm_count": None}})]),
    "a GPU that is not known": ([one(gpus=A100)], [one(gpus={0: {"name": None}})]),
    "a GPU that is not in use": (
        [one(KERNEL, Memcpy(130, 140), gpus=A100)],
        [one(KERNEL, Memcpy(130, 140, 0, src="Device", peer=1), gpus={**A100, 1: H100[0]})]),
    "ranks of one run on unlike GPUs": (ON_UNLIKE_GPUS, ON_UNLIKE_GPUS),
    "ranks of one run on unlike GPUs, and of two": (ON_UNLIKE_GPUS, ON_UNLIKE_GPUS * 2),
    "ranks on one GPU use one": (
        [rank(0, gpus=UUID), rank(1, gpus=UUID)],
        [one(*PLAIN, Kernel(20, 120, pid=2), gpus=UUID, ranks={1: 0, 2: 1})]),
    "a device without a number": ([one(Kernel(20, 120, device=None))], [one(KERNEL)]),
    "versions of different kinds": (
        [having(driver_version="580.95")], [having(driver_version="CUDA 13.0")]),
    "API calls partial on both sides": ([PARTIAL], [PARTIAL]),
    "the same capture options": ([captured("CUDA_FLUSH_PERIOD=0")], [captured("CUDA_FLUSH_PERIOD=0")]),
    "facts that do not matter": ([one(without={Fact.UTC})], [one(holds=EVENTS | TOTALS)]),
    "the same few losses": ([ODD_LINES], [ODD_LINES]),
    "the same many losses": ([MANY_LOST], [MANY_LOST]),
    "windows without length": ([POINT], [POINT]),
    "sessions of nearly the same length": ([session(1)], [session(1.2)]),
    "a session and none": ([session(1)], [one()]),
    # Without a session times are counted from a whole second, wherever the events lie in it.
    "lengths of no session": ([one(recording_ns=100_000)], [one(recording_ns=900_000)]),
    "steps of another name": ([stepped(2, "epoch {}")], [one(*PLAIN, Range(0, 100, "epoch 1"))]),
    "a rank without GPU work is no empty run": (
        [rank(0), rank(1, Call(0, 10, 1))], [rank(0), rank(1, Call(0, 10, 1))]),
}  # fmt: skip

GPU = "gpu-differs", APPROXIMATED
A100_OR_H100 = "A100-SXM4-40GB or H100 80GB HBM3 (runs differ)"
SMS_OF_BOTH = "108 or 132 (runs differ)"
CAPABILITY_OF_BOTH = "8.0 or 9.0 (runs differ)"
WINDOW = "window-differs", INFO
FACTS = "facts-differ", INFO
FEW, LOSSES = ("losses-differ", APPROXIMATED), ("losses-differ", DROPPED)
TRUNCATED = "side-truncated", DROPPED
EMPTY = "side-empty", DROPPED
PROCESSES = "processes-differ", APPROXIMATED
STEPS = "steps-differ", APPROXIMATED

# Of two sides the only note: its slug and severity, its text, and the facts that it is about.
UNLIKE: dict[str, tuple[Side, Side, tuple[str, Severity], str, set[Fact]]] = {
    "GPU model": (
        [one(gpus=A100)], [one(gpus=H100)], GPU,
        "GPU model: A100-SXM4-40GB vs. H100 80GB HBM3; SMs: 108 vs. 132; "
        "compute capability: 8.0 vs. 9.0", set()),
    "slice of a GPU": (
        [one(gpus=A100)], [one(gpus={0: {**A100[0], "sm_count": 14}})], GPU,
        "SMs: 108 vs. 14", set()),
    "repeats on different GPUs": (
        [one(gpus=A100), one(gpus=H100)], [one(gpus=A100)], GPU,
        f"GPU model: {A100_OR_H100} vs. A100-SXM4-40GB; SMs: {SMS_OF_BOTH} vs. 108; "
        f"compute capability: {CAPABILITY_OF_BOTH} vs. 8.0", set()),
    "repeats on different GPUs on both sides": (
        [one(gpus=A100), one(gpus=H100)], [one(gpus=A100), one(gpus=H100)], GPU,
        f"GPU model: {A100_OR_H100} vs. {A100_OR_H100}; SMs: {SMS_OF_BOTH} vs. {SMS_OF_BOTH}; "
        f"compute capability: {CAPABILITY_OF_BOTH} vs. {CAPABILITY_OF_BOTH}", set()),
    "number of GPUs": (
        [one(KERNEL)], [one(KERNEL, Kernel(20, 120, device=1))], GPU,
        "GPU model: GPU 0 vs. GPU 0 + GPU 1; GPUs in use: 1 vs. 2", set()),
    "API calls partial on one side": (
        [one()], [PARTIAL], ("api-coverage-differs", APPROXIMATED),
        "API calls recorded: all vs. only some (api-calls-partial)",
        {Fact.API_CALLS, Fact.API_TOTALS}),
    "API calls partial vs. none": (
        [PARTIAL], [one(KERNEL, without={Fact.API_CALLS, Fact.API_LINKS})], FACTS,
        "only in the base: API calls, links from API calls to GPU operations",
        {Fact.API_CALLS, Fact.API_LINKS}),
    "other capture options": (
        [captured("CUDA_FLUSH_PERIOD=0", "COLLECT_GPU_MEMORY_USAGE=false", "A=1")],
        [captured("CUDA_FLUSH_PERIOD=10", "COLLECT_GPU_MEMORY_USAGE=true", "B=1")],
        ("capture-options-differ", INFO),
        "COLLECT_GPU_MEMORY_USAGE: false vs. true; CUDA_FLUSH_PERIOD: 0 vs. 10", set()),
    "graph mode": (
        [having(graph_mode="graph")], [having(graph_mode="node")], ("graph-recording-differs", INFO),
        "graph mode: graph vs. node",
        {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.GRAPH_NODES}),
    "facts of one side": (
        [one(without={Fact.RANGES})], [one(without={Fact.SYNCS, Fact.UTC})], FACTS,
        "only in the base: synchronizations; only in the other side: ranges (NVTX, user annotations)",
        {Fact.RANGES, Fact.SYNCS}),
    "facts of some runs": (
        [one()], [one(), one(without={Fact.SYNCS})], FACTS,
        "in some runs of the other side only: synchronizations", {Fact.SYNCS}),
    "clocks disagree": (
        [one()], [one(Call(0, 10, 1), Kernel(LATE, LATE + 100, 1))], ("clocks-differ", APPROXIMATED),
        "CPU and GPU times: on one clock vs. not on one clock (clocks-disagree)", {Fact.API_LINKS}),
    "kernels serialized": (
        [noted("kernels-serialized", APPROXIMATED, "kernels")], [one()],
        ("serialized-differs", APPROXIMATED),
        "kernels ran: serialized (kernels-serialized) vs. as in the program",
        {Fact.KERNELS, Fact.KERNEL_TOTALS}),
    "few losses of lines": (
        [WHOLE], [ODD_LINES], FEW,
        "losses: none vs. line-unreadable", set()),
    "few losses of kernels": (
        [FEW_LOST], [WHOLE], FEW,
        "losses: wrong-type vs. none", {Fact.KERNELS}),
    "few losses of kernels vs. lines": (
        [FEW_LOST], [ODD_LINES], FEW,
        "losses: wrong-type vs. line-unreadable", set()),
    # Of 1,001 kernels 3 are lost.
    "many losses": (
        [WHOLE], [MANY_LOST], LOSSES,
        "losses: none vs. wrong-type (0.3 % of the rows)", {Fact.KERNELS}),
    "losses of a rank are a share of its own rows": (
        [rank(0, *MANY), rank(1, *MANY)],
        [rank(0, *MANY), noted("wrong-type", DROPPED, "kernels", *MANY, ranks={1: 1}, count=998)],
        LOSSES, "losses: none vs. wrong-type (50 % of the rows)", {Fact.KERNELS}),
    "nearly all": (
        [rank(0, *MANY)],
        [noted("wrong-type", DROPPED, "kernels", *MANY, ranks={1: 0}, count=998_000)],
        LOSSES, "losses: none vs. wrong-type (100 % of the rows)", {Fact.KERNELS}),
    "lost times": (
        [one(*PLAIN, Kernel(None, None))], [one()], LOSSES,
        "losses: no-time (33 % of the rows) vs. none", {Fact.KERNELS}),
    "a profile that is cut off": (
        [one()], [CUT], TRUNCATED, "truncated profiles: none vs. 1", set()),
    "one more profile that is cut off": (
        [CUT, CUT], [CUT], TRUNCATED, "truncated profiles: 2 vs. 1", set()),
    "precision": (
        [noted("coarse-times", INFO)], [one()], ("precision-differs", INFO),
        "caveats about precision: coarse-times vs. none", set()),
    "windows of devices with other numbers": (
        [one(Kernel(0, 100))], [one(Kernel(0, 300, device=5), gpus={5: {"name": "GPU 0"}})], WINDOW,
        "window (the longest): 100 ns vs. 300 ns", {Fact.KERNELS}),
    "a window without length on one side": (
        [POINT], [one(Kernel(20, 30))], WINDOW, "window (device 0): 0 ns vs. 10 ns", {Fact.KERNELS}),
    "length of the recording": (
        [session(1)], [session(2)], ("recording-length-differs", INFO),
        "session length: 1.00 ms vs. 2.00 ms", set()),
    "numbers of steps": ([stepped(2)], [stepped(3)], STEPS, "steps per process: 2 vs. 3", set()),
    "steps and none": ([stepped(2)], [one()], STEPS, "steps per process: 2 vs. none", set()),
    "steps that were not recorded": (
        [stepped(2)], [one(without={Fact.RANGES, Fact.OPERATORS})], FACTS,
        "only in the base: ranges (NVTX, user annotations), operators of the framework",
        {Fact.RANGES, Fact.OPERATORS}),
    "processes": (
        [one()], [one(*PLAIN, Kernel(20, 120, pid=2))], PROCESSES, "processes: 1 vs. 2", set()),
    "ranks": (
        ranks_of(2), ranks_of(4), PROCESSES,
        "processes: 2 vs. 4; ranks: 2 vs. 4; ranks in total: 2 vs. 4", set()),
    "ranks in total": (ranks_of(1), ranks_of(2)[:1], PROCESSES, "ranks in total: 1 vs. 2", set()),
    "a side without GPU work": ([one()], [IDLE], EMPTY, "GPU operations: 1 vs. none", set()),
    "a run without GPU work": (
        [IDLE, one(), one()], [one()], EMPTY,
        "GPU operations: 2 (1 of 3 profiles have none) vs. 1", set()),
}  # fmt: skip
# What a note says of ranks that only some runs have; None: none is missing.
MISSING_RANKS = {
    "of other": ([rank(0), rank(1)], [rank(0)], "2 vs. 1; in some runs only: rank 1"),
    "of base": ([rank(1)], [rank(0), rank(1), rank(2)], "1 vs. 3; in some runs only: rank 0, 2"),
    "of one repeat": (
        [rank(0), rank(1)] * 2, [rank(0), rank(1), rank(0)], "4 vs. 3; in some runs only: rank 1"),
    "of a job of known size": (
        ranks_of(4), ranks_of(4)[:3], "4 vs. 3; in some runs only: rank 3"),
    "of a larger job": (ranks_of(2), ranks_of(4)[1:], "2 vs. 3; in some runs only: rank 0, 2, 3"),
    "that are not named": ([rank(0), rank(1)], [one(), one()], "2 vs. 2; in some runs only: rank 0, 1"),
    "that are compared with others": ([rank(0)], [rank(1)], None),
    "that do nothing in turns": (
        [rank(0), rank(1, Call(0, 10, 1))], [rank(0, Call(0, 10, 1)), rank(1)],
        "1 (1 of 2 profiles have none) vs. 1 (1 of 2 profiles have none)"),
    "that may be others": ([rank(0)], [one()], None),
    "of one process with two GPUs": ([rank(0), rank(1)], [one(KERNEL, Kernel(0, 9, device=1))], None),
    "that do nothing": ([rank(0), rank(1, Call(0, 10, 1))], [rank(0)], None),
    "of jobs of other sizes": (ranks_of(2), ranks_of(4), None),
}  # fmt: skip


def notes_on(profile: Make, *sides: Side) -> list[Note]:
    return comparability_notes(*([profile(*rows, **asked) for rows, asked in side] for side in sides))


@pytest.mark.parametrize("sides", ALIKE.values(), ids=ALIKE)
def test_nothing_is_said_of(profile: Make, sides: tuple[Side, Side]) -> None:
    assert notes_on(profile, *sides) == []


@pytest.mark.parametrize(("base", "other", "text"), MISSING_RANKS.values(), ids=MISSING_RANKS)
def test_a_rank_is_missing(profile: Make, base: Side, other: Side, text: str | None) -> None:
    found = [n.text for n in notes_on(profile, base, other) if (n.slug, n.severity) == EMPTY]
    assert found == ([] if text is None else [f"GPU operations: {text}"])


@pytest.mark.parametrize(("base", "other", "kind", "text", "facts"), UNLIKE.values(), ids=UNLIKE)
def test_one_note_says(
    profile: Make, base: Side, other: Side, kind: tuple[str, Severity], text: str, facts: set[Fact]
) -> None:
    assert notes_on(profile, base, other) == [Note(*kind, text, facts=frozenset(facts))]


@pytest.mark.parametrize(
    ("attribute", "values", "text"),
    [
        ("driver_version", ("535.1", "580.95"), "driver version: 535.1 vs. 580.95"),
        ("driver_version", ("CUDA 12", "CUDA 13"),
         "driver-supported version: CUDA 12 vs. CUDA 13"),
        ("host", ("node01", "node02"), "host: node01 vs. node02"),
        ("source", ("one", "two"), "source: one vs. two"),
        ("tool_version", ("1.0", "2.0"), "tool version: 1.0 vs. 2.0"),
    ],
)  # fmt: skip
def test_environment(profile: Make, attribute: str, values: tuple[str, str], text: str) -> None:
    base, other = (profile(attributes={attribute: value}) for value in values)
    assert comparability_notes([base], [other]) == [Note("environment-differs", Severity.INFO, text)]
    unknown = profile(attributes={attribute: values[0] if attribute == "source" else None})
    assert comparability_notes([base], [unknown]) == []


def test_graph_intervals_against_kernels(profile: Make) -> None:
    (note,) = comparability_notes([profile(Call(0, 10, 1), Graph(20, 120, 1))], [profile()])
    assert (note.slug, note.severity) == ("graph-recording-differs", Severity.APPROXIMATED)
    assert note.text == "graph launches recorded as intervals: yes vs. none"
    assert Fact.KERNELS in note.facts
    assert Fact.API_CALLS not in note.facts


def test_events_against_totals(profile: Make) -> None:
    rows = Total("kernel", 1, 100, name="kernel"), Total("api_call", 1, 10, name="cudaLaunchKernel")
    summed = {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS, Fact.API_TOTALS, Fact.THREADS}
    summary = profile(*rows, holds=summed)
    events = profile(holds={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.THREADS})
    kernels, copies, calls = comparability_notes([events], [summary])
    assert {kernels.slug, copies.slug, calls.slug} == {"events-against-totals"}
    assert kernels.severity is Severity.INFO
    assert kernels.text == "kernel events vs. kernel totals by name"
    assert kernels.facts == {Fact.KERNELS, Fact.KERNEL_TOTALS}
    assert copies.text == "memory copies vs. copy and memset totals"
    assert copies.facts == {Fact.MEMCPYS, Fact.MEMSETS, Fact.MEMORY_TOTALS}
    assert calls.text == "API calls vs. API call totals by name"
    turned = comparability_notes([summary], [events])[2]
    assert turned.text == "API call totals by name vs. API calls"


@pytest.mark.parametrize(
    ("severity", "fact", "reason"),
    [
        (APPROXIMATED, Fact.KERNELS, ""),
        (DROPPED, Fact.KERNELS, "one side lost more recorded events"),
        (DROPPED, Fact.API_CALLS, ""),
    ],
)
def test_many_losses_of_what_a_table_is_made_of_forbid_to_judge_it(
    severity: Severity, fact: Fact, reason: str
) -> None:
    note = Note("losses-differ", severity, "losses", facts=frozenset({Fact.KERNELS}))
    assert failure([note], frozenset({fact})) == reason


@pytest.mark.parametrize(("length", "told"), [(120, False), (121, True), (83, True), (84, False)])
def test_window(profile: Make, length: int, told: bool) -> None:
    text = f"window (device 0): 100 ns vs. {length} ns"
    note = Note("window-differs", Severity.INFO, text, facts=frozenset({Fact.KERNELS}))
    assert comparability_notes([profile()], [profile(Kernel(20, 20 + length, 1))]) == [note] * told


def test_windows_of_several_devices_and_runs(profile: Make) -> None:
    base, other = [on_two_devices(100, 100), on_two_devices(100, 110)], [on_two_devices(130, 400)]
    (note,) = notes_on(profile, base, other)
    assert note.count == 2
    assert note.text == "window (device 1 of rank 3): 105 ns (median of 2) vs. 400 ns"


def test_steps_of_a_name_that_was_asked_for(profile: Make) -> None:
    base, other = profile(*stepped(2, "epoch {}")[0]), profile(*PLAIN, Range(0, 100, "epoch 1"))
    assert unlike(comparability_notes([base], [other], rule=StepRule("epoch *"))) == {"steps-differ"}


def test_a_side_is_empty_without_gpu_work(profile: Make) -> None:
    empty, full = profile(Call(0, 10, 1)), profile()
    assert comparability_notes([], [full])[0].text == "GPU operations: none vs. 1"
    assert comparability_notes([full], [empty])[0].text == "GPU operations: 1 vs. none"
    assert comparability_notes([], [])[0].slug == "side-empty"


def test_a_rank_that_lost_its_gpu_work(profile: Make) -> None:
    base = [profile(ranks={1: 0}), profile(ranks={1: 1})]
    note = comparability_notes(base, [base[0], profile(Call(0, 10, 1), ranks={1: 1})])[0]
    assert (note.slug, note.severity) == EMPTY
    assert note.text == "GPU operations: 2 vs. 1 (1 of 2 profiles have none)"


SUMMED = one(Total("kernel", 1, 100, name="kernel"), holds=TOTALS)
COPIES = one(Memcpy(0, 10), Memcpy(20, 30))
KERNELS_AND_COPIES = one(Kernel(0, 10), Memcpy(20, 30))


@pytest.mark.parametrize(
    ("base", "other", "text"),
    [
        (KERNELS_AND_COPIES, COPIES, "kernels: 1 vs. none"),
        (COPIES, KERNELS_AND_COPIES, "kernels: none vs. 1"),
        (COPIES, COPIES, None),
        (one(Migration(0, 10)), one(Migration(0, 10)), None),
        (SUMMED, SUMMED, None),
        (one(Total("api_call", 1, 100, name="cudaFree"), holds=TOTALS), SUMMED,
         "GPU operations: none vs. 1"),
        (KERNELS_AND_COPIES, one(Graph(0, 10), Memcpy(20, 30)), None),
    ],
)  # fmt: skip
def test_what_is_gpu_work(profile: Make, base: Made, other: Made, text: str | None) -> None:
    """A recording that lost its kernels is not a faster one, even if its copies are there."""
    sides = [[profile(*rows, **options)] for rows, options in (base, other)]
    notes = comparability_notes(*sides)
    assert [note.text for note in notes if note.slug == "side-empty"] == ([text] if text else [])


def test_worst_first(profile: Make) -> None:
    base = profile(gpus=A100, attributes={"host": "a"})
    found = comparability_notes(
        [base, profile(Call(0, 10, 1))], [profile(gpus=H100, attributes={"host": "b"})]
    )
    assert [note.severity for note in found] == [
        Severity.DROPPED, Severity.APPROXIMATED, Severity.INFO]  # fmt: skip


def fixtures(shelf: Shelf, *paths: Path) -> list[Timeline]:
    return [Timeline(shelf.unread(path)) for path in paths]


@pytest.mark.parametrize("older", ["2020", "2021", "2.9.1", "3.16.1"])
def test_two_versions_of_one_profiler(shelf: Shelf, older: str) -> None:
    base = fixtures(shelf, NSYS / f"basic-{older}.sqlite")
    found = comparability_notes(base, fixtures(shelf, NSYS / "basic-3.28.1.sqlite"))
    assert unlike(found) == set()
    if older == "3.16.1":
        assert [note.text for note in found] == [
            "tool version: 2024.6.2.225 vs. 2026.4.1.100"]  # fmt: skip


def test_two_profilers(shelf: Shelf) -> None:
    base = fixtures(shelf, NSYS / "basic-3.28.1.sqlite")
    found = comparability_notes(base, fixtures(shelf, KINETO / "basic-2.13.json"))
    # Of the launch that failed the trace does not say that it did.
    assert unlike(found) == {"api-coverage-differs", "losses-differ"}
    assert "api-calls-partial" in texts(found)["api-coverage-differs"]
    assert texts(found)["environment-differs"] == (
        "source: nsys_sqlite vs. kineto; tool version: 2026.4.1.100 vs. CUPTI 130001"
    )
