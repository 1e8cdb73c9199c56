"""nvprof's logs: how values are spelled, real files, damage, and what users do to logs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp

import pytest
from conftest import FIXTURES, REAL, Row, event_rows, provenance, real, small_rows
from hypothesis import given
from hypothesis import strategies as st
from importing import slugs

from nsysconv import api
from nsysconv.api.importing import import_files
from nsysconv.codes import AGGREGATE_KINDS
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import nvprof_log
from nsysconv.importers.contract import Yes
from nsysconv.importers.nvprof_log.survey import spelled
from nsysconv.importers.printed.quantities import intersection
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "nvprof_log"
REAL_LOGS = [
    REAL / row["file"] for kind in ("nvprof_csv", "nvprof_text") for row in provenance(kind)
] or [REAL / "missing"]
BANNER = "==77== NVPROF is profiling process 77, command: ./a --token=SECRET-IN-COMMAND\n"
GPU_TRACE = (
    "==77== Profiling result:\n"
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","Device","Context",'
    '"Stream","Name"\n'
    "ms,us,,,,,,,,KB,B,MB,GB/s,,,,\n"
)
KERNEL = '1.000000,2.500000,4,1,1,64,1,1,21,4.000000,0,,,"Tesla T4 (0)","1","7","f(int) [9]"\n'
COPY = '{start},{dur},,,,,,,,,,{size},{rate},"Tesla T4 (0)","1","7","[CUDA memcpy HtoD]"\n'

ProfilesOf = Callable[..., list[Profile]]


@pytest.fixture
def profiles_of(tmp_path: Path) -> Iterator[ProfilesOf]:
    """Imports files (or the text of one) and gives the profiles."""
    with ExitStack() as stores:

        def profiles(*sources: Path | str, join: bool = False) -> list[Profile]:
            folder = Path(mkdtemp(dir=tmp_path))
            paths = []
            for number, source in enumerate(sources):
                if isinstance(source, str):
                    paths.append(folder / f"log{number}.txt")
                    paths[-1].write_text(source, encoding="utf-8")
                else:
                    paths.append(source)
            result = import_files(paths, folder / "store.db", join=join)
            for error in result.errors:
                raise error
            return stores.enter_context(reading(folder / "store.db")).profiles()

        yield profiles


def notes(profile: Profile, slug: str) -> list[Note]:
    return [note for note in profile.notes if note.slug == slug]


def totals(profile: Profile) -> list[Row]:
    """Rows of totals with words in place of numbers."""
    rows = small_rows(profile, "aggregate")
    names = profile.names(row["name_id"] for row in rows if row["name_id"] is not None)
    return [
        row | {"kind": AGGREGATE_KINDS[row["kind"]], "name": names.get(row["name_id"])}
        for row in rows
    ]


# -- values


SPELLED = {
    # cell, unit of its column: least and greatest number that it stands for
    ("3.2557ms", ""): (Fraction(3_255_650), Fraction(3_255_750)),
    ("3,2557ms", ""): (Fraction(3_255_650), Fraction(3_255_750)),
    ("438ns", ""): (Fraction(875, 2), Fraction(877, 2)),
    ("1,234.5ms", ""): (Fraction(1_234_450_000), Fraction(1_234_550_000)),
    ("1.234,5ms", ""): (Fraction(1_234_450_000), Fraction(1_234_550_000)),
    ("1,234,567B", ""): (Fraction(2_469_133, 2), Fraction(2_469_135, 2)),
    ("2.4e+03s", ""): (Fraction(2_350 * 10**9), Fraction(2_450 * 10**9)),
    ("2.048000e-03", "ms"): (Fraction(4_095_999, 2_000), Fraction(4_096_001, 2_000)),
    ("35.156", "KB"): (Fraction(351_555 * 1024, 10_000), Fraction(351_565 * 1024, 10_000)),
    ("0.25us", "ms"): (Fraction(245), Fraction(255)),
    ("47,79%", ""): (Fraction(47_785, 1000), Fraction(47_795, 1000)),
    ("5", "GB/s"): (Fraction(9 * 2**30, 2), Fraction(11 * 2**30, 2)),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "bounds"), SPELLED.items(), ids=str)
def test_range_of_values_of_a_cell(cell: tuple[str, str], bounds: tuple[Fraction, Fraction]) -> None:
    quantity = spelled(*cell)
    assert quantity is not None
    assert (quantity.low, quantity.high) == bounds


@pytest.mark.parametrize(
    "cell", ["", "-", "ms", "1.2.3ms", "3 apples", "0x10", "1e9999", "9" * 40, "nan", "inf", "--1"]
)
def test_other_cells_are_no_numbers(cell: str) -> None:
    assert spelled(cell) is None


@given(
    value=st.integers(0, 10**15),
    unit=st.sampled_from(["s", "ms", "us", "ns"]),
    digits=st.integers(0, 9),
)
def test_a_spelled_number_stands_for_the_one_that_was_meant(
    value: int, unit: str, digits: int
) -> None:
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    step = Fraction(scale, 10**digits)
    cell = f"{round(Fraction(value) / step)}e-{digits}{unit}"
    quantity = spelled(cell)
    assert quantity is not None
    assert quantity.low <= value <= quantity.high
    assert quantity.is_exact == (step <= 1)
    assert not quantity.is_exact or quantity.integer == value


def test_two_spellings_of_one_quantity_leave_what_both_allow() -> None:
    # 100.01ms +- 5 us; 11 calls of 9.0918ms +- 50 ns are 100.0098ms +- 0.55 us.
    total, average = spelled("100.01ms"), spelled("9.0918ms")
    assert total is not None
    assert average is not None
    both = intersection([total, average.times(11)])
    assert both is not None
    assert (both.low, both.high) == (100_009_250, 100_010_350)
    contradicted = intersection([total, average.times(10)])
    assert contradicted == total


def test_bytes_are_as_exact_as_size_and_throughput_leave_them(profiles_of: ProfilesOf) -> None:
    # 1.035278 MB is 1085567.14 to 1085568.19 bytes; 0.363334 GB/s for 2782.603 us 1085566.8 to 1085569.8.
    # 0.000011 MB: 11.0 to 12.1; 0.015875 GB/s for 0.704 us: 11.9997 to 12.0004.
    # 64.000000 MB: 64 MiB and half a byte around; 0.372568 GB/s for 167.754539 ms: +- 90 bytes.
    rows = [("1.035278", "0.363334", "2782.603000"), ("0.000011", "0.015875", "0.704000"),
            ("64.000000", "0.372568", "167754.539000")]  # fmt: skip
    text = (
        BANNER
        + GPU_TRACE
        + "".join(
            COPY.format(start=f"{number}.000000", dur=dur, size=size, rate=rate)
            for number, (size, rate, dur) in enumerate(rows, 1)
        )
    )
    (profile,) = profiles_of(text)
    assert [row["bytes"] for row in event_rows(profile, "memcpy")] == [1_085_568, 12, 64 << 20]
    assert "rounded-bytes" not in slugs(profile)


def test_bytes_that_are_not_exact_are_noted(profiles_of: ProfilesOf) -> None:
    # 2.500000 GB is known to 1074 bytes, and 10.000000 GB/s for 0.25 s to 268 bytes.
    copy = COPY.format(start="1.000000", dur="250000.000000", size="2.500000", rate="10.000000")
    (profile,) = profiles_of(BANNER + GPU_TRACE.replace("KB,B,MB", "KB,B,GB") + copy)
    (row,) = event_rows(profile, "memcpy")
    assert abs(row["bytes"] - 2.5 * 2**30) <= 135
    (note,) = notes(profile, "rounded-bytes")
    assert (note.severity, note.count) == (Severity.APPROXIMATED, 1)
    assert "268 bytes" in note.text


# -- what stands where


def test_a_row_of_a_trace(profiles_of: ProfilesOf) -> None:
    (profile,) = profiles_of(BANNER + GPU_TRACE + KERNEL)
    (row,) = event_rows(profile, "kernel")
    told = {name: value for name, value in row.items() if value not in (None, "[no name]")}
    assert told == {
        "start_ns": 1_000_000, "dur_ns": 2_500, "pid": 77, "device_id": 0, "context_id": 1,
        "stream_id": 7, "correlation_id": 9, "name": "f(int)", "grid_x": 4,
        "grid_y": 1, "grid_z": 1, "block_x": 64,
        "block_y": 1, "block_z": 1, "registers_per_thread": 21, "static_shared_bytes": 4096,
        "dynamic_shared_bytes": 0,
    }  # fmt: skip
    assert small_rows(profile, "device")[0]["name"] == "Tesla T4"
    assert profile.facts == {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}


def test_named_streams_have_their_names(profiles_of: ProfilesOf) -> None:
    named = KERNEL.replace('"7"', '"copies"')
    (profile,) = profiles_of(BANNER + GPU_TRACE + KERNEL + named)
    streams = {row["name"]: row["stream_id"] for row in small_rows(profile, "stream")}
    rows = event_rows(profile, "kernel")
    assert streams[None] == rows[0]["stream_id"] == 7
    assert streams["copies"] == rows[1]["stream_id"] < 0


def test_a_copy_between_devices_names_the_other_one(profiles_of: ProfilesOf) -> None:
    header = GPU_TRACE.replace('"Stream",', '"Stream","Src Dev","Src Ctx","Dst Dev","Dst Ctx",')
    header = header.replace("GB/s,,,,", "GB/s,,,,,,,,")
    row = ('1.000000,2.000000,,,,,,,,,,1.000000,2.000000,"T4 (1)","1","7","T4 (1)","1","T4 (3)",'
           '"2","[CUDA memcpy PtoP]"\n')  # fmt: skip
    (profile,) = profiles_of(BANNER + header + row)
    (copy,) = event_rows(profile, "memcpy")
    assert (copy["device_id"], copy["peer_device_id"], copy["direction"]) == (1, 3, "PtoP")


def test_totals_inside_ranges_are_kept_apart(profiles_of: ProfilesOf) -> None:
    (profile,) = profiles_of(FOLDER / "ranges-summary.txt")
    rows = totals(profile)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    assert {row["range_name_id"] is None for row in kernels} == {True, False}
    # A report counts what ran once, though the log names it again for each range.
    with_ranges = sum(row["sum_ns"] for row in kernels)
    without = sum(row["sum_ns"] for row in kernels if row["range_name_id"] is None)
    path = FOLDER / "ranges-summary.txt"
    with api.open(path) as opened:
        reported = sum(row["kernel_sum_ns"] for row in opened.report("kernels").rows())
    assert reported == without < with_ranges


def test_a_sum_is_as_exact_as_time_and_average_leave_it(profiles_of: ProfilesOf) -> None:
    # As above, but that the average lost its fraction of a ns: 100.009250 to 100.010361ms.
    line = " GPU activities:  100.00%  100.01ms        11  9.0918ms  1.6644ms  39.170ms  f(int)\n"
    header = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    (profile,) = profiles_of(BANNER + "==77== Profiling result:\n" + header + line)
    (row,) = totals(profile)
    assert (row["count"], row["sum_ns"]) == (11, 100_009_805)
    assert (row["min_ns"], row["max_ns"]) == (1_664_400, 39_170_000)
    (note,) = notes(profile, "rounded-times")
    assert note.severity is Severity.APPROXIMATED
    assert "1,111 ns" in note.text


def test_missing_rows_of_a_summary_are_noticed(profiles_of: ProfilesOf) -> None:
    lines = (FOLDER / "basic-summary.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if "GPU activities:" in line)
    whole, cut = profiles_of("".join(lines)), profiles_of("".join(lines[: first + 1]))
    assert "totals-incomplete" not in slugs(whole[0])
    (note,) = notes(cut[0], "totals-incomplete")
    assert note.severity is Severity.DROPPED


def test_rows_after_a_message_belong_to_the_table(profiles_of: ProfilesOf) -> None:
    message = "==77== Warning: 4 API trace records have same start and end timestamps.\n"
    text = BANNER + GPU_TRACE + KERNEL + message + "This can happen because of …\n" + KERNEL
    (profile,) = profiles_of(text + "42 iterations, 17 s\n" + KERNEL)
    assert profile.row_count("kernel") == 3
    (note,) = notes(profile, "profiler-diagnostic")
    assert "4 API calls" in note.text
    # What begins like a row and is none is told.
    (unread,) = notes(profile, "line-unreadable")
    assert (unread.count, unread.where) == (1, "line 9")


def test_a_second_banner_is_another_run_whatever_it_recorded(profiles_of: ProfilesOf) -> None:
    calls = (FOLDER / "basic-api-trace.csv").read_text(encoding="utf-8")
    gpu = (FOLDER / "basic-gpu-trace.csv").read_text(encoding="utf-8")
    profiles = profiles_of(gpu + calls)
    assert [p.row_count("kernel") for p in profiles] == [8, 0]
    assert [p.row_count("api_call") for p in profiles] == [0, 20]


def test_a_second_table_without_banner_is_another_run(profiles_of: ProfilesOf) -> None:
    table = GPU_TRACE.partition("\n")[2]
    profiles = profiles_of(table + KERNEL + table + KERNEL + KERNEL)
    assert [profile.row_count("kernel") for profile in profiles] == [1, 2]
    assert [profile.rows("process") for profile in profiles] == [[], []]
    assert all(notes(profile, "process-unnamed") for profile in profiles)


# -- several files


def test_traces_of_one_run_are_joined_on_request(profiles_of: ProfilesOf) -> None:
    gpu, calls = FOLDER / "basic-gpu-trace.csv", FOLDER / "basic-api-trace.csv"
    apart = profiles_of(gpu, calls)
    assert [Fact.API_LINKS in profile.facts for profile in apart] == [False, False]
    (joined,) = profiles_of(gpu, calls, join=True)
    assert joined.facts >= {Fact.API_LINKS, Fact.KERNELS, Fact.API_CALLS}
    assert event_rows(joined, "kernel") == event_rows(apart[0], "kernel")
    assert event_rows(joined, "api_call") == event_rows(apart[1], "api_call")
    assert "joined-runs" not in slugs(joined)


def test_joined_files_of_different_runs_are_noted(profiles_of: ProfilesOf) -> None:
    gpu = (FOLDER / "basic-gpu-trace.csv").read_text(encoding="utf-8")
    calls = (FOLDER / "basic-api-trace.csv").read_text(encoding="utf-8")
    (joined,) = profiles_of(gpu, calls.replace("4242", "4343"), join=True)
    (note,) = notes(joined, "joined-runs")
    assert note.severity is Severity.APPROXIMATED
    assert "4242, 4343" in note.text
    assert {row["pid"] for row in event_rows(joined, "api_call")} == {4242}


def test_files_of_several_processes_are_joined_process_by_process(
    profiles_of: ProfilesOf,
) -> None:
    gpu = (FOLDER / "basic-gpu-trace.csv").read_text(encoding="utf-8")
    calls = (FOLDER / "basic-api-trace.csv").read_text(encoding="utf-8")
    both = [text + text.replace("4242", "4343") for text in (gpu, calls)]
    profiles = profiles_of(*both, join=True)
    assert [profile.rows("process")[0]["pid"] for profile in profiles] == [4242, 4343]
    for profile in profiles:
        assert (profile.row_count("kernel"), profile.row_count("api_call")) == (8, 20)
        assert "joined-runs" not in slugs(profile)


def test_joining_again_changes_nothing(tmp_path: Path) -> None:
    paths = [FOLDER / "basic-gpu-trace.csv", FOLDER / "basic-api-trace.csv"]
    store = tmp_path / "store.db"
    first = import_files(paths, store, join=True)
    again = import_files(paths, store, join=True)
    assert [[each.existing for each in file.imported] for file in first.files] == [[False]]
    assert [[each.existing for each in file.imported] for file in again.files] == [[True]]


def test_recordings_that_cannot_be_joined_are_refused(tmp_path: Path) -> None:
    trace = next((FIXTURES / "kineto").glob("*.json"))
    log = FOLDER / "basic-gpu-trace.csv"
    result = import_files([log, trace], tmp_path / "a.db", join=True)
    assert "cannot be joined" in str(result.errors[0])
    for paths in ([log], [FOLDER, log]):
        with pytest.raises(UsageError, match="joined"):
            import_files(paths, tmp_path / "a.db", join=True)
    assert list(tmp_path.iterdir()) == []


# -- recognizing


def claims(path: Path) -> bool:
    with Probe(path) as probe:
        return isinstance(nvprof_log.sniff(probe), Yes)


def test_a_log_is_found_behind_a_long_output(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("epoch 1\n" * 300_000 + BANNER + GPU_TRACE + KERNEL, encoding="utf-8")
    assert claims(path)


@pytest.mark.parametrize(
    "text",
    ["==77== Memcheck, a memory error detector\n", "Start of the program, duration 3 s\n", "",
     "======== a heading ========\n", '{"Start","Duration"}'],
)  # fmt: skip
def test_other_texts_are_no_logs(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text, encoding="utf-8")
    assert not claims(tmp_path / "file")


NOTHING = {
    "a banner and no more": (BANNER, "ends before its first table"),
    "nothing profiled": (
        BANNER + "No kernels were profiled.\nNo API activities were profiled.\n", "profiled nothing",
    ),
    "samples of the CPU": (
        BANNER + "======== CPU profiling result (bottom up):\nTime(%)      Time  Name\n 9.0%  1s  main\n",
        "CPU profiling result",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), NOTHING.values(), ids=NOTHING)
def test_a_log_that_holds_nothing_says_why(profiles_of: ProfilesOf, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        profiles_of(text)


def test_a_log_without_tables_names_the_written_files(profiles_of: ProfilesOf) -> None:
    """Of each process that was profiled; where on the machine it lies is nobody's business."""
    text = "".join(
        f"=={pid}== NVPROF is profiling process {pid}, command: ./a\n"
        f"=={pid}== Generated result file: /home/someone/run.{pid}.nvvp\n"
        for pid in (11, 12)
    )
    with pytest.raises(InputError, match="the log holds no table") as caught:
        profiles_of(text)
    assert caught.value.hint == "Import what nvprof wrote: run.11.nvvp, run.12.nvvp."


