"""`diff -f markdown --brief`: a comment of at most 12 lines, whatever the names in it hold."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import NSYS
from golden_cases import run
from markdown_it import MarkdownIt
from nasty import LONG_WORD, NAMES, nasty_report

from nsysconv.diff.account import CONTRIBUTOR_COLUMNS
from nsysconv.diff.change import STEP, Answer, Change
from nsysconv.diff.gate import limits_report
from nsysconv.document import Section
from nsysconv.notes import Note, Severity
from nsysconv.present.tables import headline, section
from nsysconv.render import comment
from nsysconv.render.contract import Options
from nsysconv.report import report_table

BASIC = NSYS / "basic-3.25.0.sqlite"
RUNS = (1_000_000, 999_000, 1_001_000)
SLOWER = Answer(STEP, Change(RUNS, tuple(ns + 100_000 for ns in RUNS), "repeats"), (3, 3))
SAME = replace(SLOWER, change=Change(RUNS, RUNS, "repeats"))


REASON = "3 runs per side are needed to detect it"


def limits(
    *states: str, row: str | None = "saxpy", reason: str = REASON, exceeding: str | None = None,
    needs_runs: int | None = None,
) -> Section:
    """Verdicts of these states, on limits that are numbered, and on rows of that name."""
    empty = section(limits_report([]))
    data = {
        "limit": [f"kernels.per_step_ns:{i}%" for i, _ in enumerate(states)],
        "where": [None] * len(states), "state": states, "row": [row] * len(states),
        "base": ["1 ms"] * len(states), "other": ["2 ms"] * len(states),
        "change": ["+1.00 ms (+100 %)"] * len(states), "interval": ["+99 … +101 %"] * len(states),
        "exceeding": [exceeding] * len(states), "renamed": [None] * len(states),
        "place": [None] * len(states), "all_of": [None] * len(states),
        "needs_runs": [needs_runs] * len(states), "no_row_in": [None] * len(states),
        "reason": [reason] * len(states),
    }  # fmt: skip
    table = report_table(empty.columns, {name: list(cells) for name, cells in data.items()})
    return replace(empty, table=table, row_count=len(states))


def contributors(*rows: tuple[str, int], certain: str = "yes") -> Section:
    """Names, and by how many ns they changed."""
    cells: dict[str, list[object]] = {column.name: [None] * len(rows) for column in CONTRIBUTOR_COLUMNS}
    cells["kind"] = ["kernel"] * len(rows)
    cells["why"] = ["each launch 18 % longer"] * len(rows)
    cells["name"], cells["change_ns"] = [name for name, _ in rows], [change for _, change in rows]
    cells["certain"] = [certain] * len(rows)
    table = report_table(CONTRIBUTOR_COLUMNS, cells)
    return Section("contributors", "The largest parts", CONTRIBUTOR_COLUMNS, table, row_count=len(rows))


def written(*reports: Section) -> tuple[list[str], str]:
    """The lines before the fold is opened, that of the fold among them, and the whole."""
    out = io.StringIO()
    comment.render(reports, out, Options())
    head, fold, _ = out.getvalue().partition("<details><summary>All tables</summary>")
    return [*head.splitlines(), fold], out.getvalue()


def test_what_does_not_hold_comes_first_and_the_causes_follow() -> None:
    states = limits("within", "inconclusive", "exceeded", row=None)
    causes = contributors(("gemm", 90_000), ("norm", -9_000), ("copy", 8_999))
    (title, *lines), text = written(headline(SLOWER.report()), states, causes)
    assert title.startswith("### slower: step period 1.00 ms → 1.10 ms (+10.0 %); 3 runs")
    assert lines == [
        "",
        "* **exceeded**: `kernels.per_step_ns:2%`: +1.00 ms (+100 %), +99 … +101 %",
        "* **inconclusive**: `kernels.per_step_ns:1%`: 3 runs per side are needed to detect it",
        "* within: 1 of 3 limits",
        "* kernel `gemm`: +90.00 µs, each launch 18 % longer",
        "",
        "<details><summary>All tables</summary>",
    ]
    assert text.endswith("\n\n</details>\n")
    assert "## The largest parts" in text


def test_a_slower_run_has_certain_causes_that_grew_and_a_faster_one_those_that_shrank() -> None:
    causes = contributors(("gemm", 90_000), ("norm", -80_000))
    faster = replace(SLOWER, change=Change(SLOWER.change.other, RUNS, "repeats"))
    for answer, name in ((SLOWER, "gemm"), (faster, "norm")):
        lines, _ = written(headline(answer.report()), causes)
        assert [line.split(":")[0][9:] for line in lines if line.startswith("* kernel")] == [f"`{name}`"]
    lines, _ = written(headline(SLOWER.report()), contributors(("gemm", 90_000), certain="no"))
    assert not any("gemm" in line for line in lines)


def test_all_rows_that_exceed_are_named_as_far_as_there_is_room() -> None:
    few = limits("exceeded", row="a", exceeding="a: +1.00 ms; b: +2 %; std::c<(int)4>: +3 %")
    lines, _ = written(headline(SLOWER.report()), few)
    assert lines[2].endswith("+99 … +101 %; `b`: +2 %; `std::c<(int)4>`: +3 %")
    many = "; ".join(f"kernel_{i:03}: +1.00 ms" for i in range(100))
    lines, _ = written(headline(SLOWER.report()), limits("exceeded", exceeding=many))
    shown = lines[2].count("`kernel_")
    assert lines[2].endswith(f"; and {99 - shown} more")
    assert 20 < shown < 40


def test_limits_that_more_runs_decide_are_one_line() -> None:
    states = limits("inconclusive", "inconclusive", "inconclusive", needs_runs=9)
    lines, _ = written(headline(SLOWER.report()), states)
    names = ", ".join(f"`kernels.per_step_ns:{i}%`" for i in range(3))
    assert lines[2:4] == [f"* **inconclusive**: {names}: record 9 runs per side",
                          "* within: 0 of 3 limits"]  # fmt: skip


def test_beside_many_runs_new_ones_decide() -> None:
    reason = "20 vs. 1 runs cannot show changes below 6 %: record 5 new runs"
    lines, _ = written(headline(SLOWER.report()), limits("inconclusive", needs_runs=5, reason=reason))
    assert lines[2] == "* **inconclusive**: `kernels.per_step_ns:0%`: record 5 new runs"


def test_the_runs_as_heights() -> None:
    lines, _ = written(headline(replace(SLOWER, runs=(20, 1), trend="▃▃▆").report()))
    assert lines[2].endswith(", 20 runs and 1 new: ▃▃▆")
    assert "▃" not in "".join(written(headline(SLOWER.report()))[0])


def test_what_failed_may_have_drifted() -> None:
    note = Note("runs-not-in-turns", Severity.INFO, "the runs were recorded in one block")
    slower = replace(SLOWER, notes=(note,))
    said_first = {"FAIL": "FAIL: slower: ", "PASS": "PASS: limits hold; slower: ", None: "slower: "}
    for gate, head in said_first.items():
        lines, _ = written(headline(slower.report(gate=gate)))
        assert sum("in one block" in line for line in lines) == (gate == "FAIL")
        assert lines[0].startswith(f"### {head}")


def test_small_changes_are_no_causes_and_nothing_causes_that_it_is_the_same() -> None:
    causes = contributors(("gemm", 90_000), ("copy", 8_999))
    lines, _ = written(headline(SLOWER.report()), causes)
    assert [line for line in lines if "copy" in line] == []
    lines, _ = written(headline(SAME.report()), causes)
    assert lines[0].startswith("### same: ")
    assert lines[1:] == ["", "<details><summary>All tables</summary>"]


def test_it_has_twelve_lines_at_most() -> None:
    notes = [Note("processes-differ", Severity.DROPPED, f"{LONG_WORD} {i}") for i in range(5)]
    table = replace(nasty_report(), notes=tuple(notes), name="kernels")
    states = limits(*["exceeded"] * 2, *["inconclusive"] * 5, "within", row=LONG_WORD)
    causes = contributors(*[(LONG_WORD, 9_000 - i) for i in range(5)])
    lines, _ = written(headline(SLOWER.report()), states, causes, table)
    assert len(lines) == comment.MOST_LINES
    names = ", ".join(f"`kernels.per_step_ns:{i}%`" for i in (3, 4, 5))
    assert lines[5] == f"* 4 more: inconclusive ({names}, …), within: 1 of 8 limits"
    assert lines[-3].endswith("(and 3 more below)")
    assert max(map(len, lines)) < 400


@pytest.mark.parametrize("name", NAMES, ids=[str(i) for i, _ in enumerate(NAMES)])
def test_names_are_text(name: str | None) -> None:
    unlike = (f"kernels: {name}",)
    answer = replace(SLOWER, unlike=unlike).report()
    note = Note("processes-differ", Severity.DROPPED, f"a note on {name}")
    verdicts = limits("exceeded", "inconclusive", row=name, reason=f"without a value (first: {name})")
    causes = replace(contributors((name or "", 9_000)), notes=(note,))
    lines, _ = written(answer, verdicts, causes)
    assert len(lines) == 9
    kinds = {"text", "code_inline", "text_special", "strong_open", "strong_close"}
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse("\n".join(lines[:-1])):
        assert token.type != "html_block"
        assert {child.type for child in token.children or ()} <= kinds, token.content
        plain = "".join(child.content for child in token.children or () if child.type == "text")
        assert "@" not in plain


def test_one_doubt_on_several_limits_is_one_line() -> None:
    states = limits("inconclusive", "inconclusive", row=None, reason="one side has no GPU work")
    lines, _ = written(headline(SLOWER.report()), states)
    names = "`kernels.per_step_ns:0%`, `kernels.per_step_ns:1%`"
    assert lines[2] == f"* **inconclusive**: {names}: one side has no GPU work"
    assert lines[3] == "* within: 0 of 2 limits"


def test_what_a_note_and_the_heading_have_in_common_is_said_once() -> None:
    note = Note("steps-differ", Severity.APPROXIMATED, "steps per process: 20 vs. 25")
    for unlike, said in (((note.text,), 0), (("kernels: gemm",), 1)):
        answer = headline(replace(SLOWER, unlike=unlike, notes=(note,)).report())
        lines, _ = written(answer)
        assert sum("steps-differ" in line for line in lines) == said


def test_a_bracket_around_a_name_is_no_part_of_it() -> None:
    note = Note("launches-without-work", Severity.DROPPED, "lost", 3, "api_call:3", of=9)
    lines, _ = written(headline(replace(SLOWER, notes=(note,)).report()))
    (line,) = [line for line in lines if "lost" in line]
    assert line.endswith("first at `api_call:3`)")


def test_notes_on_the_answer_are_in_the_fold() -> None:
    note = Note("run-outlier", Severity.INFO, "base: outlier runs, 3 by +9.0 %")
    _, text = written(replace(SLOWER, notes=(note,)).report(), contributors(("gemm", 9_000)))
    fold = text.partition("<details><summary>All tables</summary>\n")[2]
    assert fold.startswith("\n* note run-outlier: base: outlier runs, 3 by +9.0 %\n\n## ")


def test_tables_without_room_are_counted() -> None:
    large = replace(nasty_report(), name="kernels")
    _, one = written(headline(SLOWER.report()), large)
    assert "Without room" not in one
    _, text = written(headline(SLOWER.report()), *[large] * 40)
    assert 0.7 * comment.MOST_BYTES < len(text.encode("utf-8", "surrogatepass")) <= comment.MOST_BYTES
    shown = text.count("\n## ")
    assert f"Without room here: {40 - shown} of 40 tables of `nsysconv diff`." in text
    assert text.endswith("\n\n</details>\n")


def test_diff_writes_it(tmp_path: Path) -> None:
    done = run("diff", BASIC, BASIC, "kernels", "-f", "markdown", "--brief", cwd=tmp_path)
    assert done.status == 0
    assert done.out.startswith("### same: ")
    assert "<details>" not in done.out
    made = run("diff", BASIC, BASIC.with_name("graphs-3.28.1.sqlite"), "-f", "markdown", "--brief",
               cwd=tmp_path)  # fmt: skip
    assert "<details><summary>All tables</summary>\n\n" in made.out
    refused = run("diff", BASIC, BASIC, "kernels", "--brief", cwd=tmp_path)
    assert (refused.status, refused.out) == (2, "")
    assert "--brief is a form of Markdown and of JSON" in refused.err
