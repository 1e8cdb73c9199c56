"""The time line in a real browser: by keys, mouse and touch, with what leads there and what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_pages import Opened, browser, file, opened, pinch, pytestmark
from pages import INJECTIONS, page_of
from small_store import Call, Kernel, Memcpy, Operator, Range, Row

from nsysconv.api import html_report
from nsysconv.names import escaped

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A step of 10 µs: two operators launch a kernel each, with a copy before and a gap between.
ROWS: tuple[Row, ...] = (
    Range(1000, 11_000, "step"),
    Operator(1100, 3000, "aten::mm"),
    Call(1200, 1300, 1, name="cudaLaunchKernel"),
    Memcpy(1350, 1400, direction="HtoD", bytes=100),
    Kernel(1500, 4000, 1, name="gemm"),
    Operator(6000, 7000, "aten::add"),
    Call(6100, 6200, 2, name="cudaLaunchKernel"),
    Kernel(6500, 6800, 2, name="add"),
    Kernel(8000, 9000, 3, name="gemm"),
)
"""The kernels are kernel:1, kernel:2 and kernel:3, the calls api_call:1 and api_call:2."""

STREAM = 32 + 22 + (34 + 5) + 8
"""Where the first stream lies: below the times, the head of its GPU and its account."""


@pytest.fixture
def lines(opened: Opened) -> Page:
    """The page of ROWS, with the focus on its time line."""
    page = opened(ROWS)
    page.locator("#lanes-canvas").focus()
    return page


def span(page: Page) -> str:
    """What part of the time is shown, once it is drawn."""
    page.wait_for_timeout(100)
    return page.locator("#lanes-span").inner_text()


def said(page: Page) -> list[str]:
    """What is said of the chosen event, line by line."""
    page.wait_for_timeout(50)
    found: list[str] = page.locator("#lanes-event p").all_inner_texts()
    return found


def address(page: Page) -> str:
    """The part of the address that follows `#`, once it is written."""
    page.wait_for_timeout(400)
    found: str = page.evaluate("location.hash.slice(1)")
    return found


def go(page: Page, fragment: str) -> None:
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    page.wait_for_timeout(100)


# -- moving


def test_by_keys(opened: Opened) -> None:
    page = opened()
    page.locator("#lanes-canvas").focus()
    whole = span(page)
    # From 0 to the end of the last range: 9 * 1000 + 900.
    assert whole == "9.9 µs from 0 ns"
    page.keyboard.press("+")
    assert span(page) == "4.95 µs from 2.475 µs"
    page.keyboard.press("ArrowRight")
    assert span(page) == "4.95 µs from 3.465 µs"
    page.keyboard.press("0")
    assert span(page) == whole
    page.keyboard.press("n")
    assert said(page)[0] == f"kernel on GPU 0, stream 7: {escaped(INJECTIONS[0])}, 360 ns from 40 ns"
    page.keyboard.press("n")
    assert said(page)[0].endswith("361 ns from 1,040 ns")
    scrolled = page.evaluate("scrollY")
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == scrolled  # the key is the time line's, and not the page's
    assert "thread 11" in said(page)[0]


def test_by_the_keys_of_perfetto(lines: Page) -> None:
    whole = span(lines)
    for zoom_in, zoom_out, left, right in ("wsad", "WSAD"):
        lines.keyboard.press("0")
        lines.keyboard.press(zoom_in)
        zoomed = span(lines)
        assert zoomed == "5 µs from 3.5 µs"
        lines.keyboard.press(right)
        assert span(lines) == "5 µs from 4.5 µs"
        lines.keyboard.press(left)
        assert span(lines) == zoomed
        lines.keyboard.press(zoom_out)
        assert span(lines) == whole


def test_f_shows_all_of_the_chosen_event_and_zooming_is_about_it(lines: Page) -> None:
    lines.keyboard.press("n")  # the copy
    lines.keyboard.press("n")
    lines.keyboard.press("f")
    # gemm takes 2500 ns, and has two fifths of that on both sides, as far as there is time.
    assert span(lines) == "4.5 µs from 1 µs"
    lines.keyboard.press("w")
    assert span(lines) == "2.25 µs from 1.875 µs"  # its middle, 2750, stays where it was


def test_by_mouse(opened: Opened) -> None:
    page = opened()
    canvas = page.locator("#lanes-canvas")
    canvas.scroll_into_view_if_needed()
    whole, box = span(page), canvas.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + 50
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    zoomed = span(page)
    assert zoomed.startswith("7.92 µs from ")
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(middle[0] + 40, middle[1])
    page.mouse.up()
    page.keyboard.up("Shift")
    assert span(page) != zoomed
    page.locator("#lanes button[data-key='0']").click()
    assert span(page) == whole
    # Without Ctrl the wheel scrolls the page.
    page.mouse.move(*middle)
    page.mouse.wheel(0, 60)
    assert span(page) == whole


def test_by_touch(opened: Opened) -> None:
    page = opened(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800})
    canvas = page.locator("#lanes-canvas")
    canvas.scroll_into_view_if_needed()
    whole, box = span(page), canvas.bounding_box()
    assert box is not None
    pinch(page, box["x"] + box["width"] / 2, box["y"] + 40)
    assert span(page) != whole
    shown = float(span(page).split()[0])
    assert shown < 6  # of 9.9: the fingers are more than twice as far apart


def test_pointing_takes_the_focus_and_says_the_name_at_the_pointer(opened: Opened) -> None:
    page = opened(ROWS)
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    page.evaluate("document.activeElement.blur()")
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    whole, at = span(page), (box["x"] + box["width"] * 0.2, box["y"] + STREAM)
    page.mouse.move(*at)  # 3000 ns
    tip = page.locator("#lanes-tip")
    assert tip.inner_text() == "gemm, 2.5 µs"
    place = tip.bounding_box()
    assert place is not None
    assert abs(place["x"] - at[0]) < 4
    assert 0 < place["y"] - at[1] < 30
    page.keyboard.press("w")
    assert span(page) != whole
    page.mouse.move(10, 10)
    assert not tip.is_visible()


# -- what is said


def test_an_event_says_where_it_came_from(lines: Page) -> None:
    go(lines, "event=kernel:1")
    first, source, same, why = said(lines)
    assert first == "kernel on GPU 0, stream 7: gemm, 2.5 µs from 1,500 ns"
    assert source == (
        "launched by cudaLaunchKernel on thread 11, called 300 ns before; waited 200 ns after the "
        "call; in the operator aten::mm; in the range step."
    )
    assert same.startswith("2 events called gemm: 3.5 µs in total, the longest 2.5 µs")
    assert why == "nsysconv why TARGET kernel:1"


def test_a_call_says_what_it_launched(lines: Page) -> None:
    go(lines, "event=api_call:2")
    assert said(lines)[1] == (
        "launched add, which began 400 ns after the call; in the operator aten::add; in the range step."
    )


def test_times_of_clocks_that_disagree_are_not_compared(opened: Opened) -> None:
    minute = 60 * 10**9
    rows = (Call(10, 20, 1, name="cudaLaunchKernel"), Kernel(minute, minute + 10, 1, name="gemm"))
    page = opened(rows, fragment="#event=kernel:1")
    assert said(page)[1] == "launched by cudaLaunchKernel on thread 11."
    go(page, "event=api_call:1")
    assert said(page)[1] == "launched gemm."


def test_what_an_event_lies_in_is_of_its_sort_and_in_any_row(opened: Opened) -> None:
    # The operator is in the row of the first range, which is over: above the second one, which holds it.
    rows = (
        Range(100, 200, "first"), Range(150, 9000, "second"), Range(300, 8000, "area", kind="start_end"),
        Operator(250, 4000, "aten::mm"), Operator(400, 5000, "train.py(7): step", kind="python_function"),
        Call(600, 700, 1, name="cudaLaunchKernel"), Kernel(1000, 2000, 1, name="gemm"),
    )  # fmt: skip
    page = opened(rows, fragment="#event=kernel:1")
    assert said(page)[1].endswith("; in the operator aten::mm; in the range second.")
    go(page, "event=operator:1")
    assert said(page)[1] == "in the range second."
    go(page, "event=operator:2")
    assert said(page)[0].startswith("Python function on thread 11: train.py(7): step, ")
    go(page, "event=range:3")
    assert said(page)[0].startswith("start/end range on thread 11: area, ")


def test_an_event_without_a_call_says_no_more_than_is_recorded(lines: Page) -> None:
    go(lines, "event=kernel:3")
    assert [line.partition(" ")[0] for line in said(lines)] == ["kernel", "2", "nsysconv"]


def test_others_of_the_name_by_length_with_this_one_marked(lines: Page) -> None:
    go(lines, "event=kernel:3")
    bars = lines.locator(".lengths i")
    # Ends are round: 1000 ns lie in the bucket from 1 µs, 2500 in that from 2 µs.
    assert [bars.nth(i).get_attribute("title") for i in range(bars.count())] == [
        "1 of 1 µs to 2 µs",
        "1 of 2 µs to 5 µs",
    ]
    assert [bars.nth(i).get_attribute("class") for i in range(2)] == ["own", ""]
    assert lines.locator(".by-length > span").all_inner_texts() == ["1 µs", "5 µs"]
    lines.locator("#lanes-event button", has_text="show the longest").click()
    assert said(lines)[0].endswith("gemm, 2.5 µs from 1,500 ns")


def test_names_that_try_to_break_out_are_text(opened: Opened) -> None:
    page = opened(fragment="#event=kernel:1")
    assert escaped(INJECTIONS[0]) in said(page)[1]
    assert page.evaluate("window.broken") is None
    page.locator("#lanes-search").fill("<")
    assert page.locator("#lanes-found li:not(.steps) button").count() == 12
    assert page.evaluate("window.broken") is None


# -- what leads there


def test_an_address_is_followed_though_the_one_before_is_not_yet_written(lines: Page) -> None:
    lines.evaluate("() => { window.due = []; window.setTimeout = (act) => due.push(act); }")
    go(lines, "event=kernel:1")
    lines.evaluate("location.hash = 'event=kernel:2'; due.forEach((act) => act())")
    assert said(lines)[0].startswith("kernel on GPU 0, stream 7: add, ")


def test_a_row_leads_to_its_place(lines: Page) -> None:
    lines.locator("#t-kernels tbody tr", has_text="add").locator("a.to").click()
    assert said(lines)[0] == "kernel on GPU 0, stream 7: add, 300 ns from 6,500 ns"
    assert span(lines) == "540 ns from 6.38 µs"
    assert lines.evaluate("document.activeElement.id") == "lanes-canvas"
    top = lines.locator("#lanes").bounding_box()
    assert top is not None
    assert 0 <= top["y"] < 200


def test_a_gap_leads_to_the_time_in_which_it_was(lines: Page) -> None:
    lines.locator("#t-idle-gaps tbody tr").first.locator("a.to").click()
    # The longest, from 4000 to 6500, with a quarter of that on both sides.
    assert span(lines) == "3.75 µs from 3.375 µs"
    assert said(lines)[0] == "gap:2 on GPU 0: idle for 2.5 µs from 4,000 ns"
    assert said(lines)[2].startswith("It ended as add began (kernel:2); launched by cudaLaunchKernel on")


@pytest.mark.parametrize(
    ("table", "words", "event"),
    [
        ("ranges", "step", "range on thread 11: step, "),
        ("operators", "aten::mm", "operator on thread 11: aten::mm, "),
        ("api-vs-kernel", "cudaLaunchKernel", "API call on thread 11: cudaLaunchKernel, "),
    ],
)
def test_names_lead_to_the_longest_event(lines: Page, table: str, words: str, event: str) -> None:
    lines.locator(f"#t-{table} tbody tr", has_text=words).first.locator("a.to").click()
    assert said(lines)[0].startswith(event)


def test_a_link_does_not_change_what_is_copied_or_sorted(lines: Page) -> None:
    cells = lines.locator("#t-kernels tbody td.t:has(a.to)").all_text_contents()
    assert sorted(cells) == ["add", "gemm"]


# -- the address


def test_the_address_says_what_is_looked_at(lines: Page) -> None:
    assert address(lines) == ""
    lines.keyboard.press("w")
    assert address(lines) == "time=3500:8500"
    lines.keyboard.press("n")
    assert address(lines) == "time=3500:8500&event=kernel:1"
    lines.keyboard.press("0")
    assert address(lines) == "time=1000:11000&event=kernel:1"


def test_an_address_is_gone_to(opened: Opened) -> None:
    page = opened(ROWS, fragment="#time=6000:7000&event=kernel:2")
    assert span(page) == "1 µs from 6 µs"
    assert said(page)[0].endswith("add, 300 ns from 6,500 ns")


def test_an_event_that_is_not_in_the_page_is_named(lines: Page) -> None:
    go(lines, "event=kernel:99")
    assert said(lines) == ["kernel:99 is not in this page: nsysconv why TARGET kernel:99"]


def test_a_link_is_followed_again_after_all_was_shown(lines: Page) -> None:
    link = lines.locator("#t-kernels tbody tr", has_text="add").locator("a.to")
    link.click()
    there = span(lines)
    lines.keyboard.press("0")
    assert span(lines) != there
    link.click()
    assert span(lines) == there


def test_a_clicked_event_stays_chosen_while_the_pointer_moves_on(lines: Page) -> None:
    box = lines.locator("#lanes-canvas").bounding_box()
    assert box is not None
    gemm, copy = (box["x"] + box["width"] * at / 10_000 for at in (1500, 375))
    lines.mouse.move(gemm, box["y"] + STREAM)
    assert "gemm, 2.5" in said(lines)[0]
    lines.mouse.move(copy, box["y"] + STREAM)
    assert "memcpy HtoD" in said(lines)[0]  # pointing is enough
    assert address(lines) == ""
    lines.mouse.click(gemm, box["y"] + STREAM)
    lines.mouse.move(copy, box["y"] + STREAM)
    assert "gemm, 2.5" in said(lines)[0]
    assert address(lines) == "time=1000:11000&event=kernel:1"
    lines.keyboard.press("Escape")
    lines.mouse.move(copy + 1, box["y"] + STREAM)
    assert "memcpy HtoD" in said(lines)[0]


def test_moments_are_as_exact_as_what_is_shown(lines: Page) -> None:
    spelled = "step => [1234567890123, 1234567890223].map(each => drawing.moment(each, step))"
    assert lines.evaluate(spelled, 100) == ["1234.5678901 s", "1234.5678902 s"]
    assert lines.evaluate(spelled, 1e9) == ["1235 s", "1235 s"]


def test_other_names_than_the_marked_one_are_faint(lines: Page) -> None:
    mixed = "drawing.mix(drawing.mix('#000000', '#ffffff', 0.5), '#fff', 0.5)"
    assert lines.evaluate(mixed) == "rgb(192 192 192)"


@pytest.mark.parametrize("fragment", ["time=a:b", "event=", "time=5", "%", "x=y=z"])
def test_an_address_of_nothing_changes_nothing(lines: Page, fragment: str) -> None:
    whole = span(lines)
    go(lines, fragment)
    assert span(lines) == whole


# -- search


def test_search_lists_names_and_marks_one(lines: Page) -> None:
    lines.locator("#lanes-search").fill("GEM")
    (button,) = lines.locator("#lanes-found li:not(.steps) button").all()
    assert button.inner_text() == "kernel gemm, 2 in 3.5 µs"
    button.click()
    assert said(lines)[0].endswith("gemm, 2.5 µs from 1,500 ns")
    lines.locator("#lanes-search").fill("nothing has that name")
    assert lines.locator("#lanes-found").inner_text() == "no name holds that"
    lines.locator("#lanes-search").fill("")
    assert lines.locator("#lanes-found").inner_text() == ""


# -- of a long recording


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of 4000 kernels on one stream, of which only some parts have single events; then one long after."""
    kernels = [
        Kernel(1000 * i, 1000 * i + (999 if i % 2 else 499), name=f"k{i % 2}")
        for i in range(1, 4001)
    ]
    late = Kernel(4_500_000, 4_510_000, name="late")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report, "MOST_EVENTS", 300)
        return page_of(tmp_path_factory.mktemp("long"), *kernels, late)


