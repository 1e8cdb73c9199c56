"""Nsight Compute: the tables of scripts/fixtures_ncu.py, what goes wrong, and real files."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    FIXTURES,
    REAL,
    claimed_by,
    event_rows,
    few,
    import_file,
    name_of,
    real,
    small_rows,
)
from fixtures_ncu import GPU, LOG, PID, SAXPY, TINY, details
from importing import counts, imported, notes, refusal

import nsysconv
from nsysconv import codes
from nsysconv.errors import InputError, NoProfileError
from nsysconv.facts import Fact
from nsysconv.importers.ncu.launches import counter, scale
from nsysconv.importers.ncu.pages import Decimals
from nsysconv.notes import Severity
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "ncu"
# Pages of the whole program.
PAGES = ["details.csv", "details-scaled.csv", "raw.csv", "odd-german.csv", "odd-utf16.csv"]
SM, MEMORY = (
    f"{name}.avg.pct_of_peak_sustained_elapsed"
    for name in ("sm__throughput", "gpu__compute_memory_throughput")
)
DURATION = "gpu__time_duration.sum"
UNREAD = "an Nsight Compute report: NVIDIA's ncu-report is needed to read it"
MODULE = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="ncu-report is not installed"
)

Metrics = dict[tuple[str, str], list[tuple[Any, ...]]]


def kernels(profile: Profile, *columns: str) -> list[tuple[Any, ...]]:
    rows = event_rows(profile, "kernel")
    return [(row["name"], *(row[column] for column in columns)) for row in rows]


def samples(profile: Profile) -> list[dict[str, Any]]:
    """Rows of metrics with names in place of ids."""
    names = {row["id"]: row["text"] for row in profile.rows("name")}
    ids = ("name_id", "kernel_name_id", "description_id")
    return [
        {**row, **{name.removesuffix("_id"): names.get(row[name]) for name in ids}}
        for batch in profile.batches("metric_sample", 1000)
        for row in batch.to_pylist()
    ]


def metrics(profile: Profile) -> Metrics:
    """Unit, description, executions, mean, least, greatest of each row, by kernel and metric."""
    found: Metrics = {}
    columns = ("description", "execution_count", "value_avg", "value_min", "value_max")
    for row in samples(profile):
        values = tuple(row[column] for column in columns)
        key = row["kernel_name"] or "", row["name"]
        found.setdefault(key, []).append((codes.METRIC_UNITS[row["unit"]], *values))
    return found


def once(unit: str, value: float, spelled: str | None = None) -> tuple[Any, ...]:
    return unit, spelled, 1, value, value, value


# -- pages


@pytest.mark.parametrize("name", PAGES)
def test_launches_are_kernels_without_times(name: str) -> None:
    with imported(FOLDER / name) as profile:
        found = kernels(profile, "start_ns", "dur_ns", "grid_x", "grid_y", "block_x", "block_z",
                        "registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes",
                        "pid", "device_id", "context_id", "stream_id", "correlation_id")  # fmt: skip
        where = (PID, 0, 1)
        assert found == [
            (SAXPY, None, None, 80, 1, 256, 1, 32, 1024 if "scaled" not in name else 1020, 512,
             *where, 7, None),
            (SAXPY, None, None, 120, 1, 256, 1, 32, 1024 if "scaled" not in name else 1020, 512,
             *where, 7, None),
            (TINY, None, None, 1, 1, 64, 1, 16, 0, 0, *where, 13, None),
        ]  # fmt: skip
        assert notes(profile)["kernels-serialized"] == [(Severity.APPROXIMATED, 3, "")]
        assert [row["pid"] for row in small_rows(profile, "process")] == [PID]
        facts = {Fact.METRICS, Fact.KERNELS}
        assert set(profile.facts) == (facts | {Fact.DEVICES} if name == "raw.csv" else facts)


def test_metrics_of_the_details_page_have_the_names_of_counters_and_base_units() -> None:
    """`Memory Throughput` is a share in one section and a rate in another; advice is no metric."""
    with imported(FOLDER / "details.csv") as profile:
        found = metrics(profile)
        assert {name: rows for (kernel, name), rows in found.items() if kernel == TINY} == {
            "dram__cycles_elapsed.avg.per_second": [once("Hz", 5e9)],
            MEMORY: [once("%", 7.0)],
            SM: [once("%", 3.0)],
            DURATION: [once("number", 1500, "ns")],
            "dram__bytes.sum.per_second": [once("bytes/s", 1_500_000_000.5)],
            "Memory Workload Analysis: Unheard Of": [once("number", 12, "sector")],
            "launch__registers_per_thread": [once("number", 16, "register/thread")],
            "launch__shared_mem_per_block_static": [once("number", 0, "byte/block")],
            "launch__shared_mem_per_block_dynamic": [once("number", 0, "byte/block")],
            "launch__waves_per_multiprocessor": [once("number", 0.01)],
            "sm__warps_active.avg.pct_of_peak_sustained_active": [once("%", 6.25)],
        }
        assert found[SAXPY, SM] == [once("%", 20), once("%", 30)]
        # A text and a rule of each launch.
        assert notes(profile)["texts-left-out"] == [(Severity.INFO, 6, "")]
        device = small_rows(profile, "device")[0]
        assert (device["compute_major"], device["compute_minor"], device["name"]) == (7, 5, None)


def test_units_with_prefixes_are_scaled_to_base_units() -> None:
    """5.00 Ghz, 1.50 Gbyte/s, 1.02 Kbyte/block; 1.50 us are known to 10 ns."""
    with imported(FOLDER / "details-scaled.csv") as profile:
        found = metrics(profile)
        assert found[TINY, "dram__cycles_elapsed.avg.per_second"] == [once("Hz", 5e9)]
        assert found[TINY, "dram__bytes.sum.per_second"] == [once("bytes/s", 1.5e9)]
        shared = found[SAXPY, "launch__shared_mem_per_block_static"]
        assert shared == [once("number", 1020, "byte/block")] * 2
        (note,) = (note for note in profile.notes if note.slug == "rounded-times")
        assert (note.count, note.text) == (
            3,
            "durations of kernels are accurate to 10 ns or better",
        )


def test_the_raw_page_has_a_column_for_each_metric_and_describes_the_gpu() -> None:
    """Of 64 (32; 32) the parts are left out, as are n/a and texts, three of each launch."""
    with imported(FOLDER / "raw.csv") as profile:
        found = metrics(profile)
        assert found[TINY, "inst_executed"] == [once("number", 64, "inst")]
        assert len({name for kernel, name in found if kernel == TINY}) == 10
        assert notes(profile)["texts-left-out"] == [(Severity.INFO, 9, "")]
        (device,) = small_rows(profile, "device")
        wanted = {
            "device_id": 0, "ordinal": 0, "name": GPU, "compute_major": 7, "compute_minor": 5,
            "sm_count": 40, "memory_bytes": 16_000_000_000, "max_warps_per_sm": 32,
            "max_blocks_per_sm": 16, "threads_per_warp": 32, "sm_clock_hz": 1_590_000_000,
        }  # fmt: skip
        assert wanted.items() <= device.items()


def test_summaries_have_metrics_over_several_launches() -> None:
    with imported(FOLDER / "summary.csv") as profile:
        assert metrics(profile) == {
            (SAXPY, MEMORY): [("%", None, 2, 70, 50, 90)],
            (SAXPY, SM): [("%", None, 2, 25, 20, 30)],
            (SAXPY, DURATION): [("number", "ns", 2, 3000, 2000, 4000)],
            (TINY, MEMORY): [("%", None, 1, 7, 7, 7)],
            (TINY, SM): [("%", None, 1, 3, 3, 3)],
            (TINY, DURATION): [("number", "ns", 1, 1500, 1500, 1500)],
        }
        assert kernels(profile) == []
        assert set(profile.facts) == {Fact.METRICS}


@pytest.mark.parametrize("name", [*PAGES, "odd-cut.csv", "odd-damaged.csv"])
def test_what_limits_the_kernels(name: str) -> None:
    """Means of 20 and 30, 90 and 50; all 32 warps fit: 4 blocks of 8, 16 of 2."""
    (report,) = nsysconv.report_on(FOLDER / name, "kernel_limits")
    columns = ("name", "kernel_count", "kernel_sum_ns", "limit", "compute_pct", "memory_pct",
               "achieved_occupancy_pct", "occupancy_pct")  # fmt: skip
    assert [tuple(row[column] for column in columns) for row in report.rows()] == [
        (SAXPY, 2, 6000, "bandwidth", 25, 70, 60, 100),
        (TINY, 1, 1500, "small grid", 3, 7, 6.25, 100),
    ]


def test_a_summary_limits_kernels_too() -> None:
    """Durations are 2 times 3000 and 1500; without waves, a small grid is not known."""
    (report,) = nsysconv.report_on(FOLDER / "summary.csv", "kernel_limits")
    columns = ("name", "kernel_count", "kernel_sum_ns", "limit", "occupancy_pct")
    assert [tuple(row[column] for column in columns) for row in report.rows()] == [
        (SAXPY, 2, 6000, "bandwidth", None), (TINY, 1, 1500, "latency", None)]  # fmt: skip


def test_tables_of_2020() -> None:
    """Old labels and units, a time of day, NVTX; neither sizes nor a device, so GPU 0."""
    with imported(FOLDER / "odd-old.csv") as profile:
        assert {
            name: rows for (kernel, name), rows in metrics(profile).items() if kernel == TINY
        } == {
            MEMORY: [once("%", 7)],
            SM: [once("%", 3)],
            DURATION: [once("number", 1500, "ns")],
            "GPU Speed Of Light: Memory Frequency": [once("Hz", 5e9)],
            "dram__bytes.sum": [once("bytes", 1_250_000)],
        }
        where = ("dur_ns", "device_id", "stream_id", "grid_x")
        assert kernels(profile, *where)[2] == (TINY, None, 0, 13, None)
        (device,) = small_rows(profile, "device")
        assert device["ordinal"] is None


# -- damage


def test_a_table_that_is_cut_off_says_in_which_line() -> None:
    """7 lines of the log, a header, 3 launches of 12 lines and 4 of advice: the last begins in 53."""
    with imported(FOLDER / "odd-cut.csv") as profile:
        assert notes(profile)["trace-truncated"] == [(Severity.DROPPED, 1, "line 53")]
        assert len(kernels(profile)) == 3


def test_each_place_at_which_a_table_may_be_cut(tmp_path: Path) -> None:
    """Behind the first row: of what is whole nothing is lost, and no line is called unreadable."""
    content = (FOLDER / "details.csv").read_bytes()
    first = content.index(b"\n", content.index(b'"0","6153"'))
    for at in range(first, len(content), 997):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "cut.csv").write_bytes(content[:at])
        with imported(folder / "cut.csv") as profile:
            # Rows of metrics; the first line of advice ends with two quotes and a comma.
            whole = content[:at].count(b'",\n') - content[:at].count(b'"",\n')
            texts = counts(profile).get("texts-left-out", 0)
            assert sum(map(len, metrics(profile).values())) + texts - whole in range(5)
            assert "line-unreadable" not in counts(profile)


def test_lines_and_cells_of_another_kind_are_counted() -> None:
    """A quote too few in the first row and in one of 12, a line of the program's; 3# is no number."""
    with imported(FOLDER / "odd-damaged.csv") as profile:
        found = notes(profile)
        assert found["line-unreadable"] == [(Severity.DROPPED, 3, "line 9")]
        assert found["cell-unreadable"] == [(Severity.DROPPED, 1, "")]
        whole = 3 * 11
        assert sum(map(len, metrics(profile).values())) == whole - 3


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(details().split("\n")[0] + "\n")
    assert refusal(tmp_path / "a.csv").what == "the Nsight Compute table has no row that can be read"


