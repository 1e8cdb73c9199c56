"""What is said of a name that there is not: what was meant, in few lines."""

from __future__ import annotations

from nsysconv.errors import available_hint

MANY = [f"{word}, op_id = {number}" for word in ("aten::mm", "step") for number in range(500)]


def test_few_names_are_all_named() -> None:
    assert available_hint("modes", ["made", "mode"]) == "Did you mean mode or made? There are: made, mode"
    assert available_hint("zzz", ["made", "mode"]) == "There are: made, mode"
    assert available_hint("zzz", []) == "There are: none"


def test_of_many_names_the_nearest_are_named() -> None:
    said = available_hint("aten::m", MANY, "`x` lists them all.").splitlines()
    assert said[0] == "Close to it:"
    assert all(line.startswith("  aten::mm, op_id = ") for line in said[1:-1])
    assert said[-1] == "There are 1,000. `x` lists them all."
    assert len(said) <= 5


def test_a_name_with_a_slip_is_found_by_its_beginning() -> None:
    """Behind the beginning is what a framework numbers: it is as long as the name itself."""
    assert "  aten::mm, op_id = 0\n" in available_hint("atem::mm", MANY)


def test_of_many_names_without_a_near_one_a_line_of_them_is_named() -> None:
    said = available_hint("zzz", MANY)
    assert said.startswith("There are 1,000: aten::mm, op_id = 0, ")
    assert said.endswith("…. ".rstrip())
    assert len(said) < 120


def test_numbers_have_no_near_ones() -> None:
    assert available_hint(None, map(str, range(3))) == "There are: 0, 1, 2"


def test_a_long_name_takes_one_line() -> None:
    said = available_hint("k", ["k" * 5000, "j" * 5000])
    assert len(said.splitlines()) <= 5
    assert max(map(len, said.splitlines())) < 120


def test_names_are_shown_with_more_words() -> None:
    names = {f"run-{number}": f"run-{number} (id {number})" for number in range(100)}
    assert "  run-42 (id 42)\n" in available_hint("run-42x", names)


def test_what_would_steer_a_terminal_is_made_visible() -> None:
    assert "\x1b" not in available_hint("x", ["\x1b[2Jx"])