@pytest.fixture
def long(opened: Opened, long_page: str) -> Page:
    page = opened(long_page)
    page.locator("#lanes-canvas").focus()
    return page


def drawn(page: Page) -> int:
    page.wait_for_timeout(100)
    return int(page.locator("#lanes-canvas").get_attribute("data-drawn") or 0)


def test_far_away_tiles_are_drawn_and_said(long: Page) -> None:
    assert drawn(long) < 2000  # of 4001 and as many gaps, on 1010 pixels
    box = long.locator("#lanes-canvas").bounding_box()
    assert box is not None
    long.mouse.move(box["x"] + box["width"] * 0.0862, box["y"] + STREAM)
    # Of this tile's 4404 ns, the kernels 389 to 392 are busy for 999 + 499 + 999 + 499.
    assert said(long)[0] == (
        "GPU 0, stream 7, 4.404 µs from 388,552 ns: busy for 68.0 %, 4 events began; "
        "most time: kernel k1, 1.998 µs"
    )


def test_where_levels_end_it_says_how_to_get_more(long: Page) -> None:
    assert long.locator("#lanes-limit").inner_text() == ""
    go(long, "time=1000000:1010000")
    long.wait_for_timeout(100)
    words = long.locator("#lanes-limit").inner_text()
    assert "nsysconv report TARGET -o part.html --time 1000000:1010000" in words
    assert "nsysconv export TARGET -o part.json --to chrome --time 1000000:1010000" in words