def test_a_log_without_a_table_says_how_to_print_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    with pytest.raises(NoProfileError) as caught:
        nsysconv.info(tmp_path / "log")
    assert caught.value.what == "Nsight Compute (ncu) output without a CSV table of metrics"
    assert "ncu --import FILE --csv" in caught.value.hint


def test_a_source_page_says_how_to_print_metrics(tmp_path: Path) -> None:
    (tmp_path / "page").write_text(
        'Kernel Name,"f(int)"\n"Address","Source","Warp Stall Sampling (All Samples)"\n"1","RET","3"\n'
    )
    with pytest.raises(NoProfileError) as caught:
        nsysconv.info(tmp_path / "page")
    assert caught.value.hint == "Print the report as CSV: ncu --import FILE --csv"


def test_a_table_that_another_program_saved_again_without_quotes(tmp_path: Path) -> None:
    """Quoted are only cells with commas, quotes or line breaks; advice of rules has all of them."""
    launch = '11,a.out,127.0.0.1,"f<int, 2>(int)",1,7,"(4, 1, 1)",0,8.0'
    columns = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Grid Size,Device,CC,"
    (tmp_path / "ncu.csv").write_text(
        f"{columns}Section Name,Metric Name,Metric Unit,Metric Value,Rule Name,Rule Description\n"
        f"0,{launch},GPU Speed Of Light Throughput,Duration,us,10.5,,\n"
        f'0,{launch},SpeedOfLight,,,,Bottleneck,"First,\nthen ""second""."\n'
        f'1,{launch},GPU Speed Of Light Throughput,Duration,us,"1,234.5",,\n'
    )
    with nsysconv.open(tmp_path / "ncu.csv") as profile:
        rows = profile.report("metrics").rows()
        found = [(row["kernel"], row["metric"], row["value_min"], row["value_max"]) for row in rows]
        slugs = {note.slug for note in profile.notes}
    assert found == [("f<int, 2>(int)", "gpu__time_duration.sum", 10_500, 1_234_500)]
    assert "line-unreadable" not in slugs


