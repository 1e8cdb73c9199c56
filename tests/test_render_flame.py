"""Flame graphs: what the page's script is given to draw, and which reports of a profile have one."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import FLAME, page_of, rendered, tree_report
from small_store import Call, Kernel, Operator, Range, opened, write

from nsysconv import api
from nsysconv.api import html_report
from nsysconv.document import Picture
from nsysconv.render import FORMATS, Options, pictures, renderer
from nsysconv.report import ProfileRef

RANGES = (
    Range(0, 1000, "step"),
    Range(0, 300, "load"),
    Range(300, 900, "train"),
    Range(300, 500, "forward"),
)
OPERATORS = (
    Operator(0, 100, "aten::mm"),
    Call(10, 20, 1),
    Kernel(30, 90, 1, name="ampere_h16816gemm_64x64"),
)


def graphs_of(page: str) -> list[dict[str, Any]]:
    """The data of each flame graph of a page."""
    found = re.findall(r'id="[\w-]*-flame-\d+">(.*?)</script>', page)
    return [json.loads(data) for data in found]


def names_in_table(page: str) -> list[tuple[int, str]]:
    """How far the first text of each row of the only table is set in, and the text."""
    inset = r'(?: style="[^"]*?(\d+)ch\)")?'
    found = re.findall(rf'<tr[^>]*>(?:<td>[^<]*)*<td class="t"{inset}>([^<\n]*)', page)
    return [(int(width or 0), text) for width, text in found]


# -- where the boxes lie


def test_boxes_fill_what_they_lie_in_from_the_largest_on() -> None:
    """Of 200: `step` and `other` 100 each; in `step` 50 and 30, and 20 are its own."""
    level, values = [0, 1, 2, 1, 0], [100, 30, 10, 50, 100]
    left, size = pictures.flame_layout(level, values)
    assert left.tolist() == [0, 0.25, 0.25, 0, 0.5]
    assert size.tolist() == [0.5, 0.15, 0.05, 0.25, 0.5]


def test_what_adds_up_to_more_is_drawn_in_the_width_of_what_it_lies_in() -> None:
    """30 and 90 in 80: a quarter and three quarters of it."""
    left, size = pictures.flame_layout([0, 1, 1], [80, 30, 90])
    assert size.tolist() == [1, 0.25, 0.75]
    assert left.tolist() == [0, 0.75, 0]


def test_in_what_has_no_width_nothing_is_drawn() -> None:
    _, size = pictures.flame_layout([0, 1, 0], [0, 30, 70])
    assert size.tolist() == [0, 0, 1]


def test_rows_without_a_value_keep_their_place_in_the_tree() -> None:
    nodes = [(0, "a", 1, None, None), (1, "b", 1, 5, None)]
    (panel,) = pictures.panels(tree_report(nodes))
    assert (panel.labels, panel.level) == (("a", "b"), (0, 1))


# -- what a page is given


def test_the_data_of_a_flame_graph() -> None:
    (data,) = graphs_of(rendered([tree_report()]))
    assert data["names"] == ["step", "conv2d", "add", "other"]
    assert data["name"] == [0, 1, 2, 2, 3]
    assert data["level"] == [0, 1, 2, 1, 0]
    assert (data["call"], data["calls"]) == ("call", [2, 4, 4, 8, 1])
    assert data["weights"] == [
        {"word": "host time", "values": [100, 50, 10, 30, 100]},
        {"word": "device time", "values": [80, 30, 0, 60, None]},
    ]


def test_a_weight_that_no_row_has_is_not_offered() -> None:
    (data,) = graphs_of(rendered([tree_report([(0, "a", 1, 5, None), (1, "b", 1, 2, 0)])]))
    assert [weight["word"] for weight in data["weights"]] == ["host time"]


def test_of_nothing_there_is_no_graph_but_the_table() -> None:
    page = rendered([tree_report([(0, "a", 1, 0, None)])])
    assert graphs_of(page) == []
    assert "<td class=\"t\">a" in page


def test_names_are_set_in_by_how_deep_they_lie() -> None:
    page = rendered([tree_report()])
    assert names_in_table(page) == [(0, "step"), (2, "conv2d"), (4, "add"), (2, "add"), (0, "other")]
    # Spaces that a report has before its names say the same once.
    set_in = [(0, "step", 1, 9, 9), (1, "  conv2d", 1, 9, 9)]
    assert names_in_table(rendered([tree_report(set_in)])) == [(0, "step"), (2, "conv2d")]


def test_each_rank_has_its_own_graph_and_no_more_than_can_be_seen() -> None:
    report = tree_report([(0, "a", 1, 5, 5)] * 6)
    by_name = replace(FLAME, x=("call_count",), by=("host_sum_ns",))
    assert len(graphs_of(rendered([replace(report, picture=by_name)]))) == 1
    several = tree_report([(0, "a", 1, i, 5) for i in range(1, 7)], picture=by_name)
    page = rendered([several])
    assert len(graphs_of(page)) == 4
    assert "The first 4 of 6 flame graphs." in page


def test_rows_that_a_table_leaves_out_are_drawn() -> None:
    page = rendered([tree_report().limited(2)])
    assert graphs_of(page)[0]["name"] == [0, 1, 2, 2, 3]
    assert len(re.findall("<tr[^>]*><td", page)) == 2
    assert "Drawn are the first" not in page


def test_rows_that_are_not_there_are_said() -> None:
    page = rendered([tree_report(row_count=70_000)])
    assert "Drawn are the first 5 of 70,000 rows: all is the sum of these." in page


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "html"])
@pytest.mark.parametrize("width", [None, 60, 140])
def test_other_formats_have_the_table(name: str, width: int | None) -> None:
    def written(picture: Picture | None) -> str:
        out = io.StringIO()
        report = tree_report(picture=picture, profiles=(ProfileRef(1, "run", "test", "x"),))
        renderer(name)([report], out, Options(width=width))
        return out.getvalue()

    assert "conv2d" in written(FLAME)
    if name in ("text", "markdown"):  # for people: names are set in
        set_in, plain = (re.findall(r" +(?=conv2d)", written(picture)) for picture in (FLAME, None))
        assert [len(each) for each in set_in] == [len(each) + 2 for each in plain]
    else:
        assert written(FLAME) == written(None)


# -- with matplotlib


def test_a_graph_for_each_value() -> None:
    figure = pictures.draw(tree_report())
    host, device = figure.axes
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["host_sum", "device_sum"]
    # In the order of the rows; `add` in `conv2d` takes no time on the device.
    widths = [[round(bar.get_width(), 6) for bar in ax.patches] for ax in (host, device)]
    assert widths == [[100, 50, 10, 30, 100], [80, 26.666667, 53.333333]]
    assert [bar.get_y() + bar.get_height() / 2 for bar in host.patches] == [0, 1, 2, 1, 0]
    assert [text.get_text() for text in device.texts] == ["step", "conv2d", "add"]
    first, other = host.patches[2], host.patches[3]
    assert first.get_facecolor() == other.get_facecolor()  # of one name


# -- of a profile


def test_ranges_are_drawn_whole_and_listed_in_brief(tmp_path: Path) -> None:
    page = page_of(tmp_path, *RANGES, limit=2)
    (data,) = graphs_of(page)
    assert [data["names"][i] for i in data["name"]] == ["step", "train", "forward", "load"]
    assert data["level"] == [0, 1, 2, 1]
    assert data["weights"][0] == {"word": "range time", "values": [1000, 600, 200, 300]}
    assert "… 2 of 4 rows" in page


def test_of_a_larger_tree_a_part_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "MOST_BOXES", 3)
    page = page_of(tmp_path, *RANGES, limit=2)
    assert len(graphs_of(page)[0]["name"]) == 3
    assert "Drawn are the first 3 of 4 rows" in page
    assert "… 2 of 4 rows" in page


def test_an_option_may_have_a_picture_of_its_own() -> None:
    """As a report that lists its rows by name, or as a tree."""
    with opened(*OPERATORS) as profile:
        by_name, by_path = (profile.report(f"operators:by={each}").picture for each in ("name", "path"))
    assert by_name is not None and by_path is not None
    assert (by_name.kind, by_path.kind) == ("bars", "flame")


# -- the part on operators


def test_operators_have_a_part_of_their_own(tmp_path: Path) -> None:
    page = page_of(tmp_path, *OPERATORS)
    part = page[page.index("<h2>Operators</h2>") : page.index("<h2>API vs. GPU</h2>")]
    assert re.findall(r'<article id="(.*?)"', part) == [
        "r-operators", "r-operators-by-path", "r-operator-kernels", "r-modules"]  # fmt: skip


@pytest.mark.parametrize("rows", [RANGES, OPERATORS[1:]])
def test_without_operators_there_is_no_such_part(tmp_path: Path, rows: Any) -> None:
    page = page_of(tmp_path, *rows)
    assert "<h2>Operators</h2>" not in page
    # Not even among what is not recorded.
    assert 'id="r-operators"' not in page
    assert 'id="r-operator-kernels"' not in page


def test_one_profile_with_operators_is_enough(tmp_path: Path) -> None:
    store = tmp_path / "two.db"
    write(store, *OPERATORS, label="with")
    write(store, *OPERATORS[1:], label="without")
    assert "<h2>Operators</h2>" in rendered(api.page(store))


def test_named_reports_are_there_without_operators(tmp_path: Path) -> None:
    page = page_of(tmp_path, *OPERATORS[1:], names=["operator_kernels"])
    assert 'id="r-operator-kernels"' in page


def shown_headers(page: str, table: str) -> list[str]:
    """The headers of a table that are seen without asking for all columns."""
    hidden = re.search(rf"#{table}:not\(\.full\) :is\(td,th\):is\((.*?)\)\{{", page)
    numbers = set(map(int, re.findall(r"nth-child\((\d+)", hidden[1]))) if hidden else set()
    head = page[page.index(f'id="{table}"') :]
    headers = re.findall(r"<th [^>]*>(.*?)</th>", head[: head.index("</thead>")])
    return [re.sub("<.*?>", "", h) for i, h in enumerate(headers, 1) if i not in numbers]


def test_beside_operators_kernels_show_what_ran_on_tensor_cores(tmp_path: Path) -> None:
    with_operators = page_of(tmp_path, *OPERATORS)
    assert "tensor cores" in shown_headers(with_operators, "t-kernels")
    (tmp_path / "other").mkdir()
    without = page_of(tmp_path / "other", *OPERATORS[1:])
    assert "tensor cores" not in shown_headers(without, "t-kernels")


def test_reports_of_one_title_are_told_apart_by_their_options() -> None:
    reports = [tree_report(), replace(tree_report(), name="modules:depth=1")]
    page = rendered(reports)
    assert "<h3>Modules as a tree</h3>" in page
    assert "<h3>Modules as a tree <code>modules:depth=1</code></h3>" in page
    (one,) = re.findall(r"<h3>(.*?)</h3>", rendered(reports[1:]))
    assert one == "Modules as a tree"
