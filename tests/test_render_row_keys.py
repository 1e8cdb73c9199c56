"""Keys of rows in JSON: unique, and the same in another recording of the program."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import few
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from nasty import NAMES, all_reports
from one_answer import EXAMPLES
from small_store import (
    Call,
    Event,
    Fault,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Range,
    write,
)
from test_docs import text_of
from test_render import rendered

from nsysconv import api
from nsysconv.document import Section
from nsysconv.queries import REPORTS, query
from nsysconv.render import Options, renderer, row_keys
from nsysconv.report import Column, Unit, build_table, report_table

# What two recordings of a program have in common, so far as the program does the same.
STAYS = {
    "rank", "device_id", "peer_device_id", "ordinal", "device", "stream", "stream_id",
    "name", "rule", "kind", "layer", "activity", "path", "range", "style", "category", "operation", "api",
    "direction", "src_kind", "dst_kind", "bucket_min_bytes", "bucket_min_ns", "bin",
    "step", "occurrence", "phase", "group", "index", "repeat", "over_ranks", "metric", "kernel", "unit",
    "group_size", "dtype", "bytes",
    "grid", "block", "source", "source_file", "source_line",
    "operator", "shapes", "stack", "module", "registers_per_thread", "shared_bytes", "memory",
    "operators", "kernels", "types", "row", "function", "library", "file", "line", "oom",
    "graph", "captured_in", "instance", "time_class",
}  # fmt: skip
CHANGES = {
    "profile", "pid", "tid", "start_ns", "dur_ns", "api_start_ns",
    "memcpy_id", "memset_id", "call_id", "address", "instruction",
}  # fmt: skip


def keys_of(columns: Iterable[Column], *rows: tuple[Any, ...]) -> list[str]:
    return list(map(row_keys.row_keys(tuple(columns)), rows))


def keys_in(report: dict[str, Any]) -> list[str]:
    return [row["key"] for row in report["rows"] or ()]


def document_of(*reports: Section) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(rendered("json", *reports))["reports"]
    return found


def key(name: str, unit: Unit = Unit.TEXT) -> Column:
    return Column(name, unit, "", key=True)


# -- which columns


def test_every_key_column_was_decided_about() -> None:
    """A new one belongs to one of the two: see docs/json.md, and `_OF_A_RECORDING`."""
    names = {c.name: c for report in REPORTS for c in query(report).every_column if c.key}
    assert names.keys() == STAYS | CHANGES
    assert {name for name, column in names.items() if row_keys.is_of_key(column)} == STAYS


def test_no_report_has_a_column_that_is_called_as_the_key() -> None:
    for report in REPORTS:
        assert "key" not in {column.name for column in query(report).every_column}


# -- two recordings of one program

FUNCTION = "<built-in method run of type object at 0x{:x}>"


def recording(pids: tuple[int, int], start: int, memory: int) -> list[Event]:
    """Two processes with a GPU each, and a third kernel; times count from `start`."""
    one, two = ({"pid": pid, "tid": 10 * pid} for pid in pids)

    def launch(begin: int, correlation: int, who: dict[str, int], name: str) -> Call:
        return Call(start + begin, start + begin + 5, correlation, name=name, **who)

    return [
        Range(start, start + 500, "ProfilerStep#1", **one),
        Range(start + 600, start + 1000, "ProfilerStep#2", **one),
        launch(90, 1, one, "cudaLaunchKernel"),
        Kernel(start + 100, start + 200, 1, name="saxpy(int, float*)", pid=pids[0]),
        launch(205, 2, one, "cudaMemcpyAsync"),
        Memcpy(start + 210, start + 260, 2, pid=pids[0], bytes=5000),
        launch(265, 3, one, "cudaMemcpyAsync"),
        Memcpy(start + 270, start + 280, 3, pid=pids[0], bytes=20_000),
        Operator(
            start + 282, start + 299, FUNCTION.format(memory), kind="python_function", **one
        ),
        launch(292, 4, one, "cudaLaunchKernel"),
        Kernel(start + 300, start + 340, 4, name="gemm", pid=pids[0]),
        launch(390, 5, two, "cudaLaunchKernel"),
        Kernel(start + 400, start + 410, 5, 9, name="saxpy(int, float*)", pid=pids[1], device=1),
        launch(415, 6, two, "cudaMemset"),
        Memset(start + 420, start + 425, 6, 9, pid=pids[1], device=1),
        Migration(start + 430, start + 440, address=memory, pid=pids[0]),
        Fault(start + 428, start + 429, memory, instruction=f"0x{memory + 64:x}", pid=pids[0]),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], ...]:
    """By report, of both recordings; rows of the second, in the same store, have other ids."""
    path = tmp_path_factory.mktemp("keys") / "runs.db"
    write(path, *recording((4711, 4712), 1000, 0x7F1F0F2C0EC0), ranks={4711: 0, 4712: 1})
    write(path, *recording((88, 97), 5_000_321, 0x55D0C0A81230), ranks={88: 0, 97: 1}, label="again")
    return tuple(
        {
            report["report"]: keys_in(report)
            for report in document_of(*api.report_on(f"{path}@{label}", REPORTS, limit=0))
        }
        for label in ("small", "again")
    )


def test_both_recordings_have_the_same_keys(keys: tuple[dict[str, list[str]], ...]) -> None:
    first, second = keys
    assert first == second
    assert sum(map(bool, first.values())) > 30


def test_keys_are_what_identifies_a_row_for_people(keys: tuple[dict[str, list[str]], ...]) -> None:
    found = keys[0]
    # By time over both devices: 100 ns and 10 ns, 40 ns.
    assert found["kernels"] == ["name=saxpy(int, float*)", "name=gemm"]
    assert found["overview"] == ["rank=0 | device_id=0", "rank=1 | device_id=1"]
    assert found["processes"] == ["rank=0", "rank=1"]
    # 5,000 bytes are in the bucket from 1,000 on, 20,000 in that from 10,000 on. The migration has 1,000.
    assert found["transfer_sizes"] == [
        "direction=HtoD | bucket_min=1 kB",
        "direction=HtoD | bucket_min=10 kB",
        "direction=UM HtoD | bucket_min=1 kB",
    ]
    assert found["steps"][:2] == [
        "rank=0 | step=ProfilerStep#1 | occurrence=1",
        "rank=0 | step=ProfilerStep#2 | occurrence=1",
    ]
    assert found["cuda_api_sum"] == [
        "name=cudaLaunchKernel", "name=cudaMemcpyAsync", "name=cudaMemset"]  # fmt: skip


def test_rows_of_one_key_are_numbered(keys: tuple[dict[str, list[str]], ...]) -> None:
    found = keys[0]
    # Copies are known by their ids, which a store gives.
    assert found["cuda_memcpy_async"] == ["rank=0 | device_id=0", "rank=0 | device_id=0 #2"]
    on_gpu = [each for each in found["timeline_events"] if "kind=kernel" in each]
    assert on_gpu == [
        "rank=0 | device_id=0 | stream_id=7 | kind=kernel",
        "rank=0 | device_id=0 | stream_id=7 | kind=kernel #2",
        "rank=1 | device_id=1 | stream_id=9 | kind=kernel",
    ]


def test_addresses_are_in_no_key(keys: tuple[dict[str, list[str]], ...]) -> None:
    found = keys[0]
    assert found["um_sum"] == ["#1"]
    assert found["um_cpu_page_faults_sum"] == ["#1"]
    functions = [each for each in found["idle_host"] if "python_function" in each]
    assert functions == [
        "activity=python_function"
        " | name=<built-in method run of type object at 0x…>"
    ]


def test_a_process_of_a_stream_is_in_no_key(tmp_path: Path) -> None:
    rows = [Kernel(10, 20, stream=7, pid=100), Kernel(30, 40, stream=7, pid=200),
            Kernel(50, 60, stream=8, pid=200)]  # fmt: skip
    write(tmp_path / "a.db", *rows, *(Call(1, 2, pid=pid, tid=pid) for pid in (100, 200)))
    reports = api.report_on(tmp_path / "a.db", ["idle_gaps"], idle="stream", limit=0)
    (report,) = document_of(*reports)
    assert {row["stream"] for row in report["rows"]} == {"7@100", "7@200", "8@200"}
    assert {each.split(" #")[0] for each in keys_in(report)} == {
        "device_id=0 | kind=stream | stream=7", "device_id=0 | kind=stream | stream=8"}  # fmt: skip


@pytest.mark.parametrize("path", few(EXAMPLES, 2), ids=lambda path: path.name)
def test_keys_of_a_report_are_unique(path: Path) -> None:
    for report in document_of(*api.report_on(path, REPORTS, limit=0)):
        found = keys_in(report)
        assert len(set(found)) == len(found), report["report"]


@pytest.mark.parametrize("report", all_reports(), ids=lambda report: report.name)
def test_keys_of_nasty_names_are_unique(report: Section) -> None:
    (found,) = document_of(report)
    assert len(set(keys_in(found))) == len(found["rows"] or ())
    assert not any("profile=" in each for each in keys_in(found))


# -- values


def test_columns_without_a_value_are_left_out() -> None:
    columns = key("rank", Unit.ID), key("src_kind"), key("dst_kind")
    assert keys_of(columns, (None, "Device", None), (None, None, "Device"), (3, "", None)) == [
        "src_kind=Device", "dst_kind=Device", "rank=3 | src_kind="]  # fmt: skip


def test_rows_without_any_value_are_numbered() -> None:
    rank, count = key("rank", Unit.ID), Column("call_count", Unit.COUNT, "")
    assert keys_of([rank, count], (None, 1), (0, 2), (None, 3)) == ["#1", "rank=0", "#2"]
    assert keys_of([count], (1,), (1,), (2,)) == ["#1", "#2", "#3"]
    assert keys_of([], (), ()) == ["#1", "#2"]


def test_quantities_are_exact_and_have_their_unit() -> None:
    columns = key("bucket_min_ns", Unit.NS), key("bucket_min_bytes", Unit.BYTES)
    assert keys_of(columns, (1_500_000_001, 0), (10_000, 1_048_576), (0, 999)) == [
        "bucket_min=1.500000001 s | bucket_min=0 B",
        "bucket_min=10 µs | bucket_min=1.048576 MB",
        "bucket_min=0 ns | bucket_min=999 B",
    ]


def test_a_separator_in_a_name_is_doubled() -> None:
    columns = key("path"), key("name")
    assert keys_of(columns, ("a | b", "c"), ("a", "b | name=c"), ("x |", "| y || z"), ("a|b", "|")) == [
        "path=a || b | name=c",
        "path=a | name=b || name=c",
        "path=x || | name=| y ||| z",
        "path=a|b | name=|",
    ]


SIMILAR = st.text(st.sampled_from("a| =#12\\"), max_size=8)


def read_back(text: str) -> dict[str, str]:
    """The values of a key, by name."""
    text = re.sub(r" ?#[0-9]+$", "", text) if re.search(r"(^| )#[0-9]+$", text) else text
    parts = [part.partition("=") for part in text.split(" | ")] if text else []
    return {name: re.sub(r"(?<= )\|(\|+)(?= |$)", r"\1", value) for name, _, value in parts}


@given(st.lists(st.tuples(st.none() | SIMILAR, st.none() | SIMILAR), unique=True, max_size=12))
def test_values_can_be_read_from_a_key(rows: list[tuple[str | None, str | None]]) -> None:
    found = keys_of([key("a"), key("aa")], *rows)
    assert [read_back(text) for text in found] == [
        {name: cell for name, cell in zip(("a", "aa"), row, strict=True) if cell is not None}
        for row in rows
    ]


@given(st.lists(st.tuples(st.none() | SIMILAR, st.none() | SIMILAR), max_size=12))
def test_keys_are_unique_whatever_the_values_are(rows: list[tuple[str | None, str | None]]) -> None:
    found = keys_of([key("a"), key("aa")], *rows)
    assert len(set(found)) == len(rows)


def test_a_name_that_ends_in_a_number_is_not_taken_for_a_second_row() -> None:
    names = "step", "step #2", "step", "step #2", "step #2 #1", "step #x"
    assert keys_of([key("name")], *((name,) for name in names)) == [
        "name=step",
        "name=step #2 #1",
        "name=step #2",
        "name=step #2 #2",
        "name=step #2 #1 #1",
        "name=step #x",
    ]


def test_keys_steer_no_terminal() -> None:
    for text in keys_of([key("name")], *((name,) for name in NAMES)):
        assert text.isprintable()


def test_texts_of_one_hash_have_different_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_keys, "hash", lambda text: 1, raising=False)
    assert keys_of([key("name")], ("a",), ("b",), ("a",)) == ["name=a", "name=b #2", "name=a #3"]


# -- in the document


def test_a_selected_column_called_key_keeps_its_name(tmp_path: Path) -> None:
    write(tmp_path / "a.db", Kernel(10, 20))
    query = "SELECT 'gemm' AS key, 7 AS row_key UNION ALL SELECT 'gemm', 8"
    outcome = run("sql", "a.db", query, "-f", "json", cwd=tmp_path)
    (report,) = json.loads(outcome.out)["reports"]
    assert report["rows"] == [
        {"row_row_key": "#1", "key": "gemm", "row_key": 7},
        {"row_row_key": "#2", "key": "gemm", "row_key": 8},
    ]


def test_info_has_the_attribute_and_the_fact_as_keys(tmp_path: Path) -> None:
    write(tmp_path / "a.db", Kernel(10, 20), label="one")
    outcome = run("info", "a.db", "-f", "json", cwd=tmp_path)
    profile, facts = json.loads(outcome.out)["reports"]
    assert keys_in(profile)[0] == "attribute=source"
    assert "fact=kernel events" in keys_in(facts)
    (runs,) = json.loads(run("runs", "a.db", "-f", "json", cwd=tmp_path).out)["reports"]
    assert keys_in(runs) == ["label=one"]
    (listed,) = json.loads(run("report", "--list", "-f", "json", cwd=tmp_path).out)["reports"]
    assert keys_in(listed)[0] == "report=summary"


def test_rows_over_many_ranks_say_which_of_the_three_they_are(tmp_path: Path) -> None:
    for rank in range(9):
        rows = Kernel(10, 20 + rank, name="gemm"), Call(1, 2)
        write(tmp_path / "a.db", *rows, ranks={1: rank}, label=f"r{rank}", run="job", host="n1")
    of_all, of_hosts = (
        document_of(*api.report_on(tmp_path / "a.db", ["kernel_categories"], by=by))
        for by in (None, "host")
    )
    three = ("min", "median", "max")
    assert keys_in(of_all[0]) == [f"category=gemm | over_ranks={each}" for each in three]
    assert keys_in(of_hosts[0]) == [f"host=n1 | category=gemm | over_ranks={each}" for each in three]


def test_a_second_profile_has_the_keys_of_the_first_and_a_number(tmp_path: Path) -> None:
    for label in ("first", "second"):
        write(tmp_path / "a.db", Kernel(10, 20, name="gemm"), label=label, run="job")
    (report,) = document_of(*api.report_on(tmp_path / "a.db", ["kernels"]))
    assert [row["profile"] for row in report["rows"]] == ["first", "second"]
    assert keys_in(report) == ["name=gemm", "name=gemm #2"]


def test_diff_has_the_keys_by_which_it_matched(tmp_path: Path) -> None:
    for label, pid, end in (("a", 1, 100), ("b", 77, 150)):
        rows = Kernel(0, end, name="gemm", pid=pid), Kernel(200, 210, name="copy", pid=pid)
        write(tmp_path / f"{label}.db", *rows)
    names = "account", "contributors", "kernels"
    limit = "kernels.kernel_sum_ns:90%"
    outcome = run("diff", "a.db", "b.db", *names, "-f", "json", "--fail-on", limit, cwd=tmp_path)
    document = json.loads(outcome.out)
    limits, account, contributors, kernels = document["reports"]
    assert keys_in(limits) == [f"limit={limit}"]
    # gemm took 50 ns more, and of the window of 210 ns so much less was idle.
    assert keys_in(account)[:3] == [
        "device_id=0 | part=window",
        "device_id=0 | part=kernels: time per launch",
        "device_id=0 | part=idle, cause not recorded",
    ]
    assert keys_in(contributors)[0] == "kind=kernel | name=gemm"
    assert keys_in(kernels) == ["name=gemm"]
    assert "key" not in document["answer"]


def test_the_documented_comparison_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for label, pid, end in (("before", 1, 100), ("after", 77, 150)):
        write(tmp_path / f"{label}.db", Kernel(0, end, name="gemm", pid=pid))
        run("report", f"{label}.db", "kernels", "-o", f"{label}.json", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"^```python\n(.*?)^```$", text_of("json.md"), re.M | re.S)
    exec(script, {})
    assert capsys.readouterr().out == "name=gemm 50\n"


# -- at length

MANY = 40_000


class Nowhere(io.TextIOBase):
    """Takes what is written and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.slow
