"""Which columns are shown in how many cells. Widths can be added up by hand: a gap is 2 cells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nsysconv.render.text import GAP, ColumnNeeds, Layout, fit_all_columns, fit_columns


def number(
    cells: int, name: int, *, brief: bool = True, key: bool = False, leads: int = 0,
    part: float | None = None,
) -> ColumnNeeds:  # fmt: skip
    """A column of numbers; a unit like ` (ms)` adds 5 to its header."""
    return ColumnNeeds(
        cells, name + 5, name, text=False, brief=brief, key=key, leads=leads, part=part)  # fmt: skip


def text(
    cells: int, name: int = 4, *, brief: bool = True, key: bool = True, words: bool = False
) -> ColumnNeeds:
    return ColumnNeeds(cells, name, name, text=True, brief=brief, key=key, words=words)


KERNELS = (
    number(1, 9, key=True),
    text(100),
    number(7, 12),
    number(7, 10),
    number(7, 3, brief=False),
    number(7, 6, brief=False),
)


def test_all_fits() -> None:
    # headers with units: 14 + 100 + 17 + 15 + 8 + 11, 5 gaps of 2 -> 175
    assert fit_columns(KERNELS, 175) == Layout((0, 1, 2, 3, 4, 5), (14, 100, 17, 15, 8, 11), fold=False)
    # what is left is not used
    assert fit_columns(KERNELS, 999) == fit_columns(KERNELS, 175)


def test_a_long_name_gives_way_down_to_40() -> None:
    assert fit_columns(KERNELS, 174).widths == (14, 99, 17, 15, 8, 11)
    assert fit_columns(KERNELS, 115).widths == (14, 40, 17, 15, 8, 11)


def test_then_units_go_below_names() -> None:
    # 9 + 12 + 10 + 7 + 7 + 5 * 2 = 55, and the name has the other 59
    assert fit_columns(KERNELS, 114) == Layout((0, 1, 2, 3, 4, 5), (9, 59, 12, 10, 7, 7), fold=True)
    assert fit_columns(KERNELS, 95).widths[1] == 40


def test_then_columns_that_are_not_brief_go_from_the_right() -> None:
    # 9 + 12 + 10 + 7 + 4 * 2 = 46
    assert fit_columns(KERNELS, 94) == Layout((0, 1, 2, 3, 4), (9, 48, 12, 10, 7), fold=True)
    # 9 + 12 + 10 + 3 * 2 = 37: the name has 80 - 37
    assert fit_columns(KERNELS, 80) == Layout((0, 1, 2, 3), (9, 43, 12, 10), fold=True)


def test_then_names_are_shortened_down_to_24() -> None:
    assert fit_columns(KERNELS, 61) == Layout((0, 1, 2, 3), (9, 24, 12, 10), fold=True)


def test_then_numbers_go_but_for_the_first() -> None:
    assert fit_columns(KERNELS, 60).kept == (0, 1, 2)
    # 9 + 12 + 2 * 2 = 25: the name has 15
    assert fit_columns(KERNELS, 40) == Layout((0, 1, 2), (9, 15, 12), fold=True)


def test_at_last_keys_go_and_the_first_column_stays() -> None:
    assert fit_columns(KERNELS, 23) == Layout((0, 2), (9, 12), fold=True)
    assert fit_columns(KERNELS, 20) == Layout((0,), (14,), fold=False)
    assert fit_columns(KERNELS, 5) == Layout((0,), (5,), fold=True)


def test_texts_that_are_no_keys_go_before_the_first_number() -> None:
    gaps = (number(7, 5, key=True), number(7, 3), text(60, key=False), text(60, key=False))
    # 7 + 7 + 24 + 24 + 3 * 2 = 68
    assert fit_columns(gaps, 68) == Layout((0, 1, 2, 3), (7, 7, 24, 24), fold=True)
    assert fit_columns(gaps, 67).kept == (0, 1, 2)
    assert fit_columns(gaps, 41).kept == (0, 1)


def test_what_rows_are_ordered_by_is_the_last_number_to_go() -> None:
    operators = (text(24), number(7, 7), number(7, 7, brief=False, leads=2), number(7, 7, leads=1))
    # 24 + 7 + 2, and 9 for each of the others
    assert fit_columns(operators, 51).kept == (0, 1, 2, 3)
    assert fit_columns(operators, 50).kept == (0, 2, 3)
    assert fit_columns(operators, 23).kept == (0, 3)


def test_of_the_parts_of_a_whole_the_smallest_go_first() -> None:
    parts = (number(7, 7, part=size) for size in (2, 9, 4))
    idle = (number(7, 7, key=True), number(7, 7), *parts)
    # 9 for each, but for the first: 7
    assert [fit_columns(idle, width).kept for width in (43, 42, 33, 24, 15)] == [
        (0, 1, 2, 3, 4), (0, 1, 3, 4), (0, 1, 3), (0, 1), (0,)]  # fmt: skip


def test_prose_give_way_after_names() -> None:
    why = (text(60), number(7, 7), text(34, key=False, words=True), number(7, 7))
    # 24 + 7 + 32 + 7 + 3 * 2 = 76
    assert fit_columns(why, 76).widths == (24, 7, 32, 7)
    assert fit_columns(why, 75).kept == (0, 1, 2)


def test_what_is_left_is_shared_evenly_and_the_modest_are_served_first() -> None:
    # 40 + 40 + 2 = 82; of 30 more, 5 make the first complete
    assert fit_columns((text(45), text(100)), 112).widths == (45, 65)
    assert fit_columns((text(100), text(100)), 112).widths == (55, 55)


def test_unlimited() -> None:
    assert fit_all_columns(KERNELS, 50) == Layout((0, 1, 2, 3, 4, 5), (14, 50, 17, 15, 8, 11), fold=False)


sizes = st.integers(0, 100)
needs = st.builds(ColumnNeeds, sizes, sizes, sizes, text=st.booleans(), brief=st.booleans(),
                  key=st.booleans(), words=st.booleans(), leads=st.integers(0, 2),
                  part=st.none() | st.floats(0, 10))  # fmt: skip


@given(st.lists(needs, min_size=1, max_size=12), st.integers(1, 200))
def test_never_too_wide_and_never_nothing(columns: list[ColumnNeeds], width: int) -> None:
    layout = fit_columns(columns, width)
    assert layout.kept
    assert list(layout.kept) == sorted(set(layout.kept))
    assert len(layout.kept) == len(layout.widths)
    assert sum(layout.widths) + GAP * (len(layout.kept) - 1) <= width
    if len(layout.kept) > 1:
        for i, cells in zip(layout.kept, layout.widths, strict=True):
            assert columns[i].text or cells >= columns[i].cells  # no number is cut
