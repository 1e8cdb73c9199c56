"""Lanes of the time line in groups that fold, in a real browser: their labels, counters and colors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from pages import rendered
from small_store import Call, Kernel, Memory, Range, Row, write
from test_system_page_account import color_of, colors
from test_system_page_lanes import go, said

from nsysconv import api
from nsysconv.api import html_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Stream 1 is busy all of the time, and nine more for 50 ns each.
ROWS: tuple[Row, ...] = (
    Range(0, 50_000, "step 0"),
    Range(50_000, 100_000, "step 1"),
    Call(10, 20, 1),
    Kernel(0, 100_000, 1, name="gemm", stream=1),
    *(Kernel(1000 * stream, 1000 * stream + 50, name="norm", stream=stream) for stream in range(2, 11)),
)


def labels(page: Page) -> list[str]:
    """What is beside the lanes, from above to below."""
    page.wait_for_timeout(100)
    texts: list[str] = page.evaluate("""
      [...document.querySelectorAll("#lanes-names > *")]
        .sort((a, b) => parseInt(a.style.top) - parseInt(b.style.top)).map((each) => each.textContent)
    """)
    return texts


def test_lanes_are_in_groups_and_those_of_many_that_do_little_are_hidden(opened: Opened) -> None:
    page = opened(ROWS)
    assert labels(page) == [
        "▾ GPU 0", "+9 quiet", "account", "stream 1", "▾ process 1", "thread 11",
    ]  # fmt: skip
    low = page.locator("#lanes-height").bounding_box()
    page.locator("#lanes-names button", has_text="quiet").click()
    assert [label for label in labels(page) if label.startswith("stream")] == [
        f"stream {number}" for number in range(1, 11)
    ]
    tall = page.locator("#lanes-height").bounding_box()
    assert low is not None
    assert tall is not None
    assert tall["height"] == low["height"] + 9 * 22
    # The button has kept the focus, and hides them again.
    page.keyboard.press("Enter")
    assert "stream 2" not in labels(page)


def test_a_folded_group_keeps_its_account(opened: Opened) -> None:
    page = opened(ROWS)
    for name in ("GPU 0", "process 1"):
        page.locator("#lanes-names button", has_text=name).click()
    assert labels(page) == ["▸ GPU 0", "account", "▸ process 1"]
    # Arrows pass over what is hidden.
    page.locator("#lanes-canvas").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert said(page)[0].startswith("GPU 0: where the time went")


def test_a_link_shows_a_hidden_lane(opened: Opened) -> None:
    page = opened(ROWS, fragment="#event=kernel:3")
    assert "stream 3" in labels(page)
    page.locator("#lanes-names button", has_text="process 1").click()
    go(page, "event=range:1")
    assert "thread 11" in labels(page)


def test_memory_in_use_is_a_lane_of_its_gpu(opened: Opened) -> None:
    rows = (
        Kernel(0, 2400, name="gemm"),
        Memory(0, bytes=1_000_000, address=1),
        Memory(1200, bytes=3_000_000, address=2),
        Memory(2400, bytes=-3_000_000, address=2),
    )
    page = opened(rows)
    found = labels(page)
    assert found[:3] == ["▾ GPU 0", "account", "stream 7"]
    assert found[3].endswith("memory")
    top = page.evaluate("""[...document.querySelectorAll("#lanes-names .lane")].at(-1).offsetTop""")
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    words = []
    for share in (0.25, 0.75):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + top + 20)
        words.append(said(page)[0])
    assert "at most 1.00 MB" in words[0]
    assert "at most 4.00 MB" in words[1]
    # A quarter of the height, then all of it.
    plain = color_of(page, "--s6")
    assert [plain in colors(page, share, top + 10) for share in (0.25, 0.75)] == [False, True]
    assert plain in colors(page, 0.25, top + 26)


def test_colors_are_by_class_by_name_or_by_range(opened: Opened) -> None:
    rows = (
        Range(0, 100, "forward"), Call(10, 20, 1), Range(200, 300, "backward"), Call(210, 220, 2),
        Kernel(400, 600, 1, name="a"), Kernel(600, 800, 2, name="b"), Kernel(800, 1000, name="c"),
    )  # fmt: skip
    page = opened(rows)
    stream = 32 + 22 + 39 + 8
    places = (0.45, 0.65, 0.85)

    def seen() -> list[set[tuple[int, ...]]]:
        return [colors(page, share, stream, 2, 2) for share in places]

    by_class = seen()
    page.locator("#lanes-colors").select_option("name")
    by_name = seen()
    assert len({frozenset(each) for each in by_name}) == 3
    assert by_name != by_class
    page.locator("#lanes-colors").select_option("range")
    by_range = seen()
    assert by_range[0] != by_range[1]
    page.locator("#lanes-colors").select_option("class")
    assert seen() == by_class


def rgb(number: int) -> tuple[int, ...]:
    return number >> 16, number >> 8 & 255, number & 255


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ranges_have_the_colors_that_the_program_gave_them(opened: Opened, scheme: str) -> None:
    """One that nobody could see on the page's ground is mixed with gray."""
    rows = (
        Range(0, 250, "forward", color=0xFF76B900), Range(250, 500, "backward", color=0x00804000),
        Range(500, 750, "optimizer", color=0xFFFFFF if scheme == "light" else 0x0D1117),
        Range(750, 1000, "other"), Kernel(0, 1000),
    )  # fmt: skip
    page = opened(rows, color_scheme=scheme)
    thread = 32 + 22 + 39 + 22 + 22 + 8

    def seen(share: float) -> set[tuple[int, ...]]:
        return colors(page, share, thread, 2, 2)

    by_class = [seen(share) for share in (0.2, 0.45, 0.7, 0.95)]
    stream = colors(page, 0.7, thread - 44, 2, 2)
    page.locator("#lanes-colors").select_option(label="NVTX colors")
    assert seen(0.2) == {rgb(0x76B900)}
    assert seen(0.45) == {rgb(0x804000)}
    assert seen(0.7) not in ({rgb(0xFFFFFF)}, {rgb(0x0D1117)}, by_class[2])
    assert seen(0.95) == by_class[3]
    assert colors(page, 0.7, thread - 44, 2, 2) == stream


def test_tiles_of_ranges_have_the_color_of_their_name(opened: Opened, tmp_path: Path) -> None:
    rows: list[Row] = [Kernel(at, at + 900) for at in range(0, 200_000, 1000)]
    rows += [Range(at, at + 990, "work", color=0x804000) for at in range(0, 200_000, 1000)]
    write(tmp_path / "long.db", *rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report, "MOST_EVENTS", 20)
        page = opened(rendered(api.page(tmp_path / "long.db")))
    page.locator("#lanes-colors").select_option("own")
    thread = 32 + 22 + 39 + 22 + 22 + 12
    assert rgb(0x804000) in colors(page, 0.5, thread, 6, 4)


def test_steps_are_lines_of_the_time_line(opened: Opened) -> None:
    steps = (Range(i * 250, i * 250 + 250, f"step {i}") for i in range(4))
    page = opened((*steps, Kernel(0, 1000)))
    line = color_of(page, "--line")
    assert line in colors(page, 0.5, 24, 4, 4)
    assert line not in colors(page, 0.4, 24, 4, 4)


def test_without_ranges_there_are_no_colors_by_range(opened: Opened, tmp_path: Path) -> None:
    page = opened((Kernel(0, 10),))
    assert page.locator("#lanes-colors option").all_inner_texts() == ["by class", "by name"]