def test_a_listing_of_events_is_written_without_its_keys_in_memory() -> None:
    columns = key("device_id", Unit.ID), key("kind"), key("start_ns", Unit.NS)
    data = {"device_id": [i % 8 for i in range(MANY)], "kind": ["kernel"] * MANY,
            "start_ns": range(MANY)}  # fmt: skip
    report = Section("events", "Events", columns, report_table(columns, data), row_count=MANY)
    tracemalloc.start()
    try:
        renderer("json")([report], Nowhere(), Options())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 8 different keys. Some thousand rows are objects at once, and the places of texts are counted.
    assert peak < 4_000_000


def test_each_different_key_costs_a_number() -> None:
    columns = (key("name"),)
    key_of = row_keys.row_keys(columns)
    rows = [(f"a rather long name of a kernel, number {i:060}",) for i in range(MANY)]
    for row in rows[:10_000]:
        key_of(row)
    tracemalloc.start()
    try:
        assert [key_of(row) for row in rows[-1:]] == [f"name={rows[-1][0]}"]
        for row in rows[10_000:-1]:
            key_of(row)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # The texts themselves are 105 characters each, 150 bytes of memory.
    assert kept / (MANY - 10_000) < 140


def test_a_document_without_rows_has_no_keys() -> None:
    columns = (key("name"),)
    (found,) = document_of(Section("empty", "", columns, build_table(columns, {"name": []})))
    assert found["rows"] == []
