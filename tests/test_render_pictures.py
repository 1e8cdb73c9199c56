"""Pictures of reports: what they are drawn of, in a terminal, and with matplotlib."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, NSYS, few
from nasty import NAMES
from rich.cells import cell_len
from small_store import Kernel, opened
from test_render import encoded, rendered

import nsysconv
from nsysconv.document import Picture, Section
from nsysconv.errors import UsageError
from nsysconv.present.tables import look_of
from nsysconv.queries import REPORTS, query
from nsysconv.render import Options, pictures
from nsysconv.render.pictures import panels
from nsysconv.report import Column, ProfileRef, Unit, build_table

TWO_GPUS = NSYS / "two_processes_two_gpus-3.24.7.sqlite"
DRAWN = [name for name in REPORTS if "picture" in look_of(name)]
COLUMNS = (
    Column("profile", Unit.TEXT, "Profile.", key=True),
    Column("device_id", Unit.ID, "Device.", key=True),
    Column("name", Unit.TEXT, "Name.", key=True),
    Column("bucket_min_ns", Unit.NS, "Bucket.", key=True),
    Column("start_ns", Unit.NS, "Start."),
    Column("dur_ns", Unit.NS, "Length."),
    Column("host_sum_ns", Unit.NS, "One part."),
    Column("queue_sum_ns", Unit.NS, "Another part."),
    Column("busy_pct", Unit.PCT, "Share."),
)
BARS = Picture("bars", ("name",), ("host_sum_ns", "queue_sum_ns"), ("device_id",))
STACKED = replace(BARS, kind="stacked")
HISTOGRAM = Picture("histogram", ("bucket_min_ns",), ("host_sum_ns", "queue_sum_ns"))
ONE_PART = replace(HISTOGRAM, values=("host_sum_ns",))
STRIP = Picture("strip", ("start_ns",), ("busy_pct",), ("device_id",), width="dur_ns")


def report(picture: Picture | None, *rows: dict[str, Any], profiles: int = 1) -> Section:
    """Columns that a row does not have are null."""
    data = {c.name: [row.get(c.name) for row in rows] for c in COLUMNS}
    refs = tuple(ProfileRef(i, f"run {i}", "test", "x") for i in range(profiles))
    table = build_table(COLUMNS, data)
    return Section("r", "A report", COLUMNS, table, refs, row_count=len(rows), picture=picture)


def bins(device: int, start: int, width: int, *busy: float | None) -> list[dict[str, Any]]:
    return [
        {"device_id": device, "start_ns": start + i * width, "dur_ns": width, "busy_pct": value}
        for i, value in enumerate(busy)
    ]


def part(bucket: int, host: int | None, queue: int | None = None) -> dict[str, Any]:
    return {"bucket_min_ns": bucket, "host_sum_ns": host, "queue_sum_ns": queue}


# -- what reports declare


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_of_columns_that_there_are(name: str) -> None:
    module = query(name)
    picture = look_of(name)["picture"]
    columns = {column.name: column for column in module.columns}
    assert set(picture.columns) <= set(columns)
    assert len({columns[value].unit for value in picture.values}) == 1
    assert all(columns[value].kind != "text" for value in picture.values)
    assert all(columns[key].key for key in picture.by)
    assert bool(picture.width) == (picture.kind == "strip")
    assert bool(picture.level) == (picture.kind == "flame")
    if picture.kind in ("histogram", "strip"):
        assert len(picture.x) == 1
        # In a terminal a letter stands for each.
        assert len({value[0] for value in picture.values}) == len(picture.values)


def test_reports_that_people_look_at_have_pictures() -> None:
    wanted = {"kernels", "api_vs_kernel", "transfers", "transfer_sizes", "idle_summary", "steps",
              "comm_overlap", "kernel_categories", "utilization_over_time"}  # fmt: skip
    assert wanted <= set(DRAWN)


# -- panels


def test_rows_are_sorted_into_panels() -> None:
    rows = [{"device_id": d, "name": n, "host_sum_ns": v} for d, n, v in [
        (1, "b", 5), (0, "a", 3), (1, "a", 2)]]  # fmt: skip
    found = panels(report(BARS, *rows))
    assert [(p.title, p.labels, p.values["host_sum_ns"]) for p in found] == [
        ("GPU 1", ("b", "a"), (5, 2)), ("GPU 0", ("a",), (3,))]  # fmt: skip
    assert found[0].values["queue_sum_ns"] == (None, None)


def test_rows_without_a_value_are_not_drawn() -> None:
    rows = ({"device_id": 0, "name": "a", "host_sum_ns": 1}, {"device_id": 1, "name": "b"})
    assert [panel.title for panel in panels(report(BARS, *rows))] == ["GPU 0"]


def test_several_profiles_are_apart() -> None:
    rows = [{"profile": f"run {i}", "device_id": 0, "name": "a", "host_sum_ns": i} for i in (1, 2)]
    found = panels(report(BARS, *rows, profiles=2))
    assert [panel.title for panel in found] == ["profile run 1, GPU 0", "profile run 2, GPU 0"]


def test_labels_say_what_differs() -> None:
    picture = Picture("bars", ("name", "device_id", "start_ns"), ("host_sum_ns",))
    rows = [{"name": "a", "device_id": d, "start_ns": 5, "host_sum_ns": 1} for d in (0, 1)]
    assert panels(report(picture, *rows))[0].labels == ("a, GPU 0", "a, GPU 1")
    assert panels(report(picture, rows[0]))[0].labels == ("a",)
    nameless = [{**row, "name": None} for row in rows[:1]]
    assert panels(report(picture, *nameless))[0].labels == ("GPU 0, ≥ 5 ns",)


def test_a_bin_is_called_by_its_lower_edge() -> None:
    rows = (part(0, 1), part(1000, 1), part(10_000_000, 1))
    assert panels(report(HISTOGRAM, *rows))[0].labels == ("≥ 0 ns", "≥ 1 µs", "≥ 10 ms")


def test_no_picture_no_rows_and_not_recorded_have_no_panels() -> None:
    assert panels(report(None, part(0, 1))) == []
    assert panels(report(HISTOGRAM)) == []
    assert panels(replace(report(HISTOGRAM), table=None)) == []


def test_what_is_cut_off_is_still_in_a_strip_and_not_in_bars() -> None:
    strip = report(STRIP, *bins(0, 0, 10, 1, 2, 3)).limited(2)
    assert strip.to_arrow().num_rows == 2
    assert panels(strip)[0].values["busy_pct"] == (1, 2, 3)
    bars = report(BARS, *[{"name": n, "host_sum_ns": 1} for n in "abc"]).limited(2)
    assert panels(bars)[0].labels == ("a", "b")


# -- in a terminal


def strip_of(*rows: dict[str, Any], width: int = 80) -> list[str]:
    return list(pictures.strip_lines(report(STRIP, *rows), width, str))


def test_a_strip_of_all_levels() -> None:
    """█ is all, ▁ nothing, and seven equal shares: 15 % is above the first of 14.3 %."""
    values = (0, 0.001, 14, 15, 28, 29, 50, 71, 72, 85, 86, 100)
    line, legend = strip_of(*bins(3, 0, 1000, *values))
    assert line == "GPU 3  ▁▂▂▃▃▄▅▆▇▇██"
    assert legend == "busy_pct from 0 ns to 12 µs, 1 µs each: ▁ 0, █ 100 %"


def test_devices_stand_on_one_time_axis() -> None:
    """Cells are 1 µs; the second device begins 6 µs later, and its bins of 0.5 µs are joined."""
    first, second, _ = strip_of(*bins(0, 0, 1000, *[100] * 12), *bins(1, 6000, 500, 100, 0, 0, 0))
    assert first == "GPU 0  ████████████"
    assert second == "GPU 1        ▅▁    "


def test_more_bins_than_cells_are_joined() -> None:
    """24 bins in the 14 cells that 21 leave beside the title: 24 / 14 bins each."""
    line, legend = strip_of(*bins(0, 0, 7000, *[0] * 12, *[100] * 12), width=21)
    assert line == "GPU 0  " + "▁" * 7 + "█" * 7
    assert "12 µs each" in legend


def test_no_strip_where_there_is_no_room_or_nothing_to_show() -> None:
    assert strip_of(*bins(0, 0, 10, *[50] * 20), width=18) == []
    assert strip_of(*bins(0, 0, 10, None, None)) == []
    assert strip_of(*bins(0, 5, 0, 0)) == []


def bars_of(picture: Picture, cells: int, *rows: dict[str, Any]) -> pictures.Bars | None:
    return pictures.histogram_bars(report(picture, *rows), cells, str)


def test_bars_are_as_long_as_their_share_of_the_longest() -> None:
    bars = bars_of(ONE_PART, 20, part(0, 40), part(10, 20), part(100, 0), part(1000, 1))
    assert bars == pictures.Bars("host_sum_ns", "", ("█" * 20, "█" * 10, "", "█"))


def test_the_parts_of_a_bar_add_up_to_it() -> None:
    """Of 10 cells 2/3 and 1/3 are 6.67 and 3.33: 7 and 3."""
    bars = bars_of(HISTOGRAM, 10, part(0, 20, 10), part(10, 0, 15), part(100, 1, 14))
    assert bars == pictures.Bars("", "bars: h host, q queue", ("hhhhhhhqqq", "qqqqq", "qqqqq"))


def test_no_bars_of_nothing() -> None:
    assert bars_of(HISTOGRAM, 10, part(0, 0, 0), part(10, None)) is None
    assert bars_of(BARS, 10, part(0, 5, 5)) is None


@pytest.mark.parametrize("picture", [HISTOGRAM, ONE_PART, STRIP, BARS])
def test_nothing_is_drawn_where_there_is_no_terminal(picture: Picture) -> None:
    rows = [{**row, **part(10 * i, i, i)} for i, row in enumerate(bins(0, 0, 10, *range(20)))]
    assert rendered("text", report(picture, *rows)) == rendered("text", report(None, *rows))


@pytest.mark.parametrize("picture", [HISTOGRAM, ONE_PART, STRIP])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp437", "latin-1"])
@pytest.mark.parametrize("width", [20, 60, 90, 140, 250])
def test_never_wider_than_the_terminal(picture: Picture, encoding: str, width: int) -> None:
    pairs = enumerate(zip(bins(0, 0, 10, *range(17)), NAMES, strict=False))
    rows = [{**row, **part(10**i, i, i), "name": name} for i, (row, name) in pairs]
    named = replace(picture, by=("name",))
    text = encoded("text", encoding, report(named, *rows), options=Options(width=width))
    assert max(map(cell_len, text.splitlines())) <= width


def test_signs_that_a_terminal_has() -> None:
    strip = report(STRIP, *bins(0, 0, 10, *[0] * 6, *[100] * 6))
    for encoding, line in (("utf-8", "▁▁▁▁▁▁██████"), ("ascii", "______######")):
        assert f"GPU 0  {line}\n" in encoded("text", encoding, strip, options=Options(width=80))


def test_a_table_keeps_its_brief_columns_beside_bars() -> None:
    rows = (part(1000, 30, 10), part(10_000, 0, 20))
    wide = rendered("text", report(HISTOGRAM, *rows), options=Options(width=100)).splitlines()
    assert wide[1] == "bars: h host, q queue"
    assert wide[4].endswith("  " + "h" * 30 + "q" * 10)
    assert wide[5].endswith("  " + "q" * 20)
    narrow = rendered("text", report(HISTOGRAM, *rows), options=Options(width=48))
    assert narrow == rendered("text", report(None, *rows), options=Options(width=48))


# -- with matplotlib


def drawn_of(*arguments: Any, **options: Any) -> Any:
    figure = pictures.draw(report(*arguments, **options))
    figure.canvas.draw()
    return figure


def test_bars_side_by_side() -> None:
    rows = [{"device_id": d, "name": n, "host_sum_ns": h, "queue_sum_ns": q} for d, n, h, q in [
        (0, "a", 2_000_000, 500_000), (0, "b", 1_000_000, None), (1, "c", 3_000_000, 0)]]  # fmt: skip
    figure = drawn_of(BARS, *rows)
    first, second = figure.axes
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["GPU 0", "GPU 1"]
    assert [text.get_text() for text in first.get_yticklabels()] == ["a", "b"]
    assert [[bar.get_width() for bar in bars] for bars in first.containers] == [[2, 1], [0.5, 0]]
    assert [bar.get_width() for bar in second.containers[0]] == [3]
    assert first.get_xlabel() == "ms"
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["host_sum", "queue_sum"]


def test_no_more_bars_than_can_be_read() -> None:
    rows = [{"name": f"k{i}", "host_sum_ns": 100 - i} for i in range(30)]
    (ax,) = drawn_of(Picture("bars", ("name",), ("host_sum_ns",)), *rows).axes
    assert len(ax.containers[0]) == pictures.MOST_BARS == 20
    assert ax.get_xlabel() == "host_sum (ns); 20 of 30 rows"


@pytest.mark.parametrize("picture", [STACKED, HISTOGRAM])
def test_parts_on_top_of_each_other(picture: Picture) -> None:
    rows = ({**part(0, 2000, 500), "name": "a"}, {**part(1000, None, 1000), "name": "b"})
    (ax,) = drawn_of(picture, *rows).axes
    found = [[(bar.get_y(), bar.get_height()) for bar in bars] for bars in ax.containers]
    assert found == [[(0, 2), (0, 0)], [(2, 0.5), (0, 1)]]
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert labels == (["a", "b"] if picture is STACKED else ["≥ 0 ns", "≥ 1 µs"])
    assert ax.get_ylabel() == "µs"


def test_a_strip_over_time() -> None:
    """A bin without a value is a hole; both devices have the same axis."""
    figure = drawn_of(STRIP, *bins(0, 0, 1000, 10, 20, None, 30), *bins(1, 8000, 1000, 50))
    first, second = figure.axes
    steps = [patch.get_data() for patch in first.patches]
    assert [step.values.tolist() for step in steps] == [[10, 20], [30]]
    assert np.allclose(steps[0].edges, [0, 1, 2])
    assert np.allclose(steps[1].edges, [3, 4])
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel() == "time (µs)"
    assert (first.get_ylabel(), first.get_ylim()) == ("busy (%)", (0, 100))


def test_no_more_panels_than_can_be_seen() -> None:
    rows = [{"device_id": d, "name": "a", "host_sum_ns": 1} for d in range(30)]
    figure = drawn_of(BARS, *rows)
    assert len(figure.axes) == pictures.MOST_PANELS == 24
    assert figure.get_suptitle() == "A report - run 0 (the first 24 of 30)"


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_drawn(name: str | None) -> None:
    (ax,) = drawn_of(Picture("bars", ("name",), ("host_sum_ns",)), {"name": name, "host_sum_ns": 1}).axes
    assert len(ax.get_yticklabels()) == 1


def test_no_rows_are_said() -> None:
    figure = drawn_of(BARS)
    assert [text.get_text() for text in figure.texts if text.get_text()][-1] == "No rows."


def test_no_picture_and_not_recorded_are_refused() -> None:
    with pytest.raises(UsageError, match="r has no picture"):
        pictures.draw(report(None, part(0, 1)))
    missing = replace(report(BARS), table=None, not_recorded=("kernel events",))
    with pytest.raises(UsageError, match="Not recorded in this profile: kernel events"):
        pictures.draw(missing)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="matplotlib is not installed") as raised:
        pictures.draw(report(BARS, {"name": "a", "host_sum_ns": 1}))
    assert raised.value.hint == "Install it: pip install 'nsysconv[plot]'"


@pytest.mark.parametrize("name", few(DRAWN, 5))
def test_each_report_of_a_profile_shows_itself(name: str) -> None:
    sources = {
        "ranges": NSYS / "ranges-3.28.1.sqlite",
        "operators": FIXTURES / "kineto" / "recorded-plain.json.gz",
        "memory": NSYS / "cpu_side-3.28.1.sqlite",
        "memory_holders": FIXTURES / "pytorch_snapshot" / "training.pickle",
        "modules": FIXTURES / "kineto" / "recorded-training.json.gz",
    }
    source = sources.get(name, TWO_GPUS)
    late = (Kernel(0, 90, name="nccl_AllReduce"), Kernel(20, 90, device=1, name="nccl_AllReduce"))
    with opened(*late) if name == "stragglers" else nsysconv.open(source) as profile:
        figure = profile.report(name).plot()
    png = figure._repr_png_()  # type: ignore[attr-defined]  # what a notebook asks for
    assert png.startswith(b"\x89PNG")
    assert figure.axes
