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
from nsysconv.diff.comparability import failure, properties_of
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.timeline.steps import STEP_RANGE
from nsysconv.timeline.timeline import Timeline

KINETO = FIXTURES / "kineto"
NVPROF = FIXTURES / "nvprof_log"
PLAIN: tuple[Row, ...] = (Call(0, 10, 1), Kernel(20, 120, 1))
A100 = {
    0: {"name": "NVIDIA A100-SXM4-40GB", "sm_count": 108, "compute_major": 8, "compute_minor": 0}
}
H100 = {
    0: {"name": "NVIDIA H100 80GB HBM3", "sm_count": 132, "compute_major": 9, "compute_minor": 0}
}
Make = Callable[..., Timeline]


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Make]:
    """Makes stores of a few rows: `attributes` of the profile, `noted` slugs with their severities and
    facts, `count` of each, `recorded` their text, `world` and `hosts` of its processes; the other
    options as for `small_store.write`.
    """
    with ExitStack() as stack:

        def make(
            *rows: Row,
            attributes: dict[str, Any] | None = None,
            noted: dict[str, tuple[Severity, str]] | None = None,
            count: int = 1,
            recorded: str = "",
            world: int | None = None,
            **options: Any,
        ) -> Timeline:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
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


def comparability_notes(
    base: list[Timeline], other: list[Timeline], *, steps: str = STEP_RANGE
) -> list[Note]:
    sides = [[properties_of(timeline, steps) for timeline in side] for side in (base, other)]
    return comparability.comparability_notes(*sides)


def is_empty(side: list[Timeline]) -> bool:
    return comparability.is_empty(properties_of(timeline, STEP_RANGE) for timeline in side)


def only(notes: list[Note]) -> Note:
    (note,) = notes
    return note


def unlike(notes: list[Note]) -> set[str]:
    return {note.slug for note in notes if note.severity is not Severity.INFO}


def texts(notes: list[Note]) -> dict[str, str]:
    return {note.slug: note.text for note in notes}


def test_equal_profiles(profile: Make) -> None:
    assert comparability_notes([profile()], [profile()]) == []
    assert comparability_notes([profile(), profile()], [profile(), profile(), profile()]) == []


def test_gpu_model(profile: Make) -> None:
    note = only(comparability_notes([profile(gpus=A100)], [profile(gpus=H100)]))
    assert (note.slug, note.severity, note.facts) == (
        "gpu-differs", Severity.APPROXIMATED, frozenset())  # fmt: skip
    assert note.text == (
        "GPU model: A100-SXM4-40GB against H100 80GB HBM3; SMs: 108 against 132; "
        "compute capability: 8.0 against 9.0"
    )


def test_gpu_model_spelled_otherwise(profile: Make) -> None:
    older = {0: {"name": "A100-SXM4-40GB", "sm_count": None}}
    assert comparability_notes([profile(gpus=A100)], [profile(gpus=older)]) == []


def test_gpu_that_is_not_known(profile: Make) -> None:
    assert comparability_notes([profile(gpus=A100)], [profile(gpus={0: {"name": None}})]) == []


def test_slice_of_a_gpu(profile: Make) -> None:
    part = {0: {**A100[0], "sm_count": 14}}
    note = only(comparability_notes([profile(gpus=A100)], [profile(gpus=part)]))
    assert note.text == "SMs: 108 against 14"


def test_gpus_not_in_use_do_not_matter(profile: Make) -> None:
    both = {**A100, 1: H100[0]}
    copy = Memcpy(130, 140, 0, src="Device", peer=1)
    beside = profile(Kernel(20, 120), copy, gpus=both)
    assert comparability_notes([profile(Kernel(20, 120), Memcpy(130, 140), gpus=A100)], [beside]) == []


