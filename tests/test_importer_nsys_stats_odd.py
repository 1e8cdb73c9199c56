"""Printed tables of nsys that are damaged, mixed with output, rewritten, or made up by hand."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, claimed_by, event_rows, few, in_any_order
from importing import imported as only_profile
from importing import only_note as note
from importing import profiles as imported
from importing import read, slugs, totals_of, written
from odd_nsys_stats import LONG, ODD_STATS, QUOTED

from nsysconv import api
from nsysconv.errors import InputError, NotRecorded
from nsysconv.facts import Fact
from nsysconv.notes import Severity
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "nsys_stats"
PLAIN = "basic-2025-swiss.txt"
AS_BASIC = [name for name, (_, holds) in ODD_STATS.items() if holds.endswith("answers as `basic`")]
GPU_TOTALS = {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}
TABLES = ("kernel", "memcpy", "memset", "unified_memory_event", "api_call")


def odd(name: str) -> AbstractContextManager[Profile]:
    """The only profile of a file."""
    return only_profile(FOLDER / name)


def said(profile: Profile) -> dict[str, Any]:
    """All that a file tells."""
    return {
        **{table: event_rows(profile, table) for table in TABLES},
        "totals": in_any_order(totals_of(profile)), "facts": profile.facts,
    }  # fmt: skip


@pytest.mark.parametrize("name", few(AS_BASIC, 4))
def test_answers_as_basic(name: str) -> None:
    with odd(name) as found, odd(PLAIN) as wanted:
        assert said(found) == said(wanted)


# -- cut files


def test_totals_that_end_within_a_row() -> None:
    for name, rows in (("odd-cut.csv", 1), ("odd-cut.json", 2)):
        with odd(name) as found, odd("basic-2025.csv") as whole:
            kernels = [row for row in totals_of(whole) if row["kind"] == "kernel"]
            assert totals_of(found) == kernels[:rows]
            cut = note(found, "trace-truncated")
            assert (cut.severity, cut.count) == (Severity.DROPPED, 1)
            assert "totals-incomplete" in slugs(found)
            assert "line-unreadable" not in slugs(found)


def test_a_trace_that_ends_within_a_row() -> None:
    """In the fifth kernel, after two copies."""
    with odd("odd-cut-trace.csv") as found, odd("basic-2025-cuda_gpu_trace.csv") as whole:
        assert event_rows(found, "kernel") == event_rows(whole, "kernel")[:4]
        assert event_rows(found, "memcpy") == event_rows(whole, "memcpy")[:2]
        assert note(found, "trace-truncated").count == 1


def test_missing_rows_are_noticed_by_the_shares() -> None:
    with odd("odd-incomplete.txt") as profile:
        assert len(totals_of(profile)) == 3
        assert note(profile, "totals-incomplete").where == "line 1"


def shared(*shares: str) -> str:
    """A table of kernels with these shares, as a decimal comma's locale prints it."""
    header = "Time(%)  Total Time (ns)  Instances    Average  Minimum  Maximum  Name\n"
    rules = "-------  ---------------  ---------  ---------  -------  -------  ----\n"
    return header + rules + "".join(
        f"{share:>7}        1.688.000          1  1.688.000  888.000  999.000  k{i}\n"
        for i, share in enumerate(shares))  # fmt: skip


@pytest.mark.parametrize(("shares", "missing"), [
    (("84,0", "15,0"), False), (("52,0", "38,0", "3,0", "2,0", "1,0", "0,0"), False),
    (("84", "15"), False), (("84,0", "13,0"), True), (("84,0", "15,1"), True), (("99,0",), False),
    (("98,0",), True), (("84,0", "1,5,0"), False), (("0,0", "0,0"), False),
])  # fmt: skip
def test_shares_that_were_cut_to_whole_numbers_miss_no_row(
    shares: tuple[str, ...], missing: bool
) -> None:
    """nsys of 2020 and 2021 prints 27.9 as 27,0: each row may be up to 1 % more."""
    with read(shared(*shares)) as profile:
        assert ("totals-incomplete" in slugs(profile)) == missing


# -- cells


def test_cells_that_are_no_numbers() -> None:
    """The deviation of the first kernel, the sum of the second: what its mean tells remains."""
    with odd("odd-no-numbers.csv") as found, odd("basic-2025.csv") as whole:
        first, second, *others = totals_of(found)
        kernels = [row for row in totals_of(whole) if row["kind"] == "kernel"]
        assert others == kernels[2:]
        assert "stddev_ns" not in first
        # 2 x 5500.0, whose last digit is worth 0.1.
        assert second == kernels[1]
        assert note(found, "cell-unreadable").count == 2


