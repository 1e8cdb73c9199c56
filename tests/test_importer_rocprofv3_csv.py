"""rocprofv3's tables: a workload as they print it beside rocpd, real files, damage and odd cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FIXTURES, REAL, event_rows, few, real
from golden_cases import run
from importing import counts as notes
from scenarios import WORKLOADS
from write_rocpd import BOOT_NS
from write_rocprofv3_csv import AGES, write_folder

import nsysconv
from nsysconv import api
from nsysconv.api.inputs import find_inputs
from nsysconv.errors import NoProfileError, NotRecorded
from nsysconv.facts import Fact
from nsysconv.importers import rocprofv3_csv
from nsysconv.importers.probe import Probe
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "rocprofv3_csv"
ROCPD = FIXTURES / "rocpd" / "basic-3.db"
BASIC = WORKLOADS["basic"]
(PROCESS,) = BASIC.processes
KERNELS = f"{PROCESS.pid}_kernel_trace.csv"
CALLS = f"{PROCESS.pid}_hip_api_trace.csv"

# What both record of rows, but for streams, of which the oldest tables have queues.
COLUMNS = {
    "kernel": (
        *("start_ns", "dur_ns", "pid", "device_id", "correlation_id", "name"),
        *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    ),
    "memcpy": ("start_ns", "dur_ns", "pid", "device_id", "correlation_id", "direction", "dst_kind"),
    "api_call": ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "layer", "name"),
    "range": ("start_ns", "dur_ns", "pid", "tid", "name"),
}


CUT = {
    "events that no core report needs": "Kind,Operation,Agent_Id,Allocation_Size,Address,"
    "Start_Timestamp,End_Timestamp\nA,MEMORY_ALLOCATION_ALLOCATE,Agent 0,8,0x1,5,6\nA,MEMORY_AL",
    "totals of domains": '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs",'
    '"MaxNs","StdDev"\n"HIP_API",2,30,15.0,100.0,10,20,5.0\n"KERNEL_DISPA',
    "kernels": "Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp\nK,1,k,5,9\nK,1,k,1",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "job", BASIC, PROCESS)
    return tmp_path / "job"


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def placed(profile: Profile, table: str, columns: tuple[str, ...]) -> list[str]:
    """Rows, with times since the first range: the zeros of both differ."""
    first = min(row["start_ns"] for row in event_rows(profile, "range"))
    rows = [{**row, "start_ns": row["start_ns"] - first} for row in event_rows(profile, table)]
    return sorted(repr([row[name] or None for name in columns]) for row in rows)


@pytest.mark.parametrize("age", AGES)
def test_rows_of_a_folder_are_those_of_the_database(age: str) -> None:
    with api.open(FOLDER / f"basic-{age}") as tables, api.open(ROCPD) as database:
        for table, columns in COLUMNS.items():
            assert placed(tables.profile, table, columns) == placed(database.profile, table, columns)
        assert database.profile.facts - tables.profile.facts == {Fact.RANKS}


def test_sizes_of_copies_are_not_recorded(folder: Path) -> None:
    with api.open(folder) as opened:
        assert {row["bytes"] for row in event_rows(opened.profile, "memcpy")} == {None}
        assert {row["bytes_sum"] for row in opened.report("transfers").rows()} == {None}


def test_a_table_alone_holds_what_it_has(folder: Path) -> None:
    with api.open(folder / KERNELS) as opened:
        assert opened.profile.facts == {Fact.KERNELS}
        with pytest.raises(NotRecorded, match="API calls"):
            opened.report("api_vs_kernel")
    with pytest.raises(NoProfileError, match="list of agents, without any event"):
        api.open(folder / f"{PROCESS.pid}_agent_info.csv")


def test_copies_without_kernels_are_answered(folder: Path) -> None:
    """Of 16 us; when the GPU was idle is not known without kernels."""
    copies = f"{PROCESS.pid}_memory_copy_trace.csv"
    lines = run(copies, cwd=folder).out.splitlines()
    assert lines[0] == f"{copies} has memory copies, and no kernels are recorded: idle time is unknown."
    assert [line.split() for line in lines[3:5]] == [
        ["8.00", "\N{MICRO SIGN}s", "50.0", "%", "DtoH"],
        ["4.00", "\N{MICRO SIGN}s", "25.0", "%", "HtoD"],
    ]
    for path in folder.glob("*_kernel_trace.csv"):
        path.unlink()
    both = run(".", cwd=folder).out
    assert "copies:" in both
    assert "ranges, own time:" in both
    assert len(both.splitlines()) <= 25


@pytest.mark.parametrize("name", CUT)
def test_a_cut_table_is_said_where_nothing_else_is(name: str, tmp_path: Path) -> None:
    """Before the answer, also where the table gives none."""
    path = tmp_path / "a.csv"
    path.write_text(CUT[name], encoding="utf-8")
    assert "! dropped: the file ends in the middle of a row" in run("a.csv", cwd=tmp_path).out


def test_several_processes_and_names_without_a_process(tmp_path: Path) -> None:
    two = WORKLOADS["two_processes_two_gpus"]
    for process in two.processes:
        write_folder(tmp_path / "job", two, process)
    result = api.import_files(tmp_path / "job", tmp_path / "a.db")
    labels = {each.label for file in result.files for each in file.imported}
    assert labels == {str(process.pid) for process in two.processes}
    for path in (tmp_path / "job").glob(f"{two.processes[1].pid}_*"):
        path.unlink()
    for path in sorted((tmp_path / "job").iterdir()):
        path.rename(path.with_name(path.name.partition("_")[2]))
    (found,) = find_inputs([tmp_path / "job"]).read
    assert len(found.paths) == 5


def test_a_database_beside_them_is_read_instead(folder: Path) -> None:
    whole = folder / f"{PROCESS.pid}_results.db"
    whole.write_bytes(ROCPD.read_bytes())
    (found,) = find_inputs([folder]).read
    assert found.paths == (whole,)


def test_a_copy_of_a_table_counts_once(folder: Path) -> None:
    """Also where both names are those of a table of the same process."""
    for name in (f"{PROCESS.pid}_hip_trace.csv", "saved.csv"):
        (folder / name).write_bytes((folder / CALLS).read_bytes())
    found = find_inputs([folder])
    (job,) = found.read
    assert len(job.paths) == 5
    assert {file.path.name: file.reason.split()[:2] for file in found.passed} == {
        name: ["the", "same"]
        for name in {"saved.csv", CALLS, f"{PROCESS.pid}_hip_trace.csv"}
        if name not in {path.name for path in job.paths}
    }
    with api.open(folder) as opened:
        assert opened.profile.row_count("api_call") == len(BASIC.events.calls)


# -- real files

SUMS = {
    "jimw567+rocprof-unified-viewer__decode_kernel_trace": ("kernel", 144, 1_857_381),
    "jimw567+rocprof-unified-viewer__prefill_hip_api_trace": ("api_call", 5, 1_411_305),
    "ROCm+rocm-systems__kernel_trace": ("kernel", 9, 96_160),
    "ROCm+rocm-systems__memory_copy_trace": ("memcpy", 4, 329_162),
    "ROCm+rocm-systems__marker_api_trace": ("range", 5, 4_962_639),
    "ROCm+rocm-systems__hip_trace": ("api_call", 17, 476_345_901),
    "ROCm+rocm-systems__hsa_api_trace": ("api_call", 10, 13_473),
    "ROCm+rocm-systems__rocpd-to-csv": ("api_call", 13, 173_915_064),
    "ROCm+rocm-systems__counter_collection": ("kernel", 4, 196_900),
    "ROCm+rocprofiler-sdk__2024-07_kernel_trace": ("kernel", 1, 66_760),
    "ROCm+rocprofiler-sdk__2024-08_kernel_trace": ("kernel", 7, 795_453),
    "ROCm+rocprofiler-sdk__2024-07_memory_copy_trace": ("memcpy", 2, 1_145_680),
    "ROCm+rocprofiler-sdk__2024-10_memory_copy_trace": ("memcpy", 2, 1_145_680),
}


@real
@pytest.mark.parametrize("name", few(SUMS, 6))
def test_counts_and_sums_of_real_files(name: str) -> None:
    table, count, total = SUMS[name]
    with api.open(REAL / "rocprofv3_csv" / f"{name}.csv") as opened:
        rows = event_rows(opened.profile, table)
        assert (len(rows), sum(row["dur_ns"] or 0 for row in rows)) == (count, total)


@real
def test_totals_counters_and_collectives_of_real_files() -> None:
    def path(name: str) -> Path:
        return REAL / "rocprofv3_csv" / f"{name}.csv"

    with api.open(path("ROCm+rocm-systems__hip_api_stats")) as opened:
        rows = opened.profile.rows("aggregate")
        assert sum(row["count"] for row in rows) == 155
        assert sum(row["sum_ns"] for row in rows) == 308_269_675
        assert opened.profile.facts == {Fact.API_TOTALS}
    name = "jimw567+rocprof-unified-viewer__decode_fetch_counter_collection"
    with api.open(path(name)) as opened:
        rows = opened.report("metrics").rows()
        assert {row["metric"] for row in rows} == {"FETCH_SIZE"}
        total = sum(row["value_avg"] * row["sample_count"] for row in rows)
        assert total == pytest.approx(42_346.687_5)
        assert opened.profile.row_count("kernel") == 34
    with api.open(path("ROCm+rocm-systems__rccl_trace")) as opened:
        counts = [opened.profile.row_count(table) for table in ("collective", "operator")]
        assert sum(counts) == 21
    with pytest.raises(NoProfileError, match="samples of rocprofv3"):
        api.open(path("ROCm+rocm-systems__pc_sampling_host_trap"))


# -- odd and damaged tables


def test_hsa_calls_are_read_on_request(folder: Path) -> None:
    header = (folder / CALLS).read_text(encoding="utf-8").partition("\n")[0]
    row = f'"HSA_CORE_API","hsa_init",4242,4242,9,{BOOT_NS},{BOOT_NS + 10}'
    (folder / "4242_hsa_api_trace.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    with api.open(folder) as opened, api.open(folder, include="hsa_calls") as whole:
        assert notes(opened.profile)["hsa-calls-left-out"] == 1
        assert whole.profile.row_count("api_call") == opened.profile.row_count("api_call") + 1
    with api.open(folder / "4242_hsa_api_trace.csv") as alone:
        assert [row["layer"] for row in event_rows(alone.profile, "api_call")] == ["driver"]


def test_agents_by_their_place_among_gpus(folder: Path) -> None:
    text = (folder / KERNELS).read_text(encoding="utf-8")
    (folder / KERNELS).write_text(text.replace('"Agent 2"', '"GPU 0"'), encoding="utf-8")
    with api.open(folder) as opened:
        assert {row["device_id"] for row in event_rows(opened.profile, "kernel")} == {2}


def test_memory_that_is_given_back_has_its_size(folder: Path) -> None:
    (folder / "4242_memory_allocation_trace.csv").write_text(
        '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp",'
        '"End_Timestamp"\n'
        f'"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 2",4096,"0x77",1,{BOOT_NS},{BOOT_NS}\n'
        f'"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,"0x77",2,{BOOT_NS + 9},{BOOT_NS + 9}\n'
        f'"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,"0x88",3,{BOOT_NS + 9},{BOOT_NS + 9}\n',
        encoding="utf-8",
    )
    with api.open(folder) as opened:
        rows = event_rows(opened.profile, "memory_event")
        assert [(row["device_id"], row["bytes"]) for row in rows] == [
            (2, 4096), (2, -4096), (None, None)]  # fmt: skip
        assert notes(opened.profile)["free-unmatched"] == 1


def test_totals_do_not_count_what_is_there_as_events(folder: Path) -> None:
    (folder / "4242_kernel_stats.csv").write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        '"saxpy(float)",2,30,15.000000,100.00,10,20,7.071068\n',
        encoding="utf-8",
    )
    with api.open(folder) as opened:
        assert not opened.profile.rows("aggregate")
    with api.open(folder / "4242_kernel_stats.csv") as opened:
        (row,) = opened.report("kernels").rows()
        assert (row["name"], row["kernel_count"], row["kernel_sum_ns"]) == ("saxpy(float)", 2, 30)
        (total,) = opened.profile.rows("aggregate")
        assert (total["min_ns"], total["max_ns"], total["stddev_ns"]) == (10, 20, 7.071068)


def test_counters_of_a_dispatch_are_one_kernel(tmp_path: Path) -> None:
    path = tmp_path / "counter_collection.csv"
    path.write_text(
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",'
        '"Kernel_Id","Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp",'
        '"End_Timestamp"\n'
        + "".join(
            f'{i},{i},"Agent 2",1,10,10,64,1,"a(int, int)",64,"{name}",{value},{i * 100},{i * 100 + 7}\n'
            for i, name, value in ((1, "WAVES", 3.0), (1, "FETCH", 1.5), (2, "WAVES", 5.0))
        ),
        encoding="utf-8",
    )
    with api.open(path) as opened:
        assert [row["dur_ns"] for row in event_rows(opened.profile, "kernel")] == [7, 7]
        rows = {row["metric"]: row for row in opened.report("metrics").rows()}
        assert (rows["WAVES"]["value_avg"], rows["WAVES"]["sample_count"]) == (4, 2)
        assert (rows["FETCH"]["value_avg"], rows["FETCH"]["sample_count"]) == (1.5, 1)


DAMAGE = {
    "a row that is cut off": (f"{BOOT_NS + 33_000}", "\n", "line-unreadable", 2),
    "a time that is none": (f"{BOOT_NS + 33_000}", "soon", "wrong-type", 1),
    "an end before the start": (f"{BOOT_NS + 43_000}", f"{BOOT_NS}", "negative-duration", 1),
    "a time of another age": (f"{BOOT_NS + 43_000}", f"{1 << 60}", "impossible-time", 1),
    "an agent that is none": ('"Agent 2"', '"the GPU"', "wrong-type", 1),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_rows_that_cannot_be_are_counted(folder: Path, case: str) -> None:
    old, new, slug, count = DAMAGE[case]
    replaced(folder / KERNELS, old, new)
    with api.open(folder) as opened:
        assert notes(opened.profile).get(slug) == count
        assert opened.profile.row_count("kernel") == 8


@pytest.mark.parametrize(("length", "encoding", "kernels", "cut"), [
    (-30, "utf-8", 8, 1), (None, "utf-16", 9, 0), (None, "utf-8-sig", 9, 0),
])  # fmt: skip
def test_a_table_that_is_cut_or_in_an_encoding_of_windows(
    folder: Path, length: int | None, encoding: str, kernels: int, cut: int
) -> None:
    text = (folder / KERNELS).read_text(encoding="utf-8")
    (folder / KERNELS).write_text(text[:length], encoding=encoding)
    with api.open(folder) as opened:
        assert notes(opened.profile).get("trace-truncated", 0) == cut
        assert opened.profile.row_count("kernel") == kernels


def test_a_header_alone_says_that_nothing_ran(folder: Path) -> None:
    for name in (KERNELS, f"{PROCESS.pid}_memory_copy_trace.csv"):
        header = (folder / name).read_text(encoding="utf-8").partition("\n")[0]
        (folder / name).write_text(f"{header}\n", encoding="utf-8")
    with api.open(folder) as opened:
        assert {Fact.KERNELS, Fact.MEMCPYS} <= opened.profile.facts
        assert opened.profile.row_count("kernel") == 0


def test_other_tables_are_none_of_its(tmp_path: Path) -> None:
    for text in ("a,b,c\n1,2,3\n", '"Kind","Agent_Id"\n', "\n", '"Name","Calls","TotalDurationNs"\n'):
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        with Probe(tmp_path / "a.csv") as probe:
            assert not isinstance(rocprofv3_csv.sniff(probe), rocprofv3_csv.Yes)


def test_two_folders_are_compared(folder: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "other", BASIC, PROCESS)
    replaced(tmp_path / "other" / KERNELS, f"{BOOT_NS + 43_000}", f"{BOOT_NS + 53_000}")
    (report,) = nsysconv.compare(folder, tmp_path / "other", ["kernels"]).reports
    changed = [row for row in report.rows() if row["diff_kernel_sum_ns"]]
    assert [row["diff_kernel_sum_ns"] for row in changed] == [10_000]


def test_a_database_that_cannot_be_read_hides_no_table(folder: Path) -> None:
    whole = folder / f"{PROCESS.pid}_results.db"
    for content in (b"", ROCPD.read_bytes()[:9000]):
        whole.write_bytes(content)
        assert max(len(item.paths) for item in find_inputs([folder]).read) == 5


def test_a_table_of_calls_says_nothing_of_their_work(folder: Path) -> None:
    with api.open(folder / CALLS) as opened:
        assert not notes(opened.profile).keys() & {"gpu-activity-missing", "no-gpu-work"}


def test_a_part_that_is_damaged_is_counted(folder: Path) -> None:
    (folder / f"{PROCESS.pid}_memory_copy_trace.csv").write_bytes(b"\0\1\2")
    with api.open(folder) as opened:
        assert notes(opened.profile)["part-unread"] == 1
        assert opened.profile.row_count("kernel") == 9
        assert Fact.MEMCPYS not in opened.profile.facts


# -- tables of other versions and options

GUID = "0000ddb5-8903-7903-b269-cd8d3745bb8a"


def test_a_converted_database_has_all_regions_in_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    write_folder(folder, BASIC, PROCESS, "7-guid")
    calls, marks = (folder / CALLS, folder / f"{PROCESS.pid}_marker_api_trace.csv")
    rows = marks.read_text(encoding="utf-8").partition("\n")[2]
    regions = folder / f"{PROCESS.pid}_regions_trace.csv"
    regions.write_text(calls.read_text(encoding="utf-8") + rows, encoding="utf-8")
    for path in (calls, marks):
        path.unlink()
    with api.open(folder) as opened:
        counts = [opened.profile.row_count(name) for name in ("kernel", "api_call", "range")]
        assert counts == [9, 20, 6]
        assert Fact.API_LINKS in opened.profile.facts


def test_processes_of_a_merged_database_are_told_apart_by_their_guid(tmp_path: Path) -> None:
    """Two kernels of the first process and one of the second, whose calls have the same numbers."""
    workload, folder = WORKLOADS["two_processes_two_gpus"], tmp_path / "job"
    texts: dict[str, list[str]] = {}
    for number, process in enumerate(workload.processes):
        write_folder(tmp_path / str(number), workload, process, "7-guid")
        for path in (tmp_path / str(number)).iterdir():
            own = path.read_text(encoding="utf-8").replace(GUID, f"{GUID}{number}")
            texts.setdefault(path.name.partition("_")[2], []).append(own)
    folder.mkdir()
    for name, (first, second) in texts.items():
        text = first + second.partition("\n")[2]
        (folder / f"out_{name}").write_text(text, encoding="utf-8")
    with api.open(folder) as opened:
        pids = sorted(row["pid"] for row in event_rows(opened.profile, "kernel"))
        assert pids == [6001, 6001, 6002]
        assert Fact.API_LINKS in opened.profile.facts
        gpus = {row["device_id"]: row["ordinal"] for row in opened.profile.rows("device")}
        assert gpus == {2: 0, 3: 1}


def test_agents_are_numbered_within_what_a_process_sees(folder: Path) -> None:
    """The GPU is number 5 on the node and 2 in the process, as a container of some GPUs sees it."""
    replaced(folder / f"{PROCESS.pid}_agent_info.csv", '\n2,2,"GPU"', '\n5,2,"GPU"')
    with api.open(folder) as opened:
        (gpu,) = opened.profile.rows("device")
        assert (gpu["device_id"], gpu["name"]) == (5, "AMD Instinct MI210")


def test_scratch_memory_is_no_memory_of_the_program(folder: Path) -> None:
    """As `rocpd convert` writes it, with a quote for the agent of what is given back."""
    rows = (
        ("MEMORY_ALLOCATION_FREE", '""""', 0, 30),
        ("MEMORY_ALLOCATION_ALLOCATE", '"Agent 2"', 4096, 10),
        ("SCRATCH_MEMORY_ALLOCATE", '"Agent 2"', 1 << 20, 20),
    )
    (folder / f"{PROCESS.pid}_memory_allocation_trace.csv").write_text(
        '"guid","Kind","Operation","Agent_Id","Allocation_Size","Address","Start_Timestamp",'
        '"End_Timestamp"\n'
        + "".join(
            f'"g","MEMORY","{what}",{agent},{size},"0x00FF",{BOOT_NS + at},{BOOT_NS + at + 1}\n'
            for what, agent, size, at in rows
        ),
        encoding="utf-8",
    )
    with api.open(folder) as opened:
        found = event_rows(opened.profile, "memory_event")
        assert sorted((row["bytes"], row["device_id"]) for row in found) == [(-4096, 2), (4096, 2)]
        assert notes(opened.profile)["rows-not-read"] == 1