def test_numbers_that_do_not_show_the_locale_are_read_as_english(tmp_path: Path) -> None:
    lines = details(rules=False).split("\n")
    kept = [lines[0], *(line for line in lines if '"Static Shared' in line)]
    (tmp_path / "a.csv").write_text("\n".join(kept) + "\n")
    with imported(tmp_path / "a.csv") as profile:
        found = metrics(profile)[SAXPY, "launch__shared_mem_per_block_static"]
        assert found == [once("number", 1024, "byte/block")] * 2
        assert notes(profile)["number-ambiguous"] == [(Severity.APPROXIMATED, 2, "")]


@pytest.mark.parametrize(("cells", "point", "values"), [
    (["1,234.50"], ".", [1234.5]), (["1.234,50"], ",", [1234.5]), (["1,234,567"], ".", [1234567]),
    (["1.234.567", "1.234"], ",", [1234567, 1234]), (["0,123"], ",", [0.123]), (["12.5"], ".", [12.5]),
    (["1,234"], "", [1234]), (["1234.567"], ".", [1234.567]), (["-3", "1e-05"], "", [-3, 1e-5]),
    (["12\u202f345", "10,50"], ",", [12345, 10.5]), (["1\u00a0234,125"], ",", [1234.125]),
    (["1’234.5"], ".", [1234.5]),
    (["n/a", "nan", "CachePreferNone", "1.2.3", ""], ",", [None, None, None, 123, None]),
])  # fmt: skip
def test_the_first_number_that_can_be_only_one_shows_the_locale(
    cells: list[str], point: str, values: list[float | None]
) -> None:
    decimals = Decimals()
    for cell in cells:
        decimals.learn(cell)
    assert (decimals.point, [decimals.value(cell) for cell in cells]) == (point, values)