def test_what_damage_put_behind_a_file_name_is_not_said(profiles_of: ProfilesOf) -> None:
    with pytest.raises(InputError) as caught:
        profiles_of("==11== Generated result file: /home/someone/run.nvvp\rkey=value of another line\n")
    assert caught.value.hint == "Import what nvprof wrote: run.nvvp."


# -- real files


def plain_rows(path: Path) -> list[list[str]]:
    """Rows of a real trace as Python's csv cuts them; the truncated last one left out."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(line for line in file if line[:1].isdigit()))
    return [row for row in rows if len(row) == 17]


REAL_TRACES = {
    # kernels, copies and their sizes in MB, as PROVENANCE.tsv has them
    "leimingyu+magus__histogram_trace.csv": (68, 64.0012, 1e9),
    "leimingyu+magus__traces_rodinia_backprop.csv": (2, 17.7503, 1e6),
    "leimingyu+magus__traces_shoc_lev1stencil2d.csv": (13_715, 33.2641, 1e9),
}


@real
@pytest.mark.parametrize(("name", "figures"), REAL_TRACES.items(), ids=list(REAL_TRACES))
def test_a_real_trace_gives_its_figures(
    profiles_of: ProfilesOf, name: str, figures: tuple[int, float, float]
) -> None:
    kernel_count, megabytes, start_unit = figures
    path = REAL / "nvprof_csv" / name
    (profile,) = profiles_of(path)
    rows = plain_rows(path)
    kernels = event_rows(profile, "kernel")
    copies = event_rows(profile, "memcpy") + event_rows(profile, "memset")
    assert len(kernels) == kernel_count
    assert len(kernels) + len(copies) == len(rows)
    assert round(sum(row["bytes"] for row in copies) / 2**20, 4) == megabytes
    ours = sorted((row["start_ns"], row["dur_ns"]) for row in kernels + copies)
    told = sorted((round(float(row[0]) * start_unit), round(float(row[1]) * 1e6)) for row in rows)
    assert ours == told
    numbers = sorted(
        int(match.group(1)) for row in rows if (match := re.search(r"\[(\d+)\]$", row[-1]))
    )
    assert sorted(row["correlation_id"] for row in kernels) == numbers
    assert ("rounded-times" in slugs(profile)) == (start_unit == 1e9)


@real
def test_the_truncated_real_trace_says_where_it_ends(profiles_of: ProfilesOf) -> None:
    path = REAL / "nvprof_csv" / "leimingyu+magus__traces_shoc_lev1stencil2d.csv"
    (profile,) = profiles_of(path)
    (note,) = notes(profile, "trace-truncated")
    last = path.read_bytes().count(b"\n") + 1
    assert note.where == f"line {last}" == "line 13804"


@real
def test_real_metrics(profiles_of: ProfilesOf) -> None:
    (csv_metrics,) = profiles_of(
        REAL / "nvprof_csv" / "leimingyu+magus__metrics_rodinia_hybridsort.csv"
    )
    assert csv_metrics.row_count("metric_sample") == 840
    (text,) = profiles_of(REAL / "nvprof_text" / "xstupi00+N-Body-OpenACC__profile.out")
    assert text.row_count("metric_sample") == 80
    for profile in (csv_metrics, text):
        assert profile.facts == {Fact.METRICS}
        assert notes(profile, "kernels-serialized")


REAL_TOTALS = {
    # path: rows of GPU activities and API calls, and the first line's sum
    "Mlightsnow+DD2360-llm.c__bf16_prof.txt": (29, 51, 8_921_000_000),
    "ynan1+aws_gpu__profile_simple.txt": (3, 13, 2_066_400),
    "ynan1+aws_gpu__profile_softmax_1stream_sz-3e7_thd-1024_blckeq_v2.txt": (3, 13, 46_159_000),
}
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@real
@pytest.mark.parametrize(("name", "figures"), REAL_TOTALS.items(), ids=list(REAL_TOTALS))
def test_real_summaries(profiles_of: ProfilesOf, name: str, figures: tuple[int, int, int]) -> None:
    gpu_count, api_count, first = figures
    path = REAL / "nvprof_text" / name
    (profile,) = profiles_of(path)
    rows = [
        row for row in totals(profile) if row["range_name_id"] is None and row["kind"] != "range"
    ]
    calls = [row for row in rows if row["kind"] == "api_call"]
    on_gpu = [row for row in rows if row["kind"] in ("kernel", "memcpy", "memset")]
    assert (len(on_gpu), len(calls)) == (gpu_count, api_count)
    assert abs(max(row["sum_ns"] for row in on_gpu) - first) <= 50_000
    # The table before the ranges, read by eye's own rule.
    text = path.read_text(encoding="utf-8").partition("NVTX result")[0]
    lines = re.findall(r"%\s+([\d.]+)(s|ms|us|ns)\s+(\d+)\s", text)
    assert len(lines) == gpu_count + api_count
    spent = sum(float(number) * _UNITS[unit] for number, unit, _ in lines)
    assert sum(row["sum_ns"] for row in rows if row["kind"] != "unified_memory") == pytest.approx(
        spent, rel=1e-4
    )
    assert sum(row["count"] for row in on_gpu + calls) == sum(int(count) for *_, count in lines)


@real
def test_real_unified_memory(profiles_of: ProfilesOf) -> None:
    name = "ynan1+aws_gpu__profile_softmax_1stream_sz-3e7_thd-1024_blckeq_v2.txt"
    (profile,) = profiles_of(REAL / "nvprof_text" / name)
    moved = {row["direction"]: row for row in totals(profile) if row["kind"] == "unified_memory"}
    # 256.0273MB and 256.0313MB, 7 digits; 48.33489ms and 42.41922ms.
    assert [(moved[d]["count"], moved[d]["sum_ns"]) for d in (1, 2)] == [
        (3162, 48_334_890), (1540, 42_419_220)]  # fmt: skip
    for direction, megabytes in ((1, 256.0273), (2, 256.0313)):
        assert abs(moved[direction]["bytes_sum"] / 2**20 - megabytes) <= 0.00005
    assert Fact.UNIFIED_MEMORY_TOTALS in profile.facts


@real
@pytest.mark.parametrize("path", REAL_LOGS, ids=lambda path: path.name)
def test_info_says_how_to_record_the_rest(path: Path) -> None:
    with api.open(path) as opened:
        profile = opened.profile
        assert profile.missing
        assert all(
            "nvprof" in profile.advice[fact] for fact in profile.missing & profile.advice.keys()
        )
        assert {Fact.THREADS, Fact.UTC} <= profile.advice.keys()


def test_sizes_are_rounded_also_where_the_first_rows_have_none(profiles_of: ProfilesOf) -> None:
    copy = COPY.format(start="1.000000", dur="250000.000000", size="2.500000", rate="10.000000")
    kernels = KERNEL * 300
    (profile,) = profiles_of(BANNER + GPU_TRACE.replace("KB,B,MB", "KB,B,GB") + kernels + copy)
    assert notes(profile, "rounded-bytes")