def test_a_part_that_matters_has_single_events(long: Page) -> None:
    long.locator("#t-idle-gaps tbody tr").first.locator("a.to").click()
    assert said(long)[0] == "gap:4000 on GPU 0: idle for 499.501 µs from 4,000,499 ns"
    long.locator("#lanes-event button", has_text="show what ended it").click()
    assert said(long)[0] == "kernel on GPU 0, stream 7: late, 10 µs from 4,500,000 ns"
    assert long.locator("#lanes-limit").inner_text() == ""


def test_at_most_so_many_rectangles_are_drawn(opened: Opened) -> None:
    rows: list[Any] = [
        Kernel(1 + 7 * i + lane, 1 + 7 * i + lane + 5, name=f"k{i % 7}", stream=lane)
        for lane in range(40) for i in range(1200)
    ]  # fmt: skip
    page = opened(tuple(rows), viewport={"width": 2600, "height": 1400})
    page.locator("#lanes-canvas").focus()
    seen = [drawn(page)]
    for key in "wwwdwwa0":
        page.keyboard.press(key)
        seen.append(drawn(page))
    assert 0 < max(seen) <= 20_000
    # All lanes are reached by scrolling, though the canvas is no higher than the window.
    assert page.locator("#lanes-canvas").bounding_box()["height"] <= 1400 * 0.75 + 1  # type: ignore[index]
    for _ in range(39):
        page.keyboard.press("ArrowDown")
    assert said(page)[0].startswith("GPU 0, stream 39")


