"""A part of the time line that is selected, in a real browser: what was busy and what ran in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from pages import page_of
from small_store import Kernel
from test_system_page_lanes import STREAM, address, go, lines, said, span

from nsysconv.api import html_report

if TYPE_CHECKING:
    from playwright.sync_api import Page


def lists(page: Page) -> dict[str, list[str]]:
    """The names of the panel, by what they are."""
    page.wait_for_timeout(100)
    return {
        part.locator("h4").inner_text(): [
            line.inner_text().replace("\n", " ") for line in part.locator("li").all()
        ]
        for part in page.locator("#lanes-event .selected > div").all()
    }


def drag(page: Page, from_: tuple[float, float], to: tuple[float, float]) -> None:
    """From one place to another of the canvas; x is a share of its width, y in pixels."""
    box = page.locator("#lanes-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * from_[0], box["y"] + from_[1])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * to[0], box["y"] + to[1], steps=3)
    page.mouse.up()


def test_a_drag_selects_time_on_all_lanes_it_touches(lines: Page) -> None:
    whole = span(lines)
    drag(lines, (0.2, 10), (0.4, 60))  # from where the times are: all lanes
    # A fifth of 10 µs from 3000, to a pixel.
    words = said(lines)[0].split()
    assert words[0] == "Selected:"
    assert abs(float(words[1]) - 2) < 0.02
    assert abs(int(words[4].replace(",", "")) - 3000) < 20
    assert {"Kernels", "Ranges"} == set(lists(lines))
    assert span(lines) == whole
    lines.keyboard.press("f")
    assert span(lines).startswith("3.6")
    lines.keyboard.press("Escape")
    assert said(lines) == []
    lines.keyboard.press("0")
    drag(lines, (0.02, STREAM), (0.5, STREAM))
    assert " on GPU 0, stream 7" in said(lines)[0]
    assert set(lists(lines)) == {"Kernels", "Copies and sets"}


def test_what_was_busy_and_what_ran_is_cut_at_the_edges(lines: Page) -> None:
    go(lines, "select=2000:8500:0:2")
    # Of 6500 ns: 2000 and 500 of gemm, all 300 of add; a gap of 2500, of which the host did not call for
    # 2100 and called for 100, and 1200 that no call explains.
    assert said(lines) == [
        "Selected: 6.5 µs from 2,000 ns",
        "nsysconv report TARGET --time 2000:8500",
        "GPU 0 busy for 43.1 %: computation 2.8 µs (43.1 %), idle, CPU-bound 2.1 µs (32.3 %), "
        "idle, cause not recorded 1.2 µs (18.5 %), idle, queued 300 ns (4.6 %), "
        "idle, launch latency 100 ns (1.5 %)",
    ]
    assert lists(lines) == {
        "Kernels": ["gemm 2.5 µs in 2", "add 300 ns in 1"],
        "Calls": ["cudaLaunchKernel 100 ns in 1"],
        "Operators": ["aten::mm 1 µs in 1", "aten::add 1 µs in 1"],
        "Ranges": ["step 6.5 µs in 1"],
    }
    assert address(lines).endswith("select=2000:8500")  # all lanes


def test_the_command_of_a_selection_can_be_copied(opened: Opened) -> None:
    page = opened(permissions=["clipboard-read", "clipboard-write"], fragment="#select=100:900:0:1")
    page.locator("#lanes-event button", has_text="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "nsysconv report TARGET --time 100:900"


def test_m_selects_the_time_of_the_chosen_event(lines: Page) -> None:
    go(lines, "event=kernel:2")
    lines.keyboard.press("m")
    assert said(lines)[0] == "Selected: 300 ns from 6,500 ns"
    assert lists(lines)["Kernels"] == ["add 300 ns in 1"]


def test_back_leads_to_the_time_before(lines: Page) -> None:
    whole = span(lines)
    lines.keyboard.press("w")
    assert address(lines) == "time=3500:8500"
    lines.keyboard.press("d")  # sideways: no step of its own
    assert address(lines) == "time=4500:9500"
    lines.locator("#t-kernels tbody tr", has_text="add").locator("a.to").click()
    assert address(lines).endswith("event=kernel:2")
    lines.go_back()
    assert span(lines) == "5 µs from 4.5 µs"
    assert address(lines) == "time=4500:9500"
    lines.go_back()
    assert span(lines) == whole
    lines.go_forward()
    assert span(lines) == "5 µs from 4.5 µs"


def test_of_names_in_tiles_the_least_is_said(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "MOST_EVENTS", 300)
    kernels = [Kernel(1000 * i, 1000 * i + 600, name=f"k{i % 2}") for i in range(1, 4001)]
    page = opened(page_of(tmp_path, *kernels), fragment="#select=1000001:2000001:0:1")
    words = said(page)
    # Each kernel but the first, of which an ns is left out, and one of which an ns is in it.
    assert words[2].startswith("GPU 0 busy for 60.0 %: computation 600 µs (60.0 %)")
    assert words[3].startswith("Not all events of this time are in this page")
    kernels_said = lists(page)["Kernels"]
    assert len(kernels_said) == 2
    for line in kernels_said:
        least = float(line.split()[-2])
        assert "at least" in line
        assert 100 < least <= 300


def test_a_row_of_steps_selects_the_time_of_the_step(lines: Page) -> None:
    lines.locator("#t-steps tbody tr").first.locator("a.to").click()
    assert said(lines)[0] == "Selected: 10 µs from 1,000 ns"
    assert lists(lines)["Kernels"] == ["gemm 3.5 µs in 2", "add 300 ns in 1"]


def test_the_first_screen_leads_to_the_longest_gap(lines: Page) -> None:
    lines.locator("#answer a", has_text="The longest gap").click()
    assert said(lines)[0] == "gap:2 on GPU 0: idle for 2.5 µs from 4,000 ns"
