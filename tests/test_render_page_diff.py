"""The page of a comparison: words for its sides, steps as pictures, the data of its scripts."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import NO_REAL, REAL
from pages import NODES, page_of, rendered, tree_report
from small_store import Kernel, Migration, Row, write
from test_diff_on_one_axis import BASE, OTHER
from test_render_page import outline

from nsysconv import api
from nsysconv.diff.step_pairs import COLUMNS, STEP_PAIRS
from nsysconv.diff.trees import compare_trees
from nsysconv.document import Section
from nsysconv.present.tables import section
from nsysconv.render import Options, renderer
from nsysconv.render.page import aligned
from nsysconv.render.page.sides import in_words, of_sides, side_words
from nsysconv.report import Column, Unit, build_table

ALIGNED = ["step_timelines"]


def page_of_both(folder: Path, base: Any = BASE, other: Any = OTHER, **options: Any) -> str:
    write(folder / "before.db", *base, label="before")
    write(folder / "after.db", *other, label="after")
    asked = {"for_page": True, **options}
    found = api.compare(folder / "before.db", folder / "after.db", **asked)
    return rendered([found.headline, *found.reports])


def data_of(text: str, ident: str) -> dict[str, Any]:
    (found,) = re.findall(rf'<script type="application/json" id="{ident}">(.*?)</script>', text)
    decoded: dict[str, Any] = json.loads(found)
    return decoded


def pairs(*durations: tuple[int, int], rank: int | None = None) -> Section:
    """The report of steps of these lengths, before and after, as reports have it."""
    found = [
        {"rank": rank, "pid": 1, "step": f"s{i}", "occurrence": 1, "diff_dur_ns": after - before,
         "diff_pct": 100 * (after - before) / before, "base_dur_ns": before, "other_dur_ns": after,
         "other_step": None, "base_start_ns": 0, "other_start_ns": 0, "drawn": None}
        for i, (before, after) in enumerate(durations)
    ]  # fmt: skip
    table = build_table(COLUMNS, {c.name: [row[c.name] for row in found] for c in COLUMNS})
    return Section(STEP_PAIRS, "Steps", COLUMNS, table, row_count=len(found))


def page_of_pairs(*reports: Section) -> str:
    # That a report is of changes says that the page is of a comparison.
    answer = Section("answer", "same: it", (), None)
    return rendered([answer, *reports])


# -- words


def test_the_sides_are_before_and_after_on_the_page(tmp_path: Path) -> None:
    text = page_of_both(tmp_path)
    headers = set(re.findall(r"<th\b[^>]*>(.*?)(?= <small>|<th|</tr>)", text))
    spelled = {each.replace("<wbr>", "") for each in headers}
    assert {"before idle", "after idle", "before"} <= spelled
    assert not [each for each in spelled if each.startswith(("base", "other"))]
    assert "only before" in text
    assert "only in base" not in text


def test_only_the_names_of_sides_change() -> None:
    """A class of time is called other, and so is a part; neither is a side."""
    columns = (
        Column("part", Unit.TEXT, "Part.", key=True),
        Column("where", Unit.TEXT, "Where."),
        Column("base_other_ns", Unit.NS, "Base: In the base of others."),
        Column("other_ns", Unit.NS, "Other: In others."),
        Column("diff_other_ns", Unit.NS, "Other minus base: In others."),
        Column("others_ns", Unit.NS, "Others."),
    )
    cells = {
        "part": ["other"], "where": ["only in other"], "base_other_ns": [1], "other_ns": [2],
        "diff_other_ns": [3], "others_ns": [4],
    }  # fmt: skip
    found = in_words(Section("diff_x", "X", columns, build_table(columns, cells)))
    assert [(column.name, column.doc) for column in found.columns] == [
        ("part", "Part."),
        ("where", "Where."),
        ("before_other_ns", "Before: In the base of others."),
        ("after_ns", "After: In others."),
        ("diff_other_ns", "After minus before: In others."),
        ("others_ns", "Others."),
    ]
    assert list(found.tuples()) == [("other", "only after", 1, 2, 3, 4)]


def test_above_the_cards_is_what_changed_and_what_that_is_made_of(tmp_path: Path) -> None:
    base = (Kernel(0, 400, name="gemm"), Kernel(500, 1000, name="norm"))
    other = (Kernel(0, 200, name="gemm"), Kernel(500, 1000, name="norm"), Kernel(1000, 1200, name="x"))
    text = outline(page_of_both(tmp_path, base, other)).text
    said = text[text.index("The answer", 50) : text.index("window1.20 µs")]
    assert "GPU active window 1.00 µs → 1.20 µs (+20.0 %)" in said
    # Of 200 more: 200 of the new kernel, 200 less of gemm, whose time is idle now.
    assert (
        "+200 ns window, above all +200 ns kernels (number of launches); −200 ns kernels (time per "
        "launch); +200 ns idle, cause not recorded. All parts"
    ) in said


def test_where_nothing_changed_no_part_is_named(tmp_path: Path) -> None:
    text = page_of_both(tmp_path, BASE, BASE)
    assert "above all" not in text


def test_other_pages_have_no_script_of_two_runs(tmp_path: Path) -> None:
    assert "busy only" not in page_of(tmp_path, Kernel(0, 10), names=["timeline_tiles"])


# -- steps


def test_each_step_is_two_bars_and_a_difference() -> None:
    """Of 100 at most: 80 → 100 is a bar of 80 and one of 100, and all of the scale of differences."""
    text = page_of_pairs(pairs((80, 100), (50, 45)))
    assert '<path class="was" d="M0.1 100v-80.0h.4V100zM1.1 100v-50.0h.4V100z"/>' in text
    assert '<path class="now" d="M0.5 100v-100.0h.4V100zM1.5 100v-45.0h.4V100z"/>' in text
    assert '<path class="more" d="M0.1 0v-48.0h.8V0z"/>' in text
    assert '<path class="less" d="M1.1 0v12.0h.8V0z"/>' in text
    caption = "2 steps on both sides, 65 ns → 72.5 ns on average; 1 shorter, 1 longer"
    assert f"<figcaption>{caption}</figcaption>" in text


def test_the_steps_that_changed_most_are_numbered_in_the_picture_and_below_it() -> None:
    text = page_of_pairs(pairs((10, 10), (10, 12), (10, 40), (10, 5), (10, 11)))
    marks = re.findall(r'<b class="mark" style="left:([\d.]+)%" aria-hidden="true">(\d)</b>', text)
    assert marks == [("50.00", "1"), ("70.00", "2"), ("30.00", "3")]
    listed = re.findall(r"<li>(s\d.*?\))", text)
    assert listed[0] == "s2: 10 ns → 40 ns (+30 ns, +300.0 %)"
    assert listed[1] == "s3: 10 ns → 5 ns (−5 ns, −50.0 %)"
    assert len(listed) == 3


def test_steps_without_a_change_have_no_number() -> None:
    text = page_of_pairs(pairs((10, 10)))
    assert 'class="mark"' not in text
    assert "The greatest changes:" not in text
    assert 'class="plot differences"' not in text


def test_many_steps_are_lines_and_very_many_are_means() -> None:
    lines = page_of_pairs(pairs(*[(10, 10)] * 121))
    assert 'class="line was" d="M0 0.0V0.0h1' in lines
    assert "is the mean of" not in lines
    means = page_of_pairs(pairs(*[(10, 20), (30, 20)] * 601))
    assert "Each place is the mean of 3 steps." in means
    # Three steps begin with the short one or the long one, in turn: 50 / 3 and 70 / 3.
    assert means.count('viewBox="0 0 401 100"') == 1
    assert 'aria-label="difference of each 3 steps, as a mean, 3.33 ns at most"' in means


def test_each_process_has_a_picture_of_its_own() -> None:
    one, two = pairs((10, 20), rank=0), pairs((10, 30), rank=1)
    assert one.table is not None
    assert two.table is not None
    table = build_table(
        COLUMNS,
        {c.name: [*one.table.column(c.name).to_pylist(), *two.table.column(c.name).to_pylist()]
         for c in COLUMNS},
    )  # fmt: skip
    text = page_of_pairs(Section(STEP_PAIRS, "Steps", COLUMNS, table, row_count=2))
    assert re.findall(r"<figcaption>(rank \d): 1 step on both sides", text) == ["rank 0", "rank 1"]


# -- what ran


def test_the_data_of_both_runs_has_lanes_with_boxes_by_side(tmp_path: Path) -> None:
    data = data_of(page_of_both(tmp_path, reports=ALIGNED), "aligned-data")
    median, greatest = data["pairs"]
    assert median["words"] == "ProfilerStep#3: 100 ns → 100 ns (0 ns, +0.0 %)"
    assert greatest["words"] == "ProfilerStep#1: 100 ns → 60 ns (−40 ns, −40.0 %)"
    assert greatest["lengths"] == [100, 60]
    (lane,) = greatest["lanes"]
    assert lane["label"] == "device 0 → 2, stream 7 → 9"
    gemm, copy, fast = (data["names"].index(name) for name in ("gemm", "[memcpy]", "gemm fast"))
    # Starts are differences.
    assert lane["boxes"] == [
        {"start": [20, 40], "dur": [30, 20], "kind": [0, 2], "name": [gemm, copy]},
        {"start": [30], "dur": [25], "kind": [0], "name": [fast]},
    ]
    assert lane["alone"] == [{"start": [20, 40], "dur": [10, 20]}, {"start": [50], "dur": [5]}]


def test_what_is_aligned_is_said_beside_the_picture(tmp_path: Path) -> None:
    text = page_of_both(tmp_path, (Kernel(0, 10),), (Kernel(0, 20),), reports=ALIGNED)
    said = outline(text).text
    assert (
        "Aligned by the start of each window, the first GPU operation: before and after have no "
        "annotated steps (name them with --step-range)."
    ) in said
    (window,) = data_of(text, "aligned-data")["pairs"]
    words = "From the first GPU operation to the last: 10 ns → 20 ns (+10 ns, +100.0 %)"
    assert window["words"] == words


def test_of_a_slice_the_slice_is_named(tmp_path: Path) -> None:
    part = api.Slice(time=(0, 8))
    text = page_of_both(tmp_path, (Kernel(0, 10),), (Kernel(0, 20),), slice=part, reports=ALIGNED)
    (window,) = data_of(text, "aligned-data")["pairs"]
    assert window["words"] == "[slice]: 8 ns → 8 ns (0 ns, +0.0 %)"


def test_lanes_are_called_by_their_streams_and_what_has_none_so_too(tmp_path: Path) -> None:
    beside = (Kernel(0, 10), Migration(2, 5))
    alone = (Migration(2, 5), Kernel(0, 10, device=1), Kernel(0, 10, device=1, stream=None))
    (pair,) = data_of(page_of_both(tmp_path, beside, alone, reports=ALIGNED), "aligned-data")["pairs"]
    assert [lane["label"] for lane in pair["lanes"]] == [
        "device 0, stream 7", "device 0, no stream", "device 1, stream 7", "device 1, no stream",
    ]  # fmt: skip


def test_lanes_of_no_recorded_device_are_called_gpu(tmp_path: Path) -> None:
    base = (Kernel(0, 10, device=None), Kernel(0, 10, device=None, stream=None), Kernel(0, 10))
    text = page_of_both(tmp_path, base, (Kernel(0, 10),), reports=ALIGNED)
    (pair,) = data_of(text, "aligned-data")["pairs"]
    labels = [lane["label"] for lane in pair["lanes"]]
    assert labels == ["device 0, stream 7", "GPU, stream 7", "GPU, no stream"]


def test_profiles_that_are_called_as_the_sides_keep_their_names(tmp_path: Path) -> None:
    for rank, label in enumerate(("other", "more")):
        write(tmp_path / "a.db", Kernel(0, 10), ranks={1: rank}, label=label, run="job")
    write(tmp_path / "b.db", Kernel(0, 20), ranks={1: 0}, label="base")
    found = api.compare(tmp_path / "a.db", tmp_path / "b.db", ALIGNED, for_page=True)
    said = outline(rendered([found.headline, *found.reports])).text
    assert "Only other and base of 3 profiles are on one axis." in said


def test_notes_on_files_that_hold_base_are_not_notes_on_a_side() -> None:
    assert not side_words(["base.sqlite, my-base and base-3 have no steps"])
    assert side_words(["base has none (base.sqlite)"])


def test_names_of_profiles_are_not_sides() -> None:
    assert of_sides("base and other have none (base.sqlite, other-3, my-base, a/base)") == (
        "before and after have none (base.sqlite, other-3, my-base, a/base)"
    )
    assert of_sides("1 of base with 2 of other.") == "1 of before with 2 of after."


def test_where_nothing_ran_there_is_a_sentence(tmp_path: Path) -> None:
    rows: tuple[Row, ...] = BASE[:2] + BASE[5:7]
    text = page_of_both(tmp_path, rows, rows, reports=ALIGNED)
    assert "Nothing ran on a GPU in these steps, or on one of the sides." in text


def test_a_page_of_one_of_these_reports_is_a_comparison(tmp_path: Path) -> None:
    text = page_of_both(tmp_path, reports=ALIGNED)
    assert "<title>before → after - nsysconv</title>" in text


def test_very_many_very_long_names_do_not_make_the_page_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligned, "MOST_TEXT", 10_000)
    rows = [Kernel(i, i + 1, name=f"{'x' * 300}{i}{'y' * 300}") for i in range(20)]
    data = data_of(page_of_both(tmp_path, rows, rows, reports=ALIGNED), "aligned-data")
    assert len(data["names"]) == 20
    assert 5_000 <= sum(map(len, data["names"])) <= 10_000


@pytest.mark.skipif(not REAL.is_dir(), reason=NO_REAL)
@pytest.mark.parametrize(
    ("before", "after", "titles"),
    [
        (
            "nsys_sqlite/GindaChen+nsys-ai__mfu_2gpu_before.sqlite",
            "nsys_sqlite/GindaChen+nsys-ai__mfu_2gpu_after.sqlite",
            ["From the first GPU operation to the last: 299.88 ms → 299.27 ms (−604.53 µs, −0.2 %)"],
        ),
        pytest.param(
            "kineto/facebookresearch+HolisticTraceAnalysis__sampled_rank-0.json.gz",
            "kineto/facebookresearch+HolisticTraceAnalysis__sampled_rank-1.json.gz",
            ["ProfilerStep#551: 607.31 ms → 607.90 ms (+592.00 µs, +0.1 %)",
             "ProfilerStep#552: 622.93 ms → 630.64 ms (+7.71 ms, +1.2 %)"],
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_real_pairs_are_on_one_axis_within_the_bounds(before: str, after: str, titles: list[str]) -> None:
    found = api.compare(REAL / before, REAL / after, for_page=True)
    text = rendered([found.headline, *found.reports])
    data = data_of(text, "aligned-data")
    assert [pair["words"] for pair in data["pairs"]] == titles
    boxes = [
        boxes
        for pair in data["pairs"]
        for lane in pair["lanes"]
        for side in range(2)
        for boxes in (lane["boxes"][side]["start"], lane["alone"][side]["start"])
    ]
    assert sum(map(len, boxes)) <= 20_000
    assert len(json.dumps(data)) < 2_000_000
    assert "r-operators-tree-flame" in text


# -- trees


def test_the_data_of_a_tree_has_both_sides(tmp_path: Path) -> None:
    base, other = tree_report(NODES[:1]), tree_report([(0, "step", 3, 130, 90)])
    text = page_of_pairs(section(compare_trees("modules_tree", [[base]], [[other]])))
    data = data_of(text, "r-modules-tree-flame")
    assert data["measures"] == [
        {"word": "host time", "before": [100], "after": [130]},
        {"word": "device time", "before": [80], "after": [90]},
    ]
    assert (data["calls"], data["call"]) == ([[2], [3]], "call")
    buttons = re.findall(r'data-weight="\d" aria-pressed="false">(.*?)</button>', text)
    assert buttons == [
        f"{measure} {side}"
        for measure in ("host time", "device time")
        for side in ("of both", "before", "after")
    ]


def test_a_tree_that_only_one_side_records_is_not_drawn(tmp_path: Path) -> None:
    missing = Section("modules", "Modules", tree_report().columns, None, not_recorded=("modules",))
    tree = section(compare_trees("modules_tree", [[missing]], [[tree_report()]]))
    text = page_of_pairs(tree, pairs((1, 2)))
    assert "-flame" not in text.partition("<main")[2].partition("<script>")[0]
    assert "modules (before)" in text


@pytest.mark.parametrize("name", ["step_pairs", "step_timelines", "ranges_tree"])
def test_the_rows_go_to_json(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.db", *BASE)
    write(tmp_path / "b.db", *OTHER)
    (report,) = api.compare(tmp_path / "a.db", tmp_path / "b.db", [name]).reports
    out = io.StringIO()
    renderer("json")([report], out, Options())
    (found,) = json.loads(out.getvalue())["reports"]
    assert len(found["rows"]) == report.row_count > 0
    keys = [row["key"] for row in found["rows"]]
    assert len(set(keys)) == len(keys)



def test_the_greatest_changes_name_a_class_of_lengths_by_where_it_begins(tmp_path: Path) -> None:
    write(tmp_path / "a.db", Kernel(0, 10), Kernel(60_010, 60_020), label="a")
    write(tmp_path / "b.db", Kernel(0, 10), Kernel(11, 21), label="b")
    found = api.compare(tmp_path / "a.db", tmp_path / "b.db", ["idle_summary"], for_page=True)
    text = rendered([found.headline, *found.reports])
    assert "no_op, from 10.00 µs" in text