def test_n_and_p_walk_through_a_lane_in_the_order_of_time(lines: Page) -> None:
    lines.keyboard.press("ArrowDown")  # the thread
    walked = []
    for _ in range(5):
        lines.keyboard.press("n")
        walked.append(said(lines)[0].partition(": ")[2].partition(",")[0])
    assert walked == ["step", "aten::mm", "cudaLaunchKernel", "aten::add", "cudaLaunchKernel"]
    lines.keyboard.press("n")
    assert said(lines) == ["thread 11: this is the last event that is known"]
    back = []
    for _ in range(4):
        lines.keyboard.press("p")
        back.append(said(lines)[0].partition(": ")[2].partition(",")[0])
    assert back == ["aten::add", "cudaLaunchKernel", "aten::mm", "step"]
    lines.keyboard.press("p")
    assert said(lines) == ["thread 11: this is the first event that is known"]


def test_the_pointer_is_in_an_event_before_it_is_near_another(opened: Opened) -> None:
    rows = (Kernel(0, 500_000, name="left"), Kernel(500_000, 1_000_000, name="right"))
    page = opened(rows)
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    middle, y = box["x"] + box["width"] / 2, box["y"] + STREAM
    for x, name in ((middle - 1, "left"), (middle + 1, "right")):
        page.mouse.move(x, y)
        assert name in said(page)[0]