def test_repeats_on_different_gpus(profile: Make) -> None:
    side = [profile(gpus=A100), profile(gpus=H100)]
    mixed = "A100-SXM4-40GB or H100 80GB HBM3 (runs differ)"
    found = only(comparability_notes(side, [profile(gpus=A100)]))
    assert found.text.startswith(f"GPU model: {mixed} against A100-SXM4-40GB; ")
    found = only(comparability_notes(side, side))
    assert found.text.startswith(f"GPU model: {mixed} against {mixed}; ")


def test_ranks_on_different_gpus_are_one_run(profile: Make) -> None:
    side = [profile(gpus=A100, ranks={1: 0}), profile(gpus=H100, ranks={1: 1})]
    assert comparability_notes(side, side) == []
    assert comparability_notes(side, [*side, *side]) == []


def test_number_of_gpus(profile: Make) -> None:
    two = profile(Kernel(20, 120), Kernel(20, 120, device=1))
    note = only(comparability_notes([profile(Kernel(20, 120))], [two]))
    assert note.slug == "gpu-differs"
    assert "GPUs in use: 1 against 2" in note.text


def test_ranks_on_one_gpu_use_one(profile: Make) -> None:
    gpu = {0: {"uuid": "a"}}
    apart = [profile(gpus=gpu, ranks={1: 0}), profile(gpus=gpu, ranks={1: 1})]
    together = profile(*PLAIN, Kernel(20, 120, pid=2), gpus=gpu, ranks={1: 0, 2: 1})
    assert comparability_notes(apart, [together]) == []


def test_devices_without_a_number(profile: Make) -> None:
    assert comparability_notes([profile(Kernel(20, 120, device=None))], [profile(Kernel(20, 120))]) == []


@pytest.mark.parametrize(
    ("attribute", "values", "text"),
    [
        ("driver_version", ("535.1", "580.95"), "driver version: 535.1 against 580.95"),
        ("driver_version", ("CUDA 12", "CUDA 13"),
         "version that the driver supports: CUDA 12 against CUDA 13"),
        ("host", ("node01", "node02"), "host: node01 against node02"),
        ("source", ("one", "two"), "source: one against two"),
        ("tool_version", ("1.0", "2.0"), "version of the tool: 1.0 against 2.0"),
    ],
)  # fmt: skip
def test_environment(
    profile: Make, attribute: str, values: tuple[str, str], text: str
) -> None:  # fmt: skip
    base, other = (profile(attributes={attribute: value}) for value in values)
    note = only(comparability_notes([base], [other]))
    assert note == Note("environment-differs", Severity.INFO, text)
    unknown = profile(attributes={attribute: values[0] if attribute == "source" else None})
    assert comparability_notes([base], [unknown]) == []


def test_versions_of_different_kinds_are_not_compared(profile: Make) -> None:
    base, other = (profile(attributes={"driver_version": v}) for v in ("580.95", "CUDA 13.0"))
    assert comparability_notes([base], [other]) == []


def test_api_calls_partial_on_one_side(profile: Make) -> None:
    some = profile(noted={"api-calls-partial": (Severity.INFO, "api_calls")})
    assert only(comparability_notes([profile()], [some])) == Note(
        "api-coverage-differs", Severity.APPROXIMATED,
        "API calls recorded: all against only some (api-calls-partial)",
        facts=frozenset({Fact.API_CALLS, Fact.API_TOTALS}),
    )  # fmt: skip
    assert comparability_notes([some], [some]) == []


def test_api_calls_partial_against_none(profile: Make) -> None:
    some = profile(noted={"api-calls-partial": (Severity.INFO, "api_calls")})
    without = profile(Kernel(20, 120), without={Fact.API_CALLS, Fact.API_LINKS})
    assert set(texts(comparability_notes([some], [without]))) == {"facts-differ"}


def test_graph_intervals_against_kernels(profile: Make) -> None:
    note = only(comparability_notes([profile(Call(0, 10, 1), Graph(20, 120, 1))], [profile()]))
    assert (note.slug, note.severity) == ("graph-recording-differs", Severity.APPROXIMATED)
    assert note.text == "launches of graphs as intervals: yes against none"
    assert Fact.KERNELS in note.facts
    assert Fact.API_CALLS not in note.facts