@pytest.mark.parametrize(("name", "encoding"), [
    ("details.csv", "utf-8-sig"), ("raw.csv", "utf-16"), ("summary.csv", "utf-8-sig")])  # fmt: skip
def test_a_table_that_begins_with_a_byte_order_mark(name: str, encoding: str, tmp_path: Path) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    header = text.index('"ID",') if '"ID",' in text else text.index('"Process ID",')
    (tmp_path / name).write_text(text[header:], encoding=encoding)
    with imported(FOLDER / name) as profile, imported(tmp_path / name) as redirected:
        assert metrics(redirected) == metrics(profile)


def test_a_duration_without_a_unit_is_not_in_ns(tmp_path: Path) -> None:
    """Whoever reads the raw page as a table leaves out the row of units."""
    header, units, *rows = (FOLDER / "raw.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    assert units.startswith('"","')
    (tmp_path / "raw.csv").write_text("".join((header, *rows)), encoding="utf-8")
    with imported(tmp_path / "raw.csv") as profile:
        assert DURATION not in {name for _, name in metrics(profile)}
        assert notes(profile)["cell-unreadable"]


@pytest.mark.parametrize(("unit", "expected"), [
    ("%", ("%", "%", 1)), ("byte", ("bytes", "byte", 1)), ("Mbyte", ("bytes", "byte", 1e6)),
    ("Gbyte/second", ("bytes/s", "byte/s", 1e9)), ("byte/nsecond", ("bytes/s", "byte/s", 1e9)),
    ("cycle/usecond", ("Hz", "cycle/s", 1e6)), ("Mhz", ("Hz", "hz", 1e6)), ("hz", ("Hz", "hz", 1)),
    ("cycle", ("number", "cycle", 1)), ("msecond", ("number", "ns", 1e6)), ("s", ("number", "ns", 1e9)),
    ("Kbyte/block", ("number", "byte/block", 1e3)), ("Gsector/s", ("number", "sector/s", 1e9)),
    ("inst/cycle", ("number", "inst/cycle", 1)), ("", ("number", "", 1)), ("SM", ("number", "SM", 1)),
    ("byte/cycle", ("number", "byte/cycle", 1)), ("1/s", ("number", "1/s", 1)),
])  # fmt: skip
def test_units(unit: str, expected: tuple[str, str, float]) -> None:
    assert scale(unit) == expected


def test_names_of_metrics() -> None:
    assert counter("Occupancy", "Achieved Occupancy") == (
        "sm__warps_active.avg.pct_of_peak_sustained_active"
    )
    assert counter("Occupancy", "Else") == "Occupancy: Else"
    assert counter("Command line profiler metrics", "dram__bytes.sum") == "dram__bytes.sum"


# -- reports

FAKE = """
import os
class Metric:
    def __init__(self, value, unit=""):
        self.what, self.spelled = value, unit
    def has_value(self): return self.what is not None
    def value(self): return self.what
    def unit(self): return self.spelled
class Action:
    NameBase_DEMANGLED, NameBase_FUNCTION, NameBase_MANGLED = range(3)
    WorkloadType_KERNEL = 0
    def __init__(self, number): self.number = number
    def workload_type(self): return int(self.number == 2)
    def name(self, base): return (f"k{self.number}(int)", f"k{self.number}", "_Z1ki")[base]
    def metric_names(self): return ("gpu__time_duration.sum", "breakdown:x", "lts__x.sum", "bad")
    def metric_by_name(self, name):
        if name == "bad": raise TypeError("argument 2 of type 'char const *'")
        return {"gpu": Metric(5.0, "us"), "bre": Metric("a,b"), "lts": Metric(None)}[name[:3]]
class Range:
    def num_actions(self): return 3
    def action_by_idx(self, number):
        if number == CRASHES: os._exit(9)
        return Action(number)
class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, number): return Range()
def load_report(path):
    if CRASHES < 0: raise RuntimeError("no report " + "x" * 5000)
    return Report()
"""


def varints(*numbers: int) -> bytes:
    """Fields 1, 2, ... of a message as numbers below 128; None would be absent."""
    return bytes(byte for n, value in enumerate(numbers, 1) for byte in (n << 3, value))


def block(results: int, payload: int = 0, pid: int = 9) -> bytes:
    """A block of a report: its length, its header, and bytes for its launches."""
    process = varints(pid)
    header = varints(0, results) + bytes((5 << 3, payload, 6 << 3 | 2, len(process))) + process
    return len(header).to_bytes(4, "little") + header + b"\0" * payload


def report(*blocks: bytes) -> bytes:
    return b"NVR\0" + (2).to_bytes(4, "little") + b"\x08\x07" + b"".join(blocks)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a report, which a made-up module reads: three launches, at one of which it crashes."""

    def make(content: bytes, crashes: int = 9) -> Path:
        folder = tmp_path / "module"
        folder.mkdir()
        (folder / "ncu_report.py").write_text(f"CRASHES = {crashes}\n{FAKE}")
        monkeypatch.syspath_prepend(folder)
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        (tmp_path / "a.ncu-rep").write_bytes(content)
        return tmp_path / "a.ncu-rep"

    return make


def test_launches_of_a_report_have_the_process_of_their_block(made: Any) -> None:
    """The third is a range of several kernels: a metric in no kernel. Names may be no text."""
    path = made(report(block(0), block(2, 20, pid=7), block(1, 10, pid=8)))
    with imported(path) as profile:
        found = kernels(profile, "pid", "dur_ns", "device_id")
        assert found == [("k0(int)", 7, None, 0), ("k1(int)", 7, None, 0)]
        assert metrics(profile) == {
            (kernel, DURATION): [once("number", 5000, "ns")]
            for kernel in ("k0(int)", "k1(int)", "")
        }
        seen = counts(profile)
        assert (seen["metrics-of-ranges"], seen["cell-unreadable"], seen["texts-left-out"]) == (
            1,
            3,
            6,
        )


def test_a_launch_at_which_the_module_crashes_is_lost_alone(made: Any) -> None:
    with imported(made(report(block(3, 30)), crashes=1)) as profile:
        assert [name for name, *_ in kernels(profile)] == ["k0(int)"]
        assert notes(profile)["launches-unread"] == [(Severity.DROPPED, 1, "")]


def test_what_the_module_does_not_open_is_refused_with_its_words(made: Any) -> None:
    what = refusal(made(report(block(3, 30)), crashes=-1)).what
    assert what.startswith("NVIDIA's ncu_report does not open it: no report xxx")
    assert len(what) < 300


def test_of_a_report_that_is_cut_only_whole_blocks_are_read(made: Any) -> None:
    """The module gives three launches, and the blocks of two are whole."""
    path = made(report(block(2, 20), block(1, 30))[:-1])
    with imported(path) as profile:
        assert [name for name, *_ in kernels(profile)] == ["k0(int)", "k1(int)"]
        # 10 bytes before the first block, which has 4 + 11 + 20.
        at = 10 + len(block(2, 20))
        assert notes(profile)["trace-truncated"] == [(Severity.DROPPED, 1, f"byte {at}")]


@pytest.mark.parametrize("length", few([7, 4, 20, 9, 12], 2))
def test_a_report_without_a_whole_launch_is_refused(made: Any, length: int) -> None:
    what = refusal(made(report(block(3, 30))[:length])).what
    assert what == f"the Nsight Compute report is cut off at byte {length}"


@pytest.mark.parametrize(
    "damage", [b"\xff\xff\xff\xff", b"\x02\0\0\0\xff\xff", b"\x02\0\0\0\x10\x7f"]
)
def test_bytes_that_are_not_a_block_are_refused(made: Any, damage: bytes) -> None:
    """A length of 4 GB, no message, 127 launches in no bytes; behind a sound block."""
    at = 10 + len(block(1, 30))
    what = refusal(made(report(block(1, 30), damage, block(1, 30)))).what
    assert what == f"the Nsight Compute report is damaged: no block begins at byte {at}"


def test_without_the_module_a_report_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(report(block(1, 30)))
    assert claimed_by(path) == ["ncu"]
    with pytest.raises(InputError, match=UNREAD) as caught:
        nsysconv.info(path)
    assert "pip install 'nsysconv[ncu]'" in caught.value.hint


@pytest.mark.parametrize("name", few(["a.nsys-rep", "a.csv", "a", "a.sqlite"], 2))
def test_a_report_is_one_whatever_its_name(name: str, made: Any, tmp_path: Path) -> None:
    path = made(report(block(3, 30))).rename(tmp_path / name)
    with imported(path) as profile:
        assert len(kernels(profile)) == 2


def test_the_module_is_not_loaded_by_the_program_itself() -> None:
    assert "ncu_report" not in sys.modules


# -- real files

REPORTS = sorted((REAL / "ncu_rep").glob("*.ncu-rep")) or [REAL / "missing"]
PAGE = REAL / "ncu_csv" / "brycelelbach+nsightful__copy_blocked.csv"
# The words of Nsight Compute's own rule, and ours (docs/definitions/kernels.md).
VERDICTS = {"Latency Issue": "latency", "Small Grid": "small grid", "High Throughput": "bandwidth",
            "High Memory Throughput": "bandwidth", "": "latency"}  # fmt: skip


def expected(path: Path) -> list[dict[str, str]]:
    """The rows of expected.tsv on a report: what NVIDIA's own reader says."""
    if not path.exists():
        pytest.skip("no reports are there")
    with path.with_name("expected.tsv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["file"] == path.name]


ATTRIBUTES = """
report = ncu_report.load_report(sys.argv[1])
action = report[0][0]
names = [n for n in action.metric_names() if n.startswith("device__attribute_")]
print(sum(isinstance(action[n].value(), (int, float)) for n in names if action[n].has_value()))
"""
LABELS = """
report = ncu_report.load_report(sys.argv[1])
for section in report[0][0].sections():
    for metric in section.header_metrics():
        print(section.name(), metric.label(), metric.name(), sep="\\t")
"""


def asked(code: str, path: Path) -> list[tuple[str, ...]]:
    """The cells of each line that NVIDIA's module prints of a report, in a process of its own."""
    command = [sys.executable, "-c", f"import sys, ncu_report\n{code}", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("\t")) for line in printed.splitlines()]


def attributes(path: Path) -> int:
    return int(asked(ATTRIBUTES, path)[0][0])


@real
def test_a_real_page() -> None:
    """72 rows of metrics: a text, two labels of one counter; 11 of advice."""
    if not PAGE.exists():
        pytest.skip("no page is there")
    with imported(PAGE) as profile:
        found = kernels(profile, "grid_x", "block_x", "registers_per_thread", "pid")
        assert [row[1:] for row in found] == [(1024, 256, 32, 6153)]
        assert counts(profile)["texts-left-out"] == 1 + 11
        rows = metrics(profile)
        assert rows[found[0][0], DURATION] == [once("number", 21_058_944, "ns")]
        assert sum(map(len, rows.values())) == 72 - 1 - 1
        assert {name.partition(":")[0] for _, name in rows if "__" not in name} == set()
        (device,) = small_rows(profile, "device")
        assert (device["compute_major"], device["compute_minor"]) == (7, 5)


@real
@MODULE
@pytest.mark.parametrize("path", REPORTS, ids=name_of)
def test_launches_of_real_reports(path: Path) -> None:
    """Every metric is a row, a column of the launch or of the GPU, or left out with a note."""
    wanted = expected(path)
    with imported(path) as profile:
        launches, rows = event_rows(profile, "kernel"), samples(profile)
        assert [row["short_name"] for row in launches] == [row["kernel"] for row in wanted]
        for row, launch in zip(wanted, launches, strict=True):
            own = {
                sample["name"]: sample["value_avg"]
                for sample in rows
                if sample["kernel_name"] == launch["name"]
            }
            assert own[DURATION] == int(row["duration_ns"])
            assert launch["registers_per_thread"] == int(row["registers"])
            sizes = [launch["grid_x"] * launch["grid_y"] * launch["grid_z"],
                     launch["block_x"] * launch["block_y"] * launch["block_z"]]  # fmt: skip
            assert sizes == [int(row["grid"]), int(row["block"])]
            for metric, column in (
                (SM, "sm_pct"), (MEMORY, "memory_pct"),
                ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram_pct"),
                ("sm__warps_active.avg.pct_of_peak_sustained_active", "warps_active_pct"),
                ("sm__maximum_warps_per_active_cycle_pct", "warps_theoretical_pct"),
                ("launch__occupancy_limit_registers", "limit_registers"),
                ("launch__occupancy_limit_blocks", "limit_blocks"),
                ("launch__occupancy_limit_shared_mem", "limit_shared"),
                ("launch__occupancy_limit_warps", "limit_warps"),
                ("launch__waves_per_multiprocessor", "waves"),
            ):  # fmt: skip
                assert own[metric] == pytest.approx(float(row[column]), abs=1e-6), metric
        # 9 of each launch are its sizes and where it ran.
        left_out = counts(profile)["texts-left-out"]
        found = len(rows) + left_out + (9 + attributes(path)) * len(wanted)
        assert found == sum(int(row["metrics"]) for row in wanted)
        assert {row["name"] for row in small_rows(profile, "device")} == {
            row["device"] for row in wanted
        }
        assert {"trace-truncated", "launches-unread", "cell-unreadable"}.isdisjoint(counts(profile))


@real
@MODULE
def test_no_path_and_no_host_of_a_real_report_is_copied(tmp_path: Path) -> None:
    (path,) = (path for path in REPORTS if path.name.startswith("josiahls"))
    secrets = [b"mojo_user", b"127.0.0.1", b"22.04.1-Ubuntu"]
    (tmp_path / "a.ncu-rep").write_bytes(path.read_bytes())
    import_file(tmp_path / "a.ncu-rep", tmp_path / "store.db")
    content = (tmp_path / "store.db").read_bytes()
    assert [path.read_bytes().count(secret) > 0 for secret in secrets] == [True, True, True]
    assert [content.count(secret) for secret in secrets] == [0, 0, 0]


@real
@MODULE
@pytest.mark.parametrize("path", REPORTS, ids=name_of)
def test_verdicts_and_occupancy_are_those_of_nsight_compute(path: Path) -> None:
    wanted = expected(path)
    (answer,) = nsysconv.report_on(path, "kernel_limits")
    rows = sorted(answer.rows(), key=lambda row: row["kernel_sum_ns"])
    for row, own in zip(rows, sorted(wanted, key=lambda r: int(r["duration_ns"])), strict=True):
        assert row["limit"] == VERDICTS[own["sol_rule_title"]]
        assert row["compute_pct"] == pytest.approx(float(own["sm_pct"]), abs=1e-6)
        assert row["memory_pct"] == pytest.approx(float(own["memory_pct"]), abs=1e-6)
        assert row["occupancy_pct"] == pytest.approx(float(own["warps_theoretical_pct"]))
        least = {
            name: int(own[column])
            for name, column in (("registers", "limit_registers"), ("shared memory", "limit_shared"),
                                 ("warps", "limit_warps"), ("blocks", "limit_blocks"))
        }  # fmt: skip
        limits = {name for name, blocks in least.items() if blocks == min(least.values())}
        # Once the driver gave SMs less shared memory than they have, which no table of ours holds.
        found = set(row["occupancy_limit"].split(", "))
        assert found == limits or limits - found == {"shared memory"}


@real
@MODULE
def test_a_real_report_that_is_cut(tmp_path: Path) -> None:
    """Its last three launches end at bytes 64215, 82071 and 99927."""
    (path,) = (path for path in REPORTS if path.name.startswith("josiahls"))
    content = path.read_bytes()
    for length, launches in ((64_214, 1), (82_071, 3), (99_926, 3)):
        cut = tmp_path / f"{length}.ncu-rep"
        cut.write_bytes(content[:length])
        folder = tmp_path / str(length)
        folder.mkdir()
        with imported(cut) as profile:
            assert len(kernels(profile)) == launches
            assert ("trace-truncated" in counts(profile)) == (length != 82_071)


@real
@MODULE
def test_labels_are_those_of_the_reports() -> None:
    """Of each section's header, as the module gives them; links between GPUs are left out."""
    found = {label for path in REPORTS for label in asked(LABELS, path)}
    assert len(found) > 80
    for section, label, name in found:
        assert counter(section, label) == name or section == "NVLink"
