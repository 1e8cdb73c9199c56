"""The data of the page's time line: events, tiles, names and lanes as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from pages import ROWS, page_of, rendered
from small_store import Call, Graph, Kernel, Memcpy, Operator, Range, Row, opened

from nsysconv.api import Slice, html_report
from nsysconv.api.time_line_parts import time_line_parts
from nsysconv.document import Section
from nsysconv.report import Column, Unit, build_table


def data_of(folder: Path, *rows: Row, **asked: Any) -> dict[str, Any]:
    return data_in(page_of(folder, *rows, **asked))


def data_in(text: str) -> dict[str, Any]:
    begin = text.index('id="lanes-data">') + len('id="lanes-data">')
    found: dict[str, Any] = json.loads(text[begin : text.index("</script>", begin)])
    return found


def events_of(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Kind and id, lane, start, length and name of each event."""
    events, labels = data["events"], data["labels"]
    texts = [labels["text"][label] if text < 0 else text
             for label, text in zip(events["label"], events["text"], strict=True)]  # fmt: skip
    kinds = [data["ids"][labels["kind"][label]] for label in events["label"]]
    return [
        (f"{kind}:{number}", data["lanes"][lane], start, dur, data["texts"][text])
        for kind, number, lane, start, dur, text in zip(
            kinds, events["id"], events["lane"], accumulate(events["start"]), events["dur"], texts,
            strict=True,
        )
    ]  # fmt: skip


def test_events_are_columns_with_starts_as_differences(tmp_path: Path) -> None:
    data = data_of(tmp_path, *ROWS)
    assert data["first"] == 0
    assert data["events"]["start"] == [0, 400, 300, 95, 105]  # 0, 400, 700, 795, 900
    assert events_of(data) == [
        ("kernel:1", "GPU 0, stream 7", 0, 400, "gemm"),
        ("memcpy:1", "GPU 0, stream 7", 400, 100, "[memcpy HtoD]"),
        ("range:1", "thread 11", 700, 60, "load"),
        ("api_call:1", "thread 11", 795, 5, "cudaLaunchKernel"),
        ("kernel:2", "GPU 0, stream 7", 900, 100, "norm"),
    ]
    assert data["lanes"] == ["GPU 0, stream 7", "thread 11"]
    assert data["events"]["call"] == [0, 0, 0, 0, 1]
    assert data["parts"] == [[0, 1000]]  # all events are there


def test_an_event_of_a_group_has_its_own_name_too(tmp_path: Path) -> None:
    rows = (Kernel(1, 2), Range(10, 20, "aten::add, op_id = 1"), Range(30, 40, "aten::add, op_id = 2"))
    data = data_of(tmp_path, *rows)
    assert [name for *_, name in events_of(data)][1:] == ["aten::add, op_id = 1", "aten::add, op_id = 2"]
    (label,) = [
        label for label, count in zip(data["durations"]["label"], data["durations"]["count"],
                                               strict=True) if count == 2
    ]  # fmt: skip
    assert data["texts"][data["labels"]["text"][label]] == "aten::add"


def test_of_a_slice_its_own_time_is_drawn_not_that_of_what_it_cuts(tmp_path: Path) -> None:
    rows = (Kernel(400, 500), Kernel(700, 800), Range(0, 9000, "all of it"))
    data = data_of(tmp_path, *rows, slice=Slice((450, 750)))
    assert (data["first"], data["last"]) == (450, 750)
    assert len(events_of(data)) == 3