def test_microseconds() -> None:
    """Three decimals are nanoseconds; those of means are four, so that sums have as many."""
    with odd("odd-microseconds.csv") as found, odd("basic-2025.csv") as whole:
        kernels = [row for row in totals_of(whole) if row["kind"] == "kernel"]
        assert totals_of(found) == kernels
        assert "rounded-times" not in slugs(found)


def test_seconds_are_microseconds_of_starts() -> None:
    """Six decimals of a second; sizes and shared memory are whole bytes."""
    with odd("odd-seconds.txt") as found, odd("basic-2022-traces.txt") as whole:
        for table in ("kernel", "memcpy"):
            ours, theirs = event_rows(found, table), event_rows(whole, table)
            assert [(row["start_ns"], row["dur_ns"]) for row in ours] == [
                (row["start_ns"], row["dur_ns"]) for row in theirs]  # fmt: skip
        assert [row["dynamic_shared_bytes"] for row in event_rows(found, "kernel")].count(16_384) == 2
        assert [row["bytes"] for row in event_rows(found, "memset")] == [256]
        assert "1,000 ns" in note(found, "rounded-times").text
        assert "rounded-bytes" not in slugs(found)


def test_a_number_that_may_be_one_or_a_thousand() -> None:
    """Neither start nor duration: without them there is no row."""
    with odd("odd-ambiguous.txt") as profile:
        assert event_rows(profile, "kernel") == []
        found = note(profile, "number-ambiguous")
        assert (found.severity, found.count) == (Severity.DROPPED, 2)
        assert note(profile, "line-unreadable").count == 1


def test_a_row_of_a_trace_without_a_time_is_left_out() -> None:
    """And one with groups in its number is."""
    text = 'Start (ns),Duration (ns),CorrId,Strm,Name\n1000,"1,048,576",7,13,k\n2000,N/A,8,13,k\n'
    with read(text) as profile:
        (kernel,) = event_rows(profile, "kernel")
        assert (kernel["start_ns"], kernel["dur_ns"], kernel["stream_id"]) == (1000, 1_048_576, 13)
        left_out = note(profile, "line-unreadable")
        assert (left_out.count, left_out.where) == (1, "line 3")


def test_a_name_that_was_cut() -> None:
    with odd("odd-long-name.txt") as profile:
        names = [row["name"] for row in totals_of(profile)]
        assert names[0] == LONG[:99] + "…"
        assert note(profile, "names-shortened").count == 1


def test_quotes_that_are_not_escaped() -> None:
    with odd("odd-quotes.json") as found, odd("basic-2025.csv") as whole:
        first, *others = totals_of(found)
        kernels = [row for row in totals_of(whole) if row["kind"] == "kernel"]
        assert first == kernels[0] | {"name": QUOTED}
        assert others == kernels[1:]


@pytest.mark.parametrize("name", ["basic-2025.json", "basic-2025-cuda_api_sum.json", "basic-2025.tsv"])
def test_a_mark_of_utf_8_is_no_part_of_the_text(name: str) -> None:
    text = (FOLDER / name).read_text()
    # So that the first line is that of a table.
    text = text[text.index("Time (%)") - 3 * name.endswith("json") :]
    with read("\ufeff" + text) as found, read(text) as wanted:
        assert totals_of(found) == totals_of(wanted) != []


def test_an_object_with_other_keys_is_left_out(tmp_path: Path) -> None:
    """The second of five kernels, and a figure that is a list in the third."""
    text = (FOLDER / "basic-2025.json").read_text()
    start = text.index('"Instances"')
    second = text.index('{"Time (%)"', start)
    third = text.index('{"Time (%)"', second + 1)
    broken = (
        text[: second + 20]
        + text[third - 1 : third]
        + text[third:].replace(":2500.0,", ":[2500.0],", 1)
    )
    with read(broken) as found, odd("basic-2025.json") as whole:
        kernels, wanted = ([row for row in totals_of(profile) if row["kind"] == "kernel"]
                           for profile in (found, whole))  # fmt: skip
        assert kernels == [wanted[0], *wanted[3:]]
        assert note(found, "line-unreadable").count == 2
        assert "trace-truncated" not in slugs(found)


def test_a_line_end_in_a_name() -> None:
    with odd("odd-line-end.csv") as profile:
        rows = totals_of(profile)
        assert rows[0]["name"] == "step\nwith three lines,\nand a comma"
        assert len(rows) == 5
        assert "line-unreadable" not in slugs(profile)