@pytest.mark.parametrize(("parts", "words"), [
    ([(0, 2000)], "launched 2 operations of those in this page, first k0"),
    (None, "launched 3 operations, first k0"),
])  # fmt: skip
def test_of_what_a_call_launched_some_may_not_be_in_the_page(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    parts: list[tuple[int, int]] | None, words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(html_report, "time_line_parts", lambda *_: parts)
    starts = enumerate((300, 500, 50_000))
    kernels = [Kernel(start, start + 100, 1, name=f"k{i}") for i, start in starts]
    page = opened(page_of(tmp_path, Call(100, 200, 1), *kernels), fragment="#event=api_call:1")
    assert said(page)[1].startswith(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_have_contrast_to_their_boxes(opened: Opened, scheme: str) -> None:
    """4.5 to 1, what WCAG asks of small letters, on each class and each of its three shades."""
    page = opened(ROWS, color_scheme=scheme)
    pairs = page.evaluate("""() => {
      const paint = drawing.colors();
      const classes = ["computation", "communication", "memcpy", "memset", "migration"];
      return classes.flatMap((name) => [1, 0.82, 0.66].map((shade) => {
        const color = drawing.mix(paint.of_class(name), paint.bg, shade);
        return [color, drawing.mix(drawing.ink(color), drawing.ink(color), 1)];
      }));
    }""")
    assert len(pairs) == 15
    assert {contrast(*pair) >= 4.5 for pair in pairs} == {True}


def contrast(one: str, other: str) -> float:
    """The contrast of two colors `rgb(r g b)` by WCAG 2."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
