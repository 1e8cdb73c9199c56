"""The page of a comparison in a real browser: both runs on one axis, and the trees of both sides.

Skipped, with the reason, where there is no Chromium or no playwright; `make test-system` runs these.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pinch, pytestmark
from pages import INJECTIONS, NODES, rendered, tree_report
from small_store import Call, Kernel, Memcpy, Operator, Range, Row, write
from test_diff_on_one_axis import BASE, OTHER
from test_diff_trees import AFTER

from nsysconv import api
from nsysconv.diff.trees import compare_trees
from nsysconv.document import Section
from nsysconv.names import escaped
from nsysconv.present.tables import section

if TYPE_CHECKING:
    from playwright.sync_api import Page

@pytest.fixture(scope="module")
def of_both(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of BASE and OTHER."""
    return both(tmp_path_factory.mktemp("both"))


@pytest.fixture(scope="module")
def of_hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of two profiles of hostile names."""
    return both(tmp_path_factory.mktemp("hostile"), hostile(1), hostile(3))


def both(folder: Path, base: tuple[Row, ...] = BASE, other: tuple[Row, ...] = OTHER) -> str:
    """The page of two profiles of these rows."""
    write(folder / "before.db", *base, label="before")
    write(folder / "after.db", *other, label="after")
    found = api.compare(folder / "before.db", folder / "after.db", for_page=True)
    return rendered([found.headline, *found.reports])


def event(page: Page) -> str:
    return page.locator(".aligned .event").inner_text()


def shown(page: Page) -> str:
    """What part of the time is shown, once it is drawn."""
    page.wait_for_timeout(100)
    return page.locator(".aligned .span").inner_text()


# -- the first screen


@pytest.mark.parametrize("width", [1440, 1024, 400])
def test_the_greatest_changes_have_their_numbers_on_screen(
    opened: Opened, tmp_path: Path, width: int
) -> None:
    """A name is cut where there is no room; changes, verdicts and intervals never are."""
    name = "void at::native::multi_tensor_apply_kernel<" + "c10::BFloat16, " * 40 + "int>"
    page = opened(both(tmp_path, (Kernel(0, 900_000, name=name),), (Kernel(0, 400_000, name=name),)))
    page.set_viewport_size({"width": width, "height": 900})
    table = page.locator(".changes table")
    right = table.evaluate("e => e.parentElement.getBoundingClientRect().right")
    cells = table.locator("tbody td:not(:first-child)")
    assert cells.count() >= 5
    for cell in cells.all():
        assert cell.evaluate("e => e.scrollWidth <= e.clientWidth")
        assert cell.evaluate("e => e.getBoundingClientRect().right") <= right
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_waterfall_leads_from_before_to_after(opened: Opened, tmp_path: Path) -> None:
    """Of 1000 µs: 200 of computation and 100 of idle time less, and copies of 50 more."""
    us = 1000
    before = (Kernel(0, 600 * us, name="gemm"), Kernel(900 * us, 1000 * us, name="norm"))
    late = Kernel(650 * us, 750 * us, name="norm")
    after = (Kernel(0, 400 * us, name="gemm"), Memcpy(400 * us, 450 * us), late)
    page = opened(both(tmp_path, before, after))
    lines = page.locator(".fall li").all()
    said = {line.locator(".lb").inner_text(): line.locator(".vl").inner_text() for line in lines}
    assert said["before"] == "1.00 ms"
    assert list(said)[-1] == "after"
    assert said["after"] == "750.00 µs"
    assert said["exposed copies"] == "+50.00 µs"
    assert said["kernels: time per launch"] == "−200.00 µs"
    boxes = [line.locator(".tr i").bounding_box() for line in lines]
    room = lines[0].locator(".tr").bounding_box()
    assert room is not None
    at = 1000.0
    for line, box in zip(lines[1:-1], boxes[1:-1], strict=True):
        assert box is not None
        left = (box["x"] - room["x"]) / room["width"] * 1000
        right = left + box["width"] / room["width"] * 1000
        is_less = line.locator("i").get_attribute("class") == "less"
        start, end = (right, left) if is_less else (left, right)
        assert abs(start - at) < 3  # where the one before ended
        at = end
    assert abs(at - 750) < 3


def test_the_sides_have_one_palette(opened: Opened, of_both: str) -> None:
    page = opened(of_both)
    bars = page.locator("#r-diff-kernels figure.bars .tr i")
    assert bars.count()
    assert {bar.get_attribute("class") for bar in bars.all()} == {"was", "now"}


# -- on one axis


@pytest.fixture
def aligned(opened: Opened, of_both: str) -> Page:
    """The page of BASE and OTHER, with the focus on their time lines, and the first step chosen."""
    page = opened(of_both)
    page.locator(".aligned [data-pair]", has_text="greatest").click()
    page.locator(".aligned canvas").focus()
    return page


def test_one_chooses_between_two_pairs_of_steps(aligned: Page) -> None:
    words = aligned.locator(".aligned .pair")
    assert words.inner_text() == "ProfilerStep#1: 100 ns → 60 ns (−40 ns, −40.0 %)"
    aligned.locator(".aligned [data-pair]", has_text="median").click()
    assert words.inner_text() == "ProfilerStep#3: 100 ns → 100 ns (0 ns, +0.0 %)"
    pressed = aligned.locator(".aligned [data-pair][aria-pressed=true]")
    assert pressed.all_inner_texts() == ["step of the median difference"]


def test_boxes_are_read_out_by_keys(aligned: Page) -> None:
    aligned.keyboard.press("n")
    where = "device 0 → 2, stream 7 → 9"
    assert event(aligned) == f"computation before, {where}: gemm, 30 ns from 20 ns"
    aligned.keyboard.press("n")
    assert event(aligned) == f"copy before, {where}: [memcpy], 20 ns from 60 ns"
    aligned.keyboard.press("p")
    assert "gemm" in event(aligned)
    aligned.keyboard.press("ArrowDown")
    assert event(aligned) == f"{where}, busy only before: n is the next box"
    aligned.keyboard.press("n")
    assert event(aligned) == f"Busy only before, {where}: 10 ns, from 20 ns"
    for _ in range(2):
        aligned.keyboard.press("ArrowDown")
    aligned.keyboard.press("n")
    assert event(aligned) == f"computation after, {where}: gemm fast, 25 ns from 30 ns"


def test_it_is_zoomed_and_moved_by_keys(aligned: Page) -> None:
    assert shown(aligned) == "100 ns from 0 ns"
    aligned.keyboard.press("+")
    assert shown(aligned) == "50 ns from 25 ns"
    aligned.keyboard.press("ArrowRight")
    assert shown(aligned) == "50 ns from 35 ns"
    scrolled = aligned.evaluate("scrollY")
    aligned.keyboard.press("ArrowDown")
    assert aligned.evaluate("scrollY") == scrolled
    aligned.keyboard.press("0")
    assert shown(aligned) == "100 ns from 0 ns"


def test_it_has_the_keys_of_the_time_line(aligned: Page) -> None:
    seen = []
    for key in "wdas":
        aligned.keyboard.press(key)
        seen.append(shown(aligned))
    assert seen == ["50 ns from 25 ns", "50 ns from 35 ns", "50 ns from 25 ns", "100 ns from 0 ns"]


def test_it_is_zoomed_and_moved_by_mouse(aligned: Page) -> None:
    canvas = aligned.locator(".aligned canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    # Names of rows take 48 pixels, the ruler and the head of the lane 36.
    at = box["x"] + 48 + (box["width"] - 48) * 0.4, box["y"] + 36 + 8
    aligned.mouse.move(*at)
    assert event(aligned).startswith("computation before, ")
    aligned.keyboard.down("Control")
    aligned.mouse.wheel(0, -100)
    aligned.keyboard.up("Control")
    assert shown(aligned) == "80 ns from 8 ns"
    aligned.mouse.down()
    aligned.mouse.move(at[0] + (box["width"] - 48) / 80 * 4, at[1])
    aligned.mouse.up()
    assert shown(aligned) == "80 ns from 4 ns"
    aligned.locator(".aligned [data-key='0']").click()
    assert shown(aligned) == "100 ns from 0 ns"
    aligned.mouse.move(*at)
    aligned.mouse.wheel(0, 60)  # without Ctrl it scrolls the page
    assert shown(aligned) == "100 ns from 0 ns"


def test_it_is_zoomed_by_two_fingers(opened: Opened, of_both: str) -> None:
    page = opened(of_both, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800})
    canvas = page.locator(".aligned canvas")
    canvas.scroll_into_view_if_needed()
    whole, box = shown(page), canvas.bounding_box()
    assert box is not None
    pinch(page, box["x"] + box["width"] / 2, box["y"] + 45)
    assert shown(page) != whole
    assert float(shown(page).split()[0]) < 60


def color_at(page: Page, canvas: str, x: float, y: float) -> tuple[int, int, int]:
    """The color of a point of a canvas, in pixels of the page."""
    page.wait_for_timeout(100)
    red, green, blue = page.evaluate(
        """([canvas, x, y]) => {
            const element = document.querySelector(canvas), ratio = window.devicePixelRatio || 1;
            // Of a copy: reading a canvas that is drawn on is complained of.
            const copy = new OffscreenCanvas(1, 1).getContext("2d");
            copy.drawImage(element, -x * ratio, -y * ratio);
            const {data} = copy.getImageData(0, 0, 1, 1);
            return [...data.slice(0, 3)]; }""",
        [canvas, x, y],
    )
    return red, green, blue


def test_a_lane_has_what_ran_and_when_one_was_busy_alone(aligned: Page) -> None:
    """In the colors of the light page: computation blue, copies orange, before gray, after teal."""
    width: float = aligned.evaluate("document.querySelector('.aligned canvas').clientWidth")

    def at(ns: float, y: float) -> tuple[int, int, int]:
        return color_at(aligned, ".aligned canvas", 48 + (width - 48) * ns / 100, y)

    blue, orange = (0x25, 0x4E, 0x90), (0xBB, 0x7E, 0x04)
    gray, teal = (0x8A, 0x92, 0x9C), (0x2A, 0x8F, 0x8A)
    # Rows from above: 17 before, 5 and 5 alone, 17 after, a pixel between two.
    before, alone_before, alone_after, after = 36 + 15, 36 + 20, 36 + 26, 36 + 45
    assert at(48, before) == blue
    assert at(70, before) == orange
    assert at(25, alone_before) == at(70, alone_before) == gray
    assert at(52, alone_after) == teal
    assert at(52, after) == blue
    assert blue != at(25, after) != gray
    # After is over at 60: behind that there is nothing, not even the step.
    assert at(65, after) == (255, 255, 255)
    assert at(57, after) == (0xF4, 0xF6, 0xF8)


def test_operations_that_are_one_box_say_so(opened: Opened, tmp_path: Path) -> None:
    kernels = tuple(Kernel(10 * i, 10 * i + 4, name="tick") for i in range(12_000))
    page = opened(both(tmp_path, kernels, kernels))
    page.locator(".aligned canvas").focus()
    page.keyboard.press("n")
    assert " operations before, device 0, stream 7: " in event(page)
    assert event(page).endswith("the longest is computation, tick")


# -- trees


@pytest.fixture
def tree(opened: Opened) -> Page:
    """A page of one tree of both sides, with the focus on it."""
    report = section(compare_trees("modules_tree", [[tree_report(NODES)]], [[tree_report(AFTER)]]))
    page = opened(rendered([Section("answer", "same: it", (), None), report]))
    page.locator(".boxes").focus()
    return page


def box_words(page: Page) -> str:
    return page.locator(".flame .event").inner_text()


def test_a_box_says_before_after_and_the_difference(tree: Page) -> None:
    """Host: 200 to 170; the device of `step` alone is recorded: 80 to 90."""
    assert box_words(tree) == (
        "all: host time 200 ns → 170 ns (−30 ns, −15.0 %); device time 80 ns → 90 ns (+10 ns, +12.5 %)"
    )
    tree.keyboard.press("ArrowDown")
    tree.keyboard.press("ArrowDown")
    assert box_words(tree) == (
        "new: host time 0 ns → 70 ns (+70 ns); device time 0 ns → 10 ns (+10 ns); calls 0 → 1"
    )


def test_boxes_are_as_wide_as_before_after_or_both(tree: Page) -> None:
    buttons = tree.locator(".flame [data-weight]")
    assert buttons.all_inner_texts()[:3] == ["host time of both", "host time before", "host time after"]
    drawn = tree.locator(".flame .drawn")
    assert drawn.inner_text().startswith("7 of 7 boxes drawn")
    buttons.nth(1).click()
    assert drawn.inner_text().startswith("5 of 5 boxes drawn")
    # The widest in the widest: before `conv2d` in `step`, after `new`.
    for button, widest in ((1, "conv2d"), (2, "new")):
        buttons.nth(button).click()
        tree.locator(".boxes").focus()
        for key in ("Escape", "ArrowDown", "ArrowDown"):
            tree.keyboard.press(key)
        assert box_words(tree).startswith(f"{widest}: ")


def test_boxes_are_blue_for_less_red_for_more_the_stronger_the_greater(tree: Page) -> None:
    """Of both: `step` 230 and `other` 140 of 370; in `step` are `new` +70, `add` -10, `conv2d` -50."""
    width: float = tree.evaluate("document.querySelector('.boxes').clientWidth")

    def at(share: float, depth: int) -> tuple[int, int, int]:
        return color_at(tree, ".boxes", width * share, depth * 18 + 15)

    step, other = at(200 / 370, 1), at(300 / 370, 1)
    assert step[0] > step[2]
    assert other[2] > other[0]
    new, add, conv2d = (at(place / 370, 2) for place in (60, 95, 150))
    assert new[0] > new[2]
    assert conv2d[2] > conv2d[0]
    # The stronger, the darker: +70 before +30, -50 before -10.
    assert new[2] < step[2]
    assert conv2d[0] < add[0]
    assert "The strongest color is a change by 70 ns" in tree.locator(".flame .drawn").inner_text()


def test_a_tree_that_did_not_change_is_gray(opened: Opened) -> None:
    same = section(compare_trees("modules_tree", [[tree_report()]], [[tree_report()]]))
    page = opened(rendered([Section("answer", "same: it", (), None), same]))
    red, _, blue = color_at(page, ".boxes", 30, 18 + 15)
    assert abs(red - blue) < 8
    assert "Nothing changed" in page.locator(".flame .drawn").inner_text()


# -- all of it


def hostile(times: int) -> tuple[Row, ...]:
    """Steps, ranges, operators and kernels of hostile names; kernels take `times` as long."""
    rows: list[Row] = []
    for i, name in enumerate(INJECTIONS):
        at = i * 1000
        rows += [
            Range(at, at + 900, f"ProfilerStep#{name}"),
            Range(at + 5, at + 880, name),
            Operator(at + 10, at + 800, name),
            Call(at + 20, at + 30, i + 1, name=name),
            Kernel(at + 40, at + 40 + 100 * times + i, i + 1, name=name),
            Memcpy(at + 500, at + 600),
        ]
    return tuple(rows)


def test_hostile_names_stay_text(opened: Opened, of_hostile: str) -> None:
    page = opened(of_hostile)
    assert page.evaluate("window.broken") is None
    assert page.locator("img, iframe, h1:has-text('out')").count() == 0
    page.locator(".aligned canvas").focus()
    page.keyboard.press("n")
    assert any(escaped(name) in event(page) for name in INJECTIONS)
    assert page.locator(".flame").count() >= 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(
    opened: Opened, of_hostile: str, scheme: str
) -> None:
    options = {"viewport": {"width": 400, "height": 800}, "color_scheme": scheme}
    page = opened(of_hostile, **options)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.locator(".steps svg").first.bounding_box()["width"] > 300  # type: ignore[index]


def test_print_has_the_pictures_and_not_the_buttons(opened: Opened, of_both: str) -> None:
    page = opened(of_both)
    page.emulate_media(media="print")
    assert page.locator(".aligned canvas").is_visible()
    assert page.locator(".steps svg").first.is_visible()
    assert not page.locator(".aligned .tools").is_visible()


def test_without_scripts_the_steps_are_there(opened: Opened, of_both: str) -> None:
    page = opened(of_both, java_script_enabled=False)
    assert page.locator(".steps svg").first.is_visible()
    assert "needs the page's script" in page.locator("#r-step-timelines noscript").inner_text()