def test_a_table_of_a_page() -> None:
    """Shares, sums, counts and means; no least, greatest and median."""
    with odd("odd-markdown.md") as found, odd("basic-2025.csv") as whole:
        kernels = [row for row in totals_of(whole) if row["kind"] == "kernel"]
        for ours, theirs in zip(totals_of(found), kernels, strict=True):
            assert {k: theirs[k] for k in ("kind", "name", "count", "sum_ns")} == ours


def test_openacc() -> None:
    with odd("odd-openacc.csv") as profile:
        found = [(row["kind"], row["name"], row["count"], row["sum_ns"]) for row in totals_of(profile)]
        assert found == [("openacc_inclusive", "Wait@solve.c:85", 2, 5_000_000),
                         ("openacc_inclusive", "Enqueue Launch@solve.c:85", 4, 2_000_000)]  # fmt: skip
        assert profile.facts == {Fact.DIRECTIVE_TOTALS}


# -- recordings


def test_several_runs_are_several_profiles() -> None:
    with (
        imported(FOLDER / "odd-several-runs.txt") as (first, second),
        odd(PLAIN) as basic,
        odd("unified_memory-2025.csv") as managed,
    ):
        assert said(first) == said(basic)
        assert said(second) == said(managed)


def test_the_same_table_in_another_form_is_of_the_same_recording() -> None:
    with odd("odd-again.txt") as profile:
        assert "cuda_gpu_kern_sum in another form" in note(profile, "rows-not-read").text


KERNELS = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n"
    "100.0,5000,2,2500.0,1000,4000,k\n"
)
COPIES = (
    "Time (%),Total Time (ns),Count,Avg (ns),Min (ns),Max (ns),Operation\n"
    "75.0,3000,3,1000.0,500,2000,[CUDA memcpy Host-to-Device]\n"
    "25.0,1000,1,1000.0,1000,1000,[CUDA memset]\n"
)
SIZES = (
    "Total (MB),Count,Avg (MB),Min (MB),Max (MB),Operation\n"
    "0.008,4,0.002,0.001,0.004,[CUDA memcpy Host-to-Device]\n0.256,1,0.256,0.256,0.256,[CUDA memset]\n"
)