def _recorded(profile: Make, *options: str) -> Timeline:
    noted = {"capture-options": (Severity.INFO, "overhead")}
    return profile(*PLAIN, noted=noted, recorded=", ".join(options))


def test_other_capture_options(profile: Make) -> None:
    base = _recorded(profile, "CUDA_FLUSH_PERIOD=0", "COLLECT_GPU_MEMORY_USAGE=false", "A=1")
    other = _recorded(profile, "CUDA_FLUSH_PERIOD=10", "COLLECT_GPU_MEMORY_USAGE=true", "B=1")
    (note,) = comparability_notes([base], [other])
    text = "COLLECT_GPU_MEMORY_USAGE: false against true; CUDA_FLUSH_PERIOD: 0 against 10"
    assert (note.slug, note.severity, note.text) == (
        "capture-options-differ", Severity.INFO, text)  # fmt: skip


def test_the_same_capture_options(profile: Make) -> None:
    base, other = (_recorded(profile, "CUDA_FLUSH_PERIOD=0") for _ in range(2))
    assert comparability_notes([base], [other]) == []


def test_graph_mode(profile: Make) -> None:
    base, other = (profile(attributes={"graph_mode": mode}) for mode in ("graph", "node"))
    note = only(comparability_notes([base], [other]))
    assert (note.slug, note.severity) == ("graph-recording-differs", Severity.INFO)
    assert note.text == "graph mode: graph against node"


def test_facts_of_one_side(profile: Make) -> None:
    base, other = profile(without={Fact.RANGES}), profile(without={Fact.SYNCS, Fact.UTC})
    note = only(comparability_notes([base], [other]))
    assert (note.slug, note.severity) == ("facts-differ", Severity.INFO)
    assert note.text == (
        "only in the base: synchronisations; only in the other side: ranges (NVTX, user annotations)"
    )
    assert note.facts == {Fact.RANGES, Fact.SYNCS}


def test_facts_of_some_runs(profile: Make) -> None:
    note = only(comparability_notes([profile()], [profile(), profile(without={Fact.SYNCS})]))
    assert note.text == "in some runs of the other side only: synchronisations"


def test_facts_that_do_not_matter(profile: Make) -> None:
    with_totals = profile(holds=EVENTS | TOTALS)
    assert comparability_notes([profile(without={Fact.UTC})], [with_totals]) == []


def test_events_against_totals(profile: Make) -> None:
    rows = (
        Total("kernel", 1, 100, name="kernel"),
        Total("api_call", 1, 10, name="cudaLaunchKernel"),
    )
    summed = {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS, Fact.API_TOTALS, Fact.THREADS}
    summary = profile(*rows, holds=summed)
    events = profile(holds={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.THREADS})
    kernels, copies, calls = comparability_notes([events], [summary])
    assert {kernels.slug, copies.slug, calls.slug} == {"events-against-totals"}
    assert kernels.severity is Severity.INFO
    assert kernels.text == "kernel events against totals of kernels by name"
    assert kernels.facts == {Fact.KERNELS, Fact.KERNEL_TOTALS}
    assert copies.text == "memory copies against totals of copies and memory sets"
    assert copies.facts == {Fact.MEMCPYS, Fact.MEMSETS, Fact.MEMORY_TOTALS}
    assert calls.text == "API calls against totals of API calls by name"
    turned = comparability_notes([summary], [events])[2]
    assert turned.text == "totals of API calls by name against API calls"


def test_clocks_disagree_on_one_side(profile: Make) -> None:
    late = 5_000_000_000
    off = profile(Call(0, 10, 1), Kernel(late, late + 100, 1))
    assert only(comparability_notes([profile()], [off])) == Note(
        "clocks-differ", Severity.APPROXIMATED,
        "CPU and GPU times: on one clock against not on one clock (clocks-disagree)",
        facts=frozenset({Fact.API_LINKS}),
    )  # fmt: skip