def test_tiles_are_columns_by_lane_row_and_width(tmp_path: Path) -> None:
    data = data_of(tmp_path, *ROWS)
    # 1000 ns of few events are cut into 64 tiles of 16 ns, and of 64: the widest come first.
    assert [level["width"] for level in data["levels"]] == [64, 16]
    (widest, _) = data["levels"][0]["tracks"]
    assert (data["lanes"][widest["lane"]], widest["row"]) == ("GPU 0, stream 7", 0)
    # gemm runs to 400, in the seventh tile from 384; the copy to 500; norm from 900, in that from 896.
    assert widest["tile"] == [0, 1, 1, 1, 1, 1, 1, 1, 7, 1]  # 0 to 7, 14 and 15, as differences
    assert widest["busy"] == [64] * 7 + [52, 60, 40]
    assert widest["count"] == [1, 0, 0, 0, 0, 0, 1, 0, 1, 0]
    assert widest["most"] == [64] * 6 + [48, 52, 60, 40]
    names = [data["texts"][data["labels"]["text"][label]] for label in widest["label"]]
    assert names == ["gemm"] * 6 + ["[memcpy HtoD]"] * 2 + ["norm"] * 2


def test_durations_are_by_name_with_the_longest(tmp_path: Path) -> None:
    rows = (Kernel(10, 14, name="a"), Kernel(20, 27, name="a"), Kernel(30, 38, name="ncclAllReduce"))
    data = data_of(tmp_path, *rows)
    found = data["durations"]
    names = [data["texts"][data["labels"]["text"][label]] for label in found["label"]]
    assert dict(zip(names, found["lengths"], strict=True)) == {
        "ncclAllReduce": [5, 1], "a": [2, 1, 5, 1]}  # fmt: skip
    place = names.index("a")
    assert [found[key][place] for key in ("count", "sum", "id", "start", "dur")] == [2, 11, 2, 20, 7]
    assert dict(zip(names, found["class"], strict=True)) == {
        "ncclAllReduce": "communication",
        "a": "computation",
    }


def test_lanes_of_several_processes_are_told_apart(tmp_path: Path) -> None:
    data = data_of(tmp_path, Kernel(0, 5, pid=1), Kernel(5, 9, pid=2), Call(1, 2, tid=7, pid=2))
    assert data["lanes"] == ["GPU 0, stream 7 of process 1", "GPU 0, stream 7 of process 2", "thread 7"]


def test_of_a_long_recording_only_parts_have_single_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "MOST_EVENTS", 30)
    kernels = [Kernel(1000 * i, 1000 * i + 990, name="k") for i in range(100)]
    late = Kernel(120_000, 121_000, name="late")  # after a gap of 20,010 ns
    data = data_of(tmp_path, *kernels, late)
    shown = events_of(data)
    assert len(shown) < 60
    assert {"kernel:100", "kernel:101"} <= {each[0] for each in shown}
    # The gap from 99,990 with a quarter of its length on both sides.
    assert any(low <= 94_988 and high >= 121_000 for low, high in data["parts"])
    for low, high in data["parts"]:
        inside = [i for i in range(100) if 1000 * i < high and 1000 * i + 990 > low]
        assert {f"kernel:{i + 1}" for i in inside} <= {each[0] for each in shown}


def test_a_graph_is_a_box_of_its_own(tmp_path: Path) -> None:
    data = data_of(tmp_path, Graph(10, 60), Memcpy(70, 80))
    assert [each[0] for each in events_of(data)] == ["graph_launch:1", "memcpy:1"]


# -- which parts


def report(name: str, **columns: list[Any]) -> Section:
    units = {str: Unit.TEXT, int: Unit.NS}
    declared = tuple(Column(key, units[type(values[0])], "") for key, values in columns.items())
    table = build_table(declared, columns)
    return Section(name, name, declared, table, row_count=table.num_rows)


def crowd(*counts: int) -> Section:
    """Tiles of 100 ns with so many events."""
    return report("timeline_tiles", start_ns=[100 * i for i in range(len(counts))],
                  dur_ns=[100] * len(counts), event_count=list(counts))  # fmt: skip