def test_one_header_twice_is_two_recordings(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text(KERNELS + "\n" + KERNELS.replace("5000", "7000"))
    with imported(tmp_path / "twice.csv") as profiles:
        assert [totals_of(profile)[0]["sum_ns"] for profile in profiles] == [5000, 7000]


def test_sizes_of_other_operations_are_left_out() -> None:
    """Three copies in one table, four in the other; one set in both."""
    with read(f"{COPIES}\n{SIZES}") as profile:
        copy, memset = totals_of(profile)
        assert (copy["count"], copy["sum_ns"], copy.get("bytes_sum")) == (3, 3000, None)
        assert (memset["count"], memset["sum_ns"], memset["bytes_sum"]) == (1, 1000, 256_000)
        assert note(profile, "tables-disagree").where == "line 6"


def test_sizes_alone_have_no_times() -> None:
    with read(SIZES) as profile:
        copy, _ = totals_of(profile)
        assert (copy["count"], copy["bytes_sum"], copy.get("sum_ns")) == (4, 8000, None)
        assert profile.facts == {Fact.MEMORY_TOTALS}


def test_kernels_alone_say_nothing_of_copies(tmp_path: Path) -> None:
    (tmp_path / "kernels.csv").write_text(KERNELS)
    with api.open(tmp_path / "kernels.csv") as profile:
        assert profile.profile.facts == {Fact.KERNEL_TOTALS}
        with pytest.raises(NotRecorded):
            profile.report("transfers")
        (row,) = profile.report("overview").rows()
        assert (row["kernel_count"], row["memcpy_count"], row["memset_count"]) == (2, None, None)


_NONE = "SKIPPED: report1.sqlite does not contain {}.\n\n"
_ALL_WORK = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Category,Operation\n100.0,"
FACTS = {
    "copies alone say nothing of kernels": (COPIES, {Fact.MEMORY_TOTALS}),
    # Work that nsys did not find did not happen if other GPU work is printed.
    "no copies were found": (_NONE.format("GPU memory data") + KERNELS, GPU_TOTALS),
    "no kernels were found": (_NONE.format("CUDA kernel data") + COPIES, GPU_TOTALS),
    "kernels of all work, so that there were no copies": (
        f"{_ALL_WORK}5000,2,2500.0,1000,4000,CUDA_KERNEL,k\n", GPU_TOTALS),
    "calls of all work": (f"{_ALL_WORK}500,2,250.0,100,400,CUDA_API,cudaFree\n", {Fact.API_TOTALS}),
}  # fmt: skip


@pytest.mark.parametrize("tables", FACTS)
def test_what_tables_say_is_known_and_no_more(tables: str) -> None:
    text, facts = FACTS[tables]
    with read(text) as profile:
        assert profile.facts == facts


def test_tables_of_one_range_style_give_it(tmp_path: Path) -> None:
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Range\n"
    (tmp_path / "ranges.csv").write_text(
        f" ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):\n{header}100.0,50,1,50.0,50,50,:a\n\n"
        f" ** NVTX Start/End Range Summary (nvtx_startend_sum):\n{header}100.0,70,1,70.0,70,70,X:a\n"
    )
    with api.open(tmp_path / "ranges.csv") as profile:
        rows = profile.report("nvtx_sum").rows()
    assert [(row["style"], row["name"], row["range_sum_ns"]) for row in rows] == [
        ("StartEnd", "X:a", 70),
        ("PushPop", ":a", 50),
    ]


def test_calls_of_others_are_not_those_of_cuda() -> None:
    """Two tables with the same header and nothing that names them."""
    header = "Time (%),Total Time (ns),Num Calls,Avg (ns),Min (ns),Max (ns),Name\n"
    with read(
        f"{header}100.0,500,1,500.0,500,500,cudaFree\n\n{header}100.0,9,1,9.0,9,9,poll\n"
    ) as profile:
        assert [row["name"] for row in totals_of(profile)] == ["cudaFree"]
        assert "nothing names" in note(profile, "rows-not-read").text


def test_two_versions_of_a_function_are_one(tmp_path: Path) -> None:
    """nsys strips four digits, so that five stay."""
    header = "Time (%),Total Time (ns),Num Calls,Avg (ns),Min (ns),Max (ns),Name\n"
    rows = "60.0,60,2,30.0,10,50,cudaLaunchKernelExC_v11060\n40.0,40,1,40.0,40,40,cudaLaunchKernelExC\n"
    with api.open(written(tmp_path, header + rows)) as profile:
        (row,) = profile.report("api_vs_kernel").rows()
    assert [row[c] for c in ("name", "layer", "call_count", "api_sum_ns")] == [
        "cudaLaunchKernelExC", "runtime", 3, 100]  # fmt: skip


def test_a_mean_gives_the_sum_that_cannot_be_read() -> None:
    """100 times 2500.0, which is 2499.95 to 2500.05: to 10 ns."""
    with read(KERNELS.replace(",5000,2,", ",n/a,100,")) as profile:
        (row,) = totals_of(profile)
        assert row["sum_ns"] == 250_000
        assert "10 ns" in note(profile, "rounded-times").text


def test_tables_of_the_same_rows_are_read_once() -> None:
    grids = KERNELS.replace("Name", "GridXYZ,BlockXYZ,Name").replace(
        ",k", ',"   1    1    1"," 128    1    1",k'
    )
    with read(f"{KERNELS}\n{grids}") as profile:
        assert len(totals_of(profile)) == 1
        assert "cuda_gpu_kern_gb_sum" in note(profile, "rows-not-read").text


# -- reports and refusals


def test_a_file_with_tables_of_nvprof_is_nvprofs(tmp_path: Path) -> None:
    """Exactly one importer reads a file."""
    both = (FIXTURES / "nvprof_log" / "basic-summary.txt").read_text() + KERNELS
    (tmp_path / "both").write_text(both)
    assert claimed_by(tmp_path / "both") == ["nvprof_log"]


@pytest.mark.parametrize("line", [
    'header = "Time (%),Total Time (ns),Num Calls"', "Name,Count,Total,Average,Minimum,Maximum",
    "| Time (%) | Total time | Calls | Name |", "Executing 'tests' stats report later",
    "Start,Duration,Name", "Start (s),End (s),Duration (s),Name",
])  # fmt: skip
def test_lines_like_a_table_are_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{line}\n1,2,3,4,5,6\n")
    assert "nsys_stats" not in claimed_by(tmp_path / "text")


@pytest.mark.parametrize(
    ("name", "said"),
    [("odd-others.txt", "syscall_sum, um_sum"), ("odd-skipped.txt", "no CUDA kernel data")],
)
def test_a_file_without_tables_is_refused_with_a_reason(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught, api.open(FOLDER / name):
        pass
    assert caught.value.hint


def test_a_file_with_read_and_unread_tables_names_the_unread() -> None:
    text = (FOLDER / "odd-others.txt").read_text() + "\n" + KERNELS
    with read(text) as profile:
        texts = [note.text for note in profile.notes if note.slug == "rows-not-read"]
        assert len(texts) == 2
        assert "syscall_sum" in texts[0] and "um_sum" in texts[1]
