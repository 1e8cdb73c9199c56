"""Tables and sections of the page in a real browser: filters, copies, files, and what is folded."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import Opened, browser, file, opened, pytestmark
from pages import page_of, rendered
from small_store import Call, Kernel, Memcpy, Row, write
from test_system_page import shown_rows

from nsysconv import api

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Kernel i takes 1,000,001 ns * (i + 1): in the page 1.00 ms to 12.0 ms, and the longest is first.
COUNT = 12
ROWS: tuple[Row, ...] = (
    *(Call(20_000_000 * i, 20_000_000 * i + 10, i + 1) for i in range(COUNT)),
    *(Kernel(20_000_000 * i + 20, 21_000_001 * i + 1_000_021, i + 1, name=f'k"{i}, b')
      for i in range(COUNT)),
    Memcpy(240_000_000, 240_000_010, bytes=5),
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    path = folder / "page.html"
    path.write_text(page_of(folder, *ROWS), encoding="utf-8")
    return path


@pytest.fixture
def kernels(opened: Opened, tables: Path) -> Page:
    return opened(tables, permissions=["clipboard-read"])


def tool(page: Page, name: str) -> Locator:
    return page.locator("#r-kernels .tools button", has_text=name)


def names(*numbers: int) -> list[str]:
    return [f'k"{i}, b' for i in numbers]


def test_times_have_units_of_their_own_and_are_sorted_by_all_digits(opened: Opened) -> None:
    """999 ns is before 1.00 ms, and of two that read 1.00 ms the longer by 1 ns is the first."""
    ends = {"a": 999, "b": 1_000_000, "c": 1_000_001}
    page = opened(tuple(Kernel(i, i + dur, name=name) for i, (name, dur) in enumerate(ends.items())))
    header = page.locator("#t-kernels th", has_text="kernel time").locator("button")
    header.click()
    assert shown_rows(page, "t-kernels") == ["c", "b", "a"]
    cells = page.locator("#t-kernels tbody td:nth-child(3)").all_inner_texts()
    assert cells == ["1.00 ms", "1.00 ms", "999 ns"]
    header.click()
    assert shown_rows(page, "t-kernels") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "left"),
    [("> 11 ms", [11, 10]), ("<2ms", [0]), (">= 12,000,012", [11]), ("= 2000002 ns", [1]), ("> 1 s", [])],
)
def test_a_filter_of_numbers_compares_all_digits(kernels: Page, words: str, left: list[int]) -> None:
    tool(kernels, "Filter").click()
    kernels.get_by_label("Filter kernel time", exact=True).fill(words)
    assert shown_rows(kernels, "t-kernels") == names(*left)
    said = kernels.locator("#r-kernels .tools [aria-live]").inner_text()
    assert said == f"{len(left)} of {COUNT} rows"


@pytest.mark.parametrize("words", ["> many", ">", "-", "ms", ".", "> ms", "1 2"])
def test_what_is_no_comparison_filters_nothing_and_says_so(kernels: Page, words: str) -> None:
    tool(kernels, "Filter").click()
    field = kernels.get_by_label("Filter kernel time", exact=True)
    field.fill(words)
    assert field.get_attribute("aria-invalid") == "true"
    assert len(shown_rows(kernels, "t-kernels")) == COUNT


def test_a_number_in_another_unit_is_the_number_that_it_looks_like(kernels: Page) -> None:
    # The product of the doubles 1.000001 and 1e6 is a little less than 1000001.
    tool(kernels, "Filter").click()
    field = kernels.get_by_label("Filter kernel time", exact=True)
    for number, words in enumerate(("= 1.000001 ms", "= 2.000002 ms")):
        field.fill(words)
        assert shown_rows(kernels, "t-kernels") == names(number)


def test_few_texts_are_a_menu(kernels: Page) -> None:
    tool(kernels, "Filter").click()
    menu = kernels.get_by_label("Filter name", exact=True)
    assert menu.evaluate("menu => menu.localName") == "select"
    menu.select_option(label='k"3, b')
    assert shown_rows(kernels, "t-kernels") == names(3)


def test_filters_and_search_hold_together_and_end_when_they_are_closed(kernels: Page) -> None:
    button = tool(kernels, "Filter")
    button.focus()
    kernels.keyboard.press("Enter")  # the first field has the focus now
    kernels.keyboard.press("Tab")
    kernels.get_by_label("Filter kernel time", exact=True).fill("> 9 ms")
    kernels.locator("#r-kernels .tools input[type=search]").fill("k\"1")
    assert shown_rows(kernels, "t-kernels") == names(11, 10)
    button.click()
    assert button.get_attribute("aria-expanded") == "false"
    assert shown_rows(kernels, "t-kernels") == names(11, 10, 1)


def test_a_file_has_the_rows_that_are_shown_with_all_columns_and_digits(
    kernels: Page, tables: Path
) -> None:
    kernels.locator("#r-kernels .tools input[type=search]").fill("k\"1")
    with kernels.expect_download() as started:
        tool(kernels, "CSV").click()
    assert started.value.suggested_filename == "kernels.csv"
    found = list(csv.DictReader(io.StringIO(Path(started.value.path()).read_text("utf-8"))))
    with api.open(tables.with_name("rows.db")) as profile:
        rows = list(profile.report("kernels").rows())
    expected = [row for row in rows if row["name"].startswith('k"1')]
    assert len(found) == 3
    for line, row in zip(found, expected, strict=True):
        assert {name: "" if row[name] is None else str(row[name]) for name in line} == line
    assert {"kernel_sum_ns", "stddev_ns", "kernel_pct"} <= set(found[0])


def test_what_is_copied_has_the_columns_that_are_shown_between_tabs(kernels: Page) -> None:
    kernels.locator("#r-kernels .tools input[type=search]").fill("k\"11")
    tool(kernels, "Copy").click()
    said = kernels.locator("#r-kernels .tools [aria-live]")
    said.filter(has_text="copied: 1 row").wait_for()
    head, line, end = kernels.evaluate("navigator.clipboard.readText()").split("\n")
    copied = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (copied["name"], copied["kernel_sum_ns"], end) == ('k"11, b', "12000012", "")
    assert "stddev_ns" not in copied


# -- what is folded


def test_all_but_the_first_sections_are_folded(opened: Opened, tables: Path) -> None:
    page = opened(tables, unfold=False)
    assert page.locator("#answer").is_visible()
    assert page.locator("#r-timeline-events").is_visible()
    assert page.locator("#s-kernels h2").is_visible()
    assert not page.locator("#t-kernels").is_visible()


@pytest.mark.parametrize("fragment", ["#s-kernels", "#r-kernels"])
def test_an_address_into_a_folded_section_opens_it(
    opened: Opened, tables: Path, fragment: str
) -> None:
    page = opened(tables, unfold=False, fragment=fragment)
    assert page.locator("#t-kernels").is_visible()
    assert not page.locator("#t-transfers").is_visible()


def test_a_link_into_a_folded_section_opens_it_again(opened: Opened, tables: Path) -> None:
    page = opened(tables, unfold=False)
    link = page.locator("nav a[href='#s-kernels']")
    link.click()
    assert page.locator("#t-kernels").is_visible()
    page.locator("#s-kernels > details > summary").click()
    assert not page.locator("#t-kernels").is_visible()
    link.click()  # the address is the same
    assert page.locator("#t-kernels").is_visible()
    top = page.locator("#s-kernels").bounding_box()
    assert top is not None
    assert 0 <= top["y"] < 200


def test_all_are_opened_and_folded_by_a_button(opened: Opened, tables: Path) -> None:
    page = opened(tables, unfold=False)
    is_open = "all => all.map(fold => fold.open)"
    page.locator("nav button", has_text="Open all").click()
    assert all(page.eval_on_selector_all("details", is_open))
    page.locator("nav button", has_text="Fold all").click()
    assert not any(page.eval_on_selector_all("details", is_open))


@pytest.mark.parametrize("scripts", [True, False])
def test_folded_sections_are_printed(opened: Opened, tables: Path, scripts: bool) -> None:
    page = opened(tables, unfold=False, java_script_enabled=scripts)
    page.emulate_media(media="print")
    for shut in ("#t-kernels", "#t-overview"):
        box = page.locator(shut).bounding_box()
        assert box is not None
        assert box["height"] > 30  # a head and a row at least


def test_a_page_of_named_reports_is_not_folded(opened: Opened, tmp_path: Path) -> None:
    page = opened(page_of(tmp_path, *ROWS, names=["kernels", "transfers"]), unfold=False)
    assert page.locator("#t-kernels").is_visible()


@pytest.mark.parametrize("width", [1000, 1280])
def test_all_columns_of_devices_beside_each_other_have_room(
    opened: Opened, tmp_path: Path, width: int
) -> None:
    for rank in range(8):
        rows = (Kernel(0, 10_000_000 + rank), Memcpy(10_000_000, 20_000_000 + 3_000_000 * rank))
        write(tmp_path / "job.db", *rows, ranks={1: rank}, label=f"a-machine-of-a-long-name-{rank}")
    page = opened(rendered(api.page(tmp_path / "job.db")), viewport={"width": width, "height": 800})
    hidden = page.eval_on_selector_all(
        ".matrix .scroll", "all => all.map(box => box.scrollWidth - box.clientWidth)"
    )
    assert hidden
    assert max(hidden) == 0