def test_kernels_serialised_on_one_side(profile: Make) -> None:
    alone = profile(noted={"kernels-serialised": (Severity.APPROXIMATED, "kernels")})
    note = only(comparability_notes([alone], [profile()]))
    assert (note.slug, note.severity) == ("serialised-differs", Severity.APPROXIMATED)
    assert note.text == (
        "kernels ran: one after the other (kernels-serialised) against as in the program"
    )


# As many that to lose 2 more is 0.2 %, and to lose 3 more is 0.3 %.
MANY = [Kernel(10 * i, 10 * i + 5) for i in range(998)]


def test_few_losses_on_one_side(profile: Make) -> None:
    odd = profile(*MANY, noted={"line-unreadable": (Severity.DROPPED, "")}, count=2)
    bad = profile(*MANY, noted={"wrong-type": (Severity.DROPPED, "kernels")}, count=2)
    whole = profile(*MANY)
    note = only(comparability_notes([whole], [odd]))
    assert (note.slug, note.severity) == ("losses-differ", Severity.APPROXIMATED)
    assert (note.text, note.facts) == ("losses: none against line-unreadable", frozenset())
    assert only(comparability_notes([bad], [whole])).facts == {Fact.KERNELS}
    assert only(comparability_notes([bad], [odd])).facts == frozenset()
    assert comparability_notes([odd], [odd]) == []
    assert failure([note], frozenset({Fact.KERNELS})) == ""


def test_many_losses_on_one_side(profile: Make) -> None:
    """Of 1,001 kernels 3 are lost; what is made of calls alone is as it was."""
    bad = profile(*MANY, noted={"wrong-type": (Severity.DROPPED, "kernels")}, count=3)
    note = only(comparability_notes([profile(*MANY)], [bad]))
    assert (note.slug, note.severity, note.facts) == ("losses-differ", Severity.DROPPED, {Fact.KERNELS})
    assert note.text == "losses: none against wrong-type (0.3 % of the rows)"
    assert failure([note], frozenset({Fact.KERNELS})) == "one side lost more of what was recorded"
    assert failure([note], frozenset({Fact.API_CALLS})) == ""
    assert comparability_notes([bad], [bad]) == []


def test_losses_of_one_rank_are_a_share_of_its_own_rows(profile: Make) -> None:
    lost = {"noted": {"wrong-type": (Severity.DROPPED, "kernels")}, "count": 998}
    base, other = ([profile(*MANY, ranks={1: rank}, **(lost if bad == rank else {})) for rank in range(2)]
                   for bad in (None, 1))  # fmt: skip
    note = only(comparability_notes(base, other))
    assert (note.severity, note.text) == (
        Severity.DROPPED, "losses: none against wrong-type (50 % of the rows)")  # fmt: skip


def test_a_profile_that_is_cut_off(profile: Make) -> None:
    cut = profile(noted={"trace-truncated": (Severity.DROPPED, "")})
    for sides, text in ((([profile()], [cut]), "none against 1"), (([cut, cut], [cut]), "2 against 1")):
        assert only(comparability_notes(*sides)) == Note(
            "side-truncated", Severity.DROPPED, f"profiles that are cut off: {text}")  # fmt: skip


def test_lost_times_on_one_side(profile: Make) -> None:
    note = only(comparability_notes([profile(*PLAIN, Kernel(None, None))], [profile()]))
    assert note.text == "losses: no-time (33 % of the rows) against none"
    assert note.facts == {Fact.KERNELS}


def test_precision(profile: Make) -> None:
    coarse = profile(noted={"coarse-times": (Severity.INFO, "")})
    note = only(comparability_notes([coarse], [profile()]))
    assert (note.slug, note.severity) == ("precision-differs", Severity.INFO)
    assert note.text == "caveats about precision: coarse-times against none"


