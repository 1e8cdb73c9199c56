"""`-o NAME.html`: one page of a profile, of several, or of a comparison."""

from __future__ import annotations

import re
from pathlib import Path

from golden_cases import BASIC, FIXTURES, run
from small_store import Kernel, write

PROFILE = FIXTURES / BASIC
TOTALS = FIXTURES / "nvprof_log" / "basic-summary.csv"


def articles(path: Path) -> list[str]:
    """The reports of a page, in its order."""
    return re.findall(r'<article id="r-(.*?)"', path.read_text(encoding="utf-8"))


def workers(store: Path, *more: Kernel, **options: str) -> None:
    """Two ranks."""
    for rank in range(2):
        write(store, Kernel(0, 10 + rank), *more, ranks={1: rank}, label=f"worker-{rank}", **options)  # type: ignore[arg-type]


def test_a_page_of_everything(tmp_path: Path) -> None:
    outcome = run("report", PROFILE, "-o", "page.html", cwd=tmp_path)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    found = articles(tmp_path / "page.html")
    assert found[:3] == ["timeline-events", "kernels", "kernel-categories"]
    assert {"idle-gaps", "ranges", "transfer-sizes", "profile", "facts"} <= set(found)


def test_a_page_on_stdout_is_the_same(tmp_path: Path) -> None:
    run("report", PROFILE, "summary", "kernels", "-o", "page.html", cwd=tmp_path)
    outcome = run("report", PROFILE, "summary", "kernels", "-f", "html", cwd=tmp_path)
    assert outcome.out == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_was_named_and_is_not_recorded_is_a_status(tmp_path: Path) -> None:
    outcome = run("report", TOTALS, "kernels", "idle_gaps", "-o", "page.html", cwd=tmp_path)
    assert outcome.status == 4
    assert articles(tmp_path / "page.html") == ["kernels"]
    assert "Not recorded" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_not_recorded_is_said_on_the_page_alone(tmp_path: Path) -> None:
    outcome = run("report", TOTALS, "-o", "page.html", cwd=tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    assert 'id="s-missing"' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_rows_are_limited_as_asked(tmp_path: Path) -> None:
    run("report", PROFILE, "kernels", "--limit", "2", "-o", "page.html", cwd=tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "… 2 of 5 rows" in text
    assert (
        len(re.findall("<tr[ >]", text[text.index('id="t-kernels"') :])) == 3
    )  # the header's, too


def test_ranks_that_communicate_have_their_parts_and_their_collectives(tmp_path: Path) -> None:
    workers(tmp_path / "talk.db", Kernel(10, 20, name="ncclDevKernel_AllReduce_f32"), run="job")
    workers(tmp_path / "work.db", run="job")
    for store, more in ("talk.db", {"collectives"}), ("work.db", set()):
        assert run("report", store, "-o", "page.html", cwd=tmp_path).status == 0
        found = set(articles(tmp_path / "page.html"))
        assert found & {"rank-summary", "collectives"} == {"rank-summary", *more}


def test_a_store_of_several_profiles_needs_no_choice_here(tmp_path: Path) -> None:
    workers(tmp_path / "ranks.db")
    assert run("report", "ranks.db", cwd=tmp_path).status == 2
    assert run("report", "ranks.db", "-o", "page.html", cwd=tmp_path).status == 0
    assert "2 profiles: worker-0 … worker-1" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_slice_holds_for_the_page(tmp_path: Path) -> None:
    run("report", PROFILE, "kernels", "--time", "20us:60us", "-o", "page.html", cwd=tmp_path)
    assert "slice 20 µs to 60 µs" in (tmp_path / "page.html").read_text(encoding="utf-8")
    outcome = run("report", PROFILE, "transfers", "--by", "step", "-o", "page.html", cwd=tmp_path)
    assert outcome.status == 2
    assert "none of these reports has rows by step" in outcome.err


def test_rules_are_left_out_as_asked(tmp_path: Path) -> None:
    words = ("report", PROFILE, "findings", "--ignore", "launch_bound", "-o", "page.html")
    outcome = run(*words, cwd=tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Left out: launch_bound" in text
    assert "<li><b>launch_bound</b>" not in text


def test_rules_are_left_out_of_several_profiles_too(tmp_path: Path) -> None:
    workers(tmp_path / "ranks.db")
    run("report", "ranks.db", "--ignore", "one_kernel", "-o", "page.html", cwd=tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Left out: one_kernel" in text
    assert "<li><b>one_kernel</b>" not in text


def test_a_folder_has_a_page_per_report(tmp_path: Path) -> None:
    outcome = run(
        "report", PROFILE, "kernels", "overview", "-f", "html", "-o", "pages/", cwd=tmp_path
    )
    assert outcome.status == 0
    assert articles(tmp_path / "pages" / "kernels.html") == ["kernels"]
    assert articles(tmp_path / "pages" / "overview.html") == ["overview"]


def test_a_page_of_a_comparison_of_the_steps_of_one_process(tmp_path: Path) -> None:
    sides = [str(FIXTURES / "kineto" / f"training-{version}.json") for version in ("1.9", "2.13")]
    outcome = run("diff", *sides, "-o", "diff.html", cwd=tmp_path)
    assert (outcome.status, outcome.out) == (0, "")
    assert '<article id="r-diff-steps">' in (tmp_path / "diff.html").read_text("utf-8")


def test_a_page_of_a_comparison_has_both_runs_on_one_axis_unless_reports_are_named(
    tmp_path: Path,
) -> None:
    for name in ("a.db", "b.db"):
        write(tmp_path / name, Kernel(0, 400), Kernel(500, 1000))
    assert run("diff", "a.db", "b.db", "-o", "diff.html", cwd=tmp_path).status == 0
    assert "step-timelines" in articles(tmp_path / "diff.html")
    assert run("diff", "a.db", "b.db", "kernels", "-o", "diff.html", cwd=tmp_path).status == 0
    assert articles(tmp_path / "diff.html") == ["diff-kernels"]


def two_ranks(folder: Path) -> Path:
    folder.mkdir()
    for rank in range(2):
        write(folder / f"rank{rank}.db", Kernel(0, 10), Kernel(30, 50 + rank))
    return folder


def test_the_page_of_a_folder_is_that_of_the_store_of_its_files(tmp_path: Path) -> None:
    two_ranks(tmp_path / "ranks")
    run("import", "ranks", "-o", "job.db", cwd=tmp_path)
    names = ("kernels", "rank_summary", "overview")
    run("report", "job.db", *names, "-o", "store.html", cwd=tmp_path)
    for target in ("ranks", "ranks/*.db"):
        outcome = run("report", target, *names, "-o", "folder.html", cwd=tmp_path)
        assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
        made = (tmp_path / "folder.html").read_text(encoding="utf-8")
        assert "2 profiles" in made
        expected = (tmp_path / "store.html").read_text(encoding="utf-8")
        assert made == expected.replace("job.db", target)


def test_the_page_of_a_folder_says_which_files_it_lacks(tmp_path: Path) -> None:
    (two_ranks(tmp_path / "ranks") / "broken.sqlite").write_bytes(b"SQLite format 3\0" + bytes(50))
    outcome = run("report", "ranks", "-o", "page.html", cwd=tmp_path)
    assert outcome.status == 3
    assert "broken.sqlite" in outcome.err
    assert "unreadable files were left out" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_no_page_of_a_folder_without_a_profile(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("nothing\n", encoding="utf-8")
    outcome = run("report", "notes", "-o", "page.html", cwd=tmp_path)
    assert (outcome.status, outcome.err.splitlines()[0]) == (
        3,
        "nsysconv: notes/a.txt: a text file, but not a profile",
    )
    assert not (tmp_path / "page.html").exists()
