"""Directives as what the host did while a device waited: worked out by hand.

Thread 11 in the host part [400, 490) of the gap [400, 600).
"""

from __future__ import annotations

from small_store import Call, Kernel, Operator, Overhead, Range, Row, answers

GAP = (Kernel(300, 400), Kernel(600, 700, 1), Call(490, 520, 1))
OUTSIDE = ("outside", "[nothing recorded]")
WAIT, CONSTRUCT = "acc_wait@solve.c:12", "acc_compute_construct@solve.c:85"


def directive(start: int | None, end: int | None, name: str, tid: int = 11) -> Operator:
    """A construct of OpenACC or OpenMP."""
    return Operator(start, end, name, "directive", tid)


def host(*rows: Row) -> dict[tuple[str, str], int]:
    """Time by activity and name."""
    found = answers("idle_host", *GAP, *rows)
    return {(row["activity"], row["name"]): row["host_sum_ns"] for row in found}


def test_directives_go_after_operators_and_before_functions_and_ranges() -> None:
    """Each begins at 400 and lasts 15 ns longer than the one before it."""
    rows = (Range(400, 475, "step"), Operator(400, 460, "solve.py: run", "python_function"),
            directive(400, 445, WAIT), Operator(400, 430, "aten::mm"),
            Call(400, 415, 2, name="cuStreamSynchronize", layer="driver"))  # fmt: skip
    assert host(*rows) == {
        ("api_call", "cuStreamSynchronize"): 15, ("operator", "aten::mm"): 15,
        ("directive", WAIT): 15, ("python_function", "solve.py: run"): 15, ("range", "step"): 15,
        OUTSIDE: 15}  # fmt: skip


def test_of_directives_the_innermost_counts() -> None:
    """The construct [380, 480) holds waits [410, 440) and [450, 460), the first a call [415, 435)."""
    rows = (directive(380, 480, CONSTRUCT), directive(410, 440, WAIT), directive(450, 460, WAIT),
            directive(420, 420, "acc_create@solve.c:85"),
            Call(415, 435, 2, name="cuStreamSynchronize", layer="driver"))  # fmt: skip
    assert host(*rows) == {
        ("api_call", "cuStreamSynchronize"): 20, ("directive", WAIT): 10 + 10,
        ("directive", CONSTRUCT): 10 + 10 + 20, OUTSIDE: 10}  # fmt: skip


def test_directives_of_other_threads_and_without_a_time_do_not_count() -> None:
    rows = (directive(400, 480, WAIT, tid=12), directive(None, None, WAIT))
    assert host(*rows) == {OUTSIDE: 90}


def test_the_profilers_work_inside_a_directive_is_nobodys() -> None:
    rows = (directive(400, 490, WAIT), Overhead(430, 450))
    assert host(*rows) == {("directive", WAIT): 90 - 20}


def test_a_gap_names_the_directive_that_its_host_part_was_spent_in() -> None:
    found = answers("idle_gaps", *GAP, directive(390, 495, CONSTRUCT))
    assert CONSTRUCT in {value for row in found for value in row.values()}