@pytest.mark.parametrize(("length", "told"), [(120, False), (121, True), (83, True), (84, False)])
def test_window(profile: Make, length: int, told: bool) -> None:
    found = comparability_notes([profile()], [profile(Kernel(20, 20 + length, 1))])
    assert [note.slug for note in found] == ["window-differs"] * told
    if told:
        assert found[0].text == f"window (device 0): 100 ns against {length} ns"
        assert found[0].severity is Severity.INFO
        assert found[0].facts == {Fact.KERNELS}


def test_windows_of_several_devices_and_runs(profile: Make) -> None:
    def run(first: int, second: int) -> Timeline:
        return profile(Kernel(0, first), Kernel(0, second, device=1), ranks={1: 3})

    note = only(comparability_notes([run(100, 100), run(100, 110)], [run(130, 400)]))
    assert note.count == 2
    assert note.text == "window (device 1 of rank 3): 105 ns (median of 2) against 400 ns"


def test_windows_of_devices_with_other_numbers(profile: Make) -> None:
    note = only(comparability_notes([profile(Kernel(0, 100))], [profile(Kernel(0, 300, device=5),
                gpus={5: {"name": "GPU 0"}})]))  # fmt: skip
    assert note.text == "window (the longest): 100 ns against 300 ns"


def test_windows_without_length(profile: Make) -> None:
    point = profile(Kernel(20, 20))
    assert comparability_notes([point], [point]) == []
    assert only(comparability_notes([point], [profile(Kernel(20, 30))])).slug == "window-differs"


def test_recording_length(profile: Make) -> None:
    def session(ms: float) -> Timeline:
        return profile(recording_start_ns=0, recording_ns=round(1_000_000 * ms))

    base = session(1)
    assert only(comparability_notes([base], [session(2)])) == Note(
        "recording-length-differs", Severity.INFO,
        "length of the session: 1.00 ms against 2.00 ms",
    )  # fmt: skip
    assert comparability_notes([base], [session(1.2)]) == []
    assert comparability_notes([base], [profile()]) == []
    # Without a session times are counted from a whole second, wherever the events lie in it.
    assert comparability_notes([profile(recording_ns=100_000)], [profile(recording_ns=900_000)]) == []


def stepped(profile: Make, count: int, name: str = "ProfilerStep#{}") -> Timeline:
    steps = [Operator(200 * i, 200 * i + 100, name.format(i)) for i in range(count)]
    return profile(*PLAIN, *steps)


def test_steps(profile: Make) -> None:
    base, other = stepped(profile, 2), stepped(profile, 3)
    assert only(comparability_notes([base], [other])) == Note(
        "steps-differ", Severity.APPROXIMATED, "steps per process: 2 against 3"
    )
    assert only(comparability_notes([base], [profile()])).text == "steps per process: 2 against none"


def test_steps_of_another_name(profile: Make) -> None:
    base, other = stepped(profile, 2, "epoch {}"), profile(*PLAIN, Range(0, 100, "epoch 1"))
    assert comparability_notes([base], [other]) == []
    assert only(comparability_notes([base], [other], steps="epoch *")).slug == "steps-differ"


def test_steps_that_were_not_recorded(profile: Make) -> None:
    without = profile(without={Fact.RANGES, Fact.OPERATORS})
    assert set(texts(comparability_notes([stepped(profile, 2)], [without]))) == {"facts-differ"}


def test_processes(profile: Make) -> None:
    two = profile(*PLAIN, Kernel(20, 120, pid=2))
    assert only(comparability_notes([profile()], [two])) == Note(
        "processes-differ", Severity.APPROXIMATED, "processes: 1 against 2"
    )


def test_ranks(profile: Make) -> None:
    one, two, four = ([profile(ranks={1: i}, world=size, gpus={0: {"uuid": "a"}})
                       for i in range(size)] for size in (1, 2, 4))  # fmt: skip
    note = only(comparability_notes(two, four))
    assert note.slug == "processes-differ"
    assert note.text == ("processes: 2 against 4; ranks: 2 against 4; ranks in all: 2 against 4")
    assert only(comparability_notes(one, two[:1])).text == "ranks in all: 1 against 2"


