"""Steps of two runs compared: the sums over them, the usual step, and the time between them, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Range, Row, write

from nsysconv import api
from nsysconv.diff.rows import (
    has_no_annotated_steps,
    steps_per_rank,
    unannotated_notes,
    without_unannotated,
)
from nsysconv.queries import steps as steps_query
from nsysconv.report import Report, report_table

WHOLE, BETWEEN = "[whole profile]", "[between steps]"
OF_ALL = ("rank", "step_count", "dur_ns", "kernel_ns", "avg_ns", "trimmed_ns", "between_ns",
          "period_ns")  # fmt: skip
CLASSES = [c.name for c in steps_query.COLUMNS if c.adds and c.name != "dur_ns"]


def of_steps(*rows: tuple[int | None, int, str, int, int | None]) -> Report:
    """The report `steps` with rows of these ranks, processes, names, durations and times of kernels."""
    names, columns = ("rank", "pid", "step", "dur_ns", "kernel_ns"), steps_query.COLUMNS
    usual = dict.fromkeys(c.name for c in columns) | {"profile": "p"} | dict.fromkeys(CLASSES, 0)
    found = [usual | dict(zip(names, values, strict=True)) for values in rows]
    data: dict[str, list[Any]] = {c.name: [each[c.name] for each in found] for c in columns}
    table = report_table(columns, data)
    return Report("steps", "Steps", columns, table, row_count=len(rows))


def told(report: Report) -> list[dict[str, Any]]:
    return [{name: row[name] for name in OF_ALL} for row in steps_per_rank(report).rows()]


def row(*values: Any) -> dict[str, Any]:
    return dict(zip(OF_ALL, values, strict=True))


# -- steps as one row


@pytest.mark.parametrize(("steps", "expected"), [
    # The time between the steps of a rank is no step.
    ([(0, 7, "a", 10, 4), (0, 7, "b", 14, 6), (0, 7, BETWEEN, 6, 1)],
     [row(0, 2, 24, 10, 12.0, 12.0, 6, (24 + 6) / 2)]),
    # Processes of one rank are added up, and ranks are rows; steps of process 8 follow each other.
    ([(None, 7, "a", 10, 4), (None, 7, "b", 12, 5), (None, 7, BETWEEN, 8, 0), (None, 8, "a", 20, 6),
      (None, 9, "a", 30, 6), (None, 9, "b", 30, 6), (None, 9, BETWEEN, 2, 0), (3, 10, "a", 5, 2)],
     [row(None, 5, 102, 27, 102 / 5, 102 / 5, 10, 112 / 5), row(3, 1, 5, 2, 5.0, 5.0, 0, 5.0)]),
    # What one step does not tell is not told.
    ([(0, 7, "a", 10, None), (0, 7, "b", 12, 4)], [row(0, 2, 22, None, 11.0, 11.0, 0, 11.0)]),
    # A whole profile has no mean step, and nothing between steps.
    ([(0, 7, WHOLE, 10, 4)], [row(0, 1, 10, 4, None, None, None, None)]),
])  # fmt: skip
def test_steps_of_a_rank_are_one_row(steps: Any, expected: list[dict[str, Any]]) -> None:
    assert told(of_steps(*steps)) == expected


@pytest.mark.parametrize(("count", "usual"), [
    (9, [1000, *range(2, 10)]),  # none is left out
    (10, range(2, 10)),
    (19, range(2, 19)),
    (20, range(3, 19)),
])  # fmt: skip
def test_the_usual_step_is_without_a_tenth_at_either_end(count: int, usual: Any) -> None:
    """The first step takes 1000 ns, the others 2, 3, 4 …; of ten and more the last one takes 1 ns."""
    lengths = [1000, *range(2, count), 1] if count > 9 else [1000, *range(2, 10)]
    report = of_steps(*((0, 7, f"s{i}", length, 0) for i, length in enumerate(lengths)))
    assert len(lengths) == count
    assert told(report)[0]["trimmed_ns"] == sum(usual) / len(usual)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=45), st.integers(0, 30))
def test_the_row_of_random_steps(lengths: list[int], between: int) -> None:
    names = [(0, 7, f"s{i}", length, 0) for i, length in enumerate(lengths)]
    gap = [(0, 7, BETWEEN, between, 0)] if between else []
    rest = list(lengths)
    for _ in range(len(lengths) // 10):
        rest.remove(min(rest))
        rest.remove(max(rest))
    (found,) = told(of_steps(*names, *gap))
    assert found == row(
        0, len(lengths), sum(lengths), 0, sum(lengths) / len(lengths), sum(rest) / len(rest), between,
        (sum(lengths) + between) / len(lengths))  # fmt: skip


# -- steps and none


def test_what_is_one_step_as_a_whole() -> None:
    whole, annotated = of_steps((0, 7, WHOLE, 10, 4)), of_steps((0, 7, "a", 10, 4))
    assert has_no_annotated_steps(whole)
    assert not has_no_annotated_steps(annotated)
    assert not has_no_annotated_steps(of_steps())
    assert without_unannotated(annotated) is annotated
    without = without_unannotated(whole)
    assert (without.table, without.not_recorded) == (None, ("annotated steps",))


def test_which_side_has_no_annotated_steps() -> None:
    whole, annotated = of_steps((0, 7, WHOLE, 10, 4)), of_steps((0, 7, "a", 10, 4))

    def text(base: list[Report], other: list[Report]) -> str:
        return " ".join(note.text for note in unannotated_notes(base, other)).partition(":")[0]

    assert text([whole], [whole]) == ""
    assert text([annotated], [annotated, of_steps()]) == ""
    assert text([whole], [annotated]) == "base has no annotated steps"
    assert text([annotated, annotated], [whole, whole]) == "other has no annotated steps"
    assert text([annotated], [annotated, whole]) == "a profile of other has no annotated steps"


def run(folder: Path, name: str, *rows: Row) -> Path:
    path = folder / f"{name}.db"
    write(path, *rows)
    return path


def steps(word: str, *starts: int) -> list[Row]:
    """Ranges of 30 ns from these moments on, each launching a kernel of 20 ns; `epoch` is no step."""
    rows: list[Row] = []
    for number, start in enumerate(starts, 1):
        name = f"{word}#{number}" if word == "ProfilerStep" else f"{word} {number} of a run"
        rows += [Range(start, start + 30, name), Call(start, start + 5, number),
                 Kernel(start + 5, start + 25, number)]  # fmt: skip
    return rows


def compared(base: Path, other: Path, **options: Any) -> tuple[Report, int]:
    result = api.compare(base, other, ["steps"], **options)
    return result.reports[0], result.exit_status


def test_time_that_came_between_steps_is_a_change(tmp_path: Path) -> None:
    """Three steps of 30 ns, one after the other, then 10 and 20 ns apart."""
    base = run(tmp_path, "base", *steps("ProfilerStep", 0, 30, 60))
    other = run(tmp_path, "other", *steps("ProfilerStep", 0, 40, 90))
    (found,), _ = (r.rows() if isinstance(r, Report) else r for r in compared(base, other))
    assert (found["base_dur_ns"], found["diff_dur_ns"], found["diff_avg_ns"]) == (90, 0, 0)
    assert (found["base_between_ns"], found["other_between_ns"]) == (0, 30)
    assert (found["base_period_ns"], found["other_period_ns"]) == (30, 40)


@pytest.mark.parametrize("swapped", [False, True])
def test_steps_are_not_compared_with_a_whole_profile(tmp_path: Path, swapped: bool) -> None:
    base = run(tmp_path, "base", *steps("ProfilerStep", 0, 30, 60))
    other = run(tmp_path, "other", *steps("epoch", 0, 30, 60))
    sides = (other, base) if swapped else (base, other)
    found, status = compared(*sides, fail_on=["steps.avg_ns:3%"])
    without = "base" if swapped else "other"
    assert (found.table, found.not_recorded, status) == (None, (f"annotated steps ({without})",), 4)
    (note,) = [note for note in found.notes if note.slug == "steps-not-annotated"]
    assert note.text.startswith(f"{without} has no annotated steps: name ranges")


def test_other_reports_say_nothing_of_that(tmp_path: Path) -> None:
    base = run(tmp_path, "base", *steps("ProfilerStep", 0, 30, 60))
    other = run(tmp_path, "other", *steps("epoch", 0, 30, 60, 90))
    found = api.compare(base, other, ["kernels", "steps"]).reports[0]
    assert "steps-not-annotated" not in {note.slug for note in found.notes}
    (row_of_kernel,) = found.rows()
    assert (row_of_kernel["base_per_step_ns"], row_of_kernel["other_per_step_ns"]) == (20, None)


def test_two_whole_profiles_are_compared(tmp_path: Path) -> None:
    base = run(tmp_path, "base", *steps("epoch", 0, 30, 60))
    other = run(tmp_path, "other", *steps("epoch", 0, 30, 70))
    found, _ = compared(base, other)
    assert [row["diff_dur_ns"] for row in found.rows()] == [10]
    assert {row["base_between_ns"] for row in found.rows()} == {None}