@pytest.mark.parametrize(("asked", "ids", "known"), [
    ("", range(1, 21), [[0, 190]]),  # until the last of them begins
    (":parts=50:160,180:260,400:450", (*range(6, 17), *range(19, 27), 41), [[50, 160], [180, 260]]),
])  # fmt: skip
def test_of_parts_that_have_too_many_events_some_time_is_known(
    asked: str, ids: Iterable[int], known: list[list[int]]
) -> None:
    with opened(*(Kernel(10 * i, 10 * i + 9, name="k") for i in range(50))) as profile:
        tiles = profile.report("timeline_tiles")
        data = data_in(rendered([tiles, profile.report(f"timeline_events{asked}", limit=20)]))
    assert data["events"]["id"] == list(ids)
    assert data["parts"] == known


@pytest.mark.parametrize(("start", "is_one"), [(30, True), (61 * 10**9, False)])
def test_clocks_that_disagree_are_said(tmp_path: Path, start: int, is_one: bool) -> None:
    data = data_of(tmp_path, Call(10, 20, 1), Kernel(start, start + 10, 1))
    assert data["on_one_clock"] is is_one


def test_events_have_the_sort_of_what_lies_in_nothing(tmp_path: Path) -> None:
    rows = (Kernel(0, 1), Range(5, 9, "r"), Range(6, 7, "s", kind="start_end"),
            Operator(7, 9, "f", kind="python_function"))  # fmt: skip
    data = data_of(tmp_path, *rows)
    assert data["events"]["sort"] == [-1, -1, 0, 1]
    assert data["sorts"] == ["start/end range", "Python function"]


def test_all_of_few_events() -> None:
    assert time_line_parts({"timeline_tiles": crowd(10).limited(0)}, [], 20) is None
    assert time_line_parts({"timeline_tiles": crowd(10, 10)}, [], 20) is None
    assert time_line_parts({"timeline_tiles": crowd(10, 11)}, [], 20) == []


def test_tiles_of_several_lanes_with_time_between_them_are_added_up() -> None:
    tiles = report("timeline_tiles", start_ns=[0, 900, 0, 900], dur_ns=[100] * 4,
                   event_count=[10, 30, 10, 0])  # fmt: skip
    assert time_line_parts({"timeline_tiles": tiles}, [], 50) is None
    gaps = report("idle_gaps", start_ns=[100], dur_ns=[800])
    # 25 may be shown: 20 before the gap, none in it, and five of the 30 of 100 ns after it.
    found = time_line_parts({"timeline_tiles": tiles, "idle_gaps": gaps}, [], 49)
    assert found == [(-100, 915)]


def test_the_longest_gaps_with_what_is_around_them() -> None:
    gaps = report("idle_gaps", start_ns=[120, 300], dur_ns=[40, 80])
    found = time_line_parts({"timeline_tiles": crowd(*[10] * 10), "idle_gaps": gaps}, [], 99)
    assert found == [(110, 170), (280, 400)]


def test_what_was_found_comes_first() -> None:
    gaps = report("idle_gaps", start_ns=[100], dur_ns=[80])
    tiles = crowd(*[10] * 10)
    assert time_line_parts({"timeline_tiles": tiles, "idle_gaps": gaps}, [(500, 540)], 12) == [(490, 550)]


def test_the_median_step_and_the_longest() -> None:
    steps = report("steps", step=["a", "b", "c", "[between]"], start_ns=[0, 200, 400, 900],
                   dur_ns=[40, 80, 60, 99])  # fmt: skip
    found = time_line_parts({"timeline_tiles": crowd(*[10] * 10), "steps": steps}, [], 99)
    assert found == [(180, 300), (385, 475)]


def test_what_has_no_room_is_cut() -> None:
    gaps = report("idle_gaps", start_ns=[100, 500], dur_ns=[80, 40])
    # Ten events may be shown, half of twenty: a ns has a tenth of one.
    found = time_line_parts({"timeline_tiles": crowd(*[10] * 10), "idle_gaps": gaps}, [], 20)
    assert found == [(80, 180)]