def test_an_empty_side(profile: Make) -> None:
    empty = profile(Call(0, 10, 1))
    first = comparability_notes([profile()], [empty])[0]
    assert first == Note("side-empty", Severity.DROPPED, "GPU operations: 1 against none")
    assert comparability_notes([], [profile()])[0].text == "GPU operations: none against 1"
    assert is_empty([empty])
    assert is_empty([])
    assert not is_empty([profile()])


def test_an_empty_run(profile: Make) -> None:
    side = [profile(Call(0, 10, 1)), profile(), profile()]
    note = comparability_notes(side, [profile()])[0]
    assert note.slug == "side-empty"
    assert note.text == "GPU operations: 2 (1 of 3 profiles have none) against 1"
    assert not is_empty(side)


def test_a_rank_without_gpu_work_is_no_empty_run(profile: Make) -> None:
    side = [profile(ranks={1: 0}), profile(Call(0, 10, 1), ranks={1: 1})]
    assert comparability_notes(side, side) == []


def test_a_rank_that_lost_its_gpu_work(profile: Make) -> None:
    base = [profile(ranks={1: 0}), profile(ranks={1: 1})]
    note = comparability_notes(base, [base[0], profile(Call(0, 10, 1), ranks={1: 1})])[0]
    assert (note.slug, note.severity) == ("side-empty", Severity.DROPPED)
    assert note.text == "GPU operations: 2 against 1 (1 of 2 profiles have none)"


def test_totals_and_migrations_are_gpu_work(profile: Make) -> None:
    assert not is_empty([profile(Total("kernel", 1, 100, name="kernel"), holds=TOTALS)])
    assert not is_empty([profile(Migration(0, 10))])
    assert is_empty([profile(Total("api_call", 1, 100, name="cudaFree"), holds=TOTALS)])


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
            "version of the tool: 2024.6.2.225 against 2026.4.1.100"]  # fmt: skip


def test_two_profilers(shelf: Shelf) -> None:
    base = fixtures(shelf, NSYS / "basic-3.28.1.sqlite")
    found = comparability_notes(base, fixtures(shelf, KINETO / "basic-2.13.json"))
    # Of the launch that failed the trace does not say that it did.
    assert unlike(found) == {"api-coverage-differs", "losses-differ"}
    assert "api-calls-partial" in texts(found)["api-coverage-differs"]
    assert texts(found)["environment-differs"] == (
        "source: nsys_sqlite against kineto; version of the tool: 2026.4.1.100 against CUPTI 130001"
    )


def test_graphs_against_nodes(shelf: Shelf) -> None:
    base = fixtures(shelf, NSYS / "graphs-3.28.1.sqlite")
    nodes = fixtures(shelf, *(KINETO / f"graphs-2.13-{pid}.json" for pid in (7001, 7002)))
    note = next(n for n in comparability_notes(base, nodes) if n.slug == "graph-recording-differs")
    assert note.severity is Severity.APPROXIMATED
    assert note.text == "launches of graphs as intervals: yes against none"


def test_events_and_totals_of_one_program(shelf: Shelf) -> None:
    found = comparability_notes(*(fixtures(shelf, NVPROF / f"basic-{name}.csv")
                          for name in ("both-traces", "summary-ns")))  # fmt: skip
    assert "events-against-totals" in texts(found)
    assert unlike(found) == {"losses-differ"}  # a launch that failed, which only the trace shows


def test_a_program_without_gpu(shelf: Shelf) -> None:
    base, other = (fixtures(shelf, NSYS / f"{name}-3.25.0.sqlite") for name in ("basic", "no_gpu"))
    assert comparability_notes(base, other)[0].slug == "side-empty"
    assert is_empty(other)