def test_quotes_in_texts_are_kept_whether_they_are_doubled_or_not(folder: Path) -> None:
    """rocprofv3 itself does not double them, `rocpd convert` does; a cut row stays one."""
    replaced(folder / KERNELS, '"stencil"', '"stencil<"a", "b">"')
    replaced(folder / KERNELS, '"triton_poi_fused_add_0"', '"poi<""c"">"')
    marks = folder / f"{PROCESS.pid}_marker_api_trace.csv"
    replaced(marks, '"load"', '"{"step": 3}"')
    with marks.open("a", encoding="utf-8") as file:
        file.write('"MARKER_CORE_RANGE_API","{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5')
    with api.open(folder) as opened:
        kernels = {row["name"] for row in event_rows(opened.profile, "kernel")}
        assert {'stencil<"a", "b">', 'poi<"c">'} <= kernels
        assert len(event_rows(opened.profile, "kernel")) == 9
        assert '{"step": 3}' in {row["name"] for row in event_rows(opened.profile, "range")}
        assert opened.profile.row_count("range") == 6
        assert notes(opened.profile)["trace-truncated"] == 1


@pytest.mark.parametrize("header", [
    "guid,Correlation_Id,dispatch_id,kernel_name,counter_name,Counter_Value,Timestamp",
    '"Dispatch_Id","Counter_Name","Counter_Value"',
])  # fmt: skip
def test_samples_of_counters_are_no_executions(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n", encoding="utf-8")
    with pytest.raises(NoProfileError, match="samples of rocprofv3"):
        api.open(tmp_path / "a.csv")


HEAD = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def test_totals_are_of_what_their_file_is_called_after(tmp_path: Path) -> None:
    """Texts of markers and functions of RCCL are no kernels; HIP's calls have those of HSA in them."""
    for name, row in {
        "kernel": "saxpy", "hip_api": "hipMalloc", "hsa_api": "hsa_queue_create", "rccl_api": "ncclSend",
        "marker_api": "iteration 1", "memory_copy": "MEMORY_COPY_HOST_TO_DEVICE",
    }.items():  # fmt: skip
        path = tmp_path / f"7_{name}_stats.csv"
        path.write_text(f'{HEAD}"{row}",2,30,15.0,100.0,10,20,7.0\n', encoding="utf-8")
    with api.open(tmp_path) as opened:
        names = {row["id"]: row["text"] for row in opened.profile.rows("name")}
        found = [names.get(row["name_id"]) for row in opened.profile.rows("aggregate")]
        assert sorted(map(str, found)) == ["None", "hipMalloc", "saxpy"]
        assert notes(opened.profile) == {"rows-not-read": 2, "hsa-calls-left-out": 2}
    with api.open(tmp_path, include=[rocprofv3_csv.rocm.HSA_CALLS]) as opened:
        layers = {row["layer"] for row in opened.profile.rows("aggregate")}
        assert layers == {None, 0, 1}


def test_a_recording_whose_files_have_no_common_name_is_called_like_its_folder(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        path.rename(path.with_name(path.name.partition("_")[2]))
    with api.open(folder) as opened:
        assert opened.profile.ref.label == "job"
