"""What other vendors' back ends and early releases write otherwise, event by event."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import EVENTS, REAL, event_rows, import_file, real, small_rows

import nsysconv
from nsysconv.facts import Fact
from nsysconv.importers import kineto
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

Event = dict[str, Any]

CPU = 4711
TABLES_OF_1_8 = {"Operator": "operator", "Runtime": "api_call", "Kernel": "kernel",
                 "Memcpy": "memcpy", "Memset": "memset"}  # fmt: skip
BASE_US = 1_600_000_000_000_000


def event(category: str, name: str, at: int, dur: int, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": CPU, "tid": CPU, "ts": BASE_US + at,
            "dur": dur, "args": args}  # fmt: skip


def on_gpu(category: str, name: str, at: int, dur: int, **args: Any) -> Event:
    device, stream = args.get("device", 0), args.get("stream", 7)
    return event(category, name, at, dur, **args) | {"pid": device, "tid": stream}


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    """Imports events (and top-level keys) and gives the rows of a table."""

    def imported(*events: Event, **keys: Any) -> Any:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, **keys, "traceEvents": list(events)}))
        import_file(path, tmp_path / "store.db")

        def of(table: str) -> list[dict[str, Any]]:
            with reading(tmp_path / "store.db") as store:
                (profile,) = store.profiles()
                return table_rows(profile, table)

        return of

    imported.path = tmp_path / "trace.json"  # type: ignore[attr-defined]
    return imported


def table_rows(profile: Profile, table: str) -> list[dict[str, Any]]:
    if table == "note":
        return [{"slug": note.slug, "count": note.count} for note in profile.notes]
    if table in ("device", "process"):
        return small_rows(profile, table)
    return event_rows(profile, table)


def test_copy_takes_its_bytes_from_its_call(rows: Any) -> None:
    """ROCm before November 2024: the copy's row has none. Texts are numbers, too."""
    of = rows(
        event("cuda_runtime", "hipMemcpyWithStream", 10, 5, cid=1, correlation=3, kind="1",
              bytes="4096"),
        on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 16, 4, device=2, stream=1,
               correlation=3),
        on_gpu("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 26, 4, device=2, stream=1,
               correlation=9),
    )  # fmt: skip
    first, second = of("memcpy")
    assert (first["direction"], first["bytes"], first["dst_kind"]) == ("HtoD", 4096, "Device")
    assert first["src_kind"] is None  # `Host` does not say whether it is pinned
    assert (second["direction"], second["bytes"]) == ("DtoH", None)


def test_copies_written_as_kernels_are_copies(rows: Any) -> None:
    """ROCm before March 2024."""
    of = rows(
        on_gpu("kernel", "CopyHostToDevice", 10, 4, device=2, stream=1, correlation=3),
        on_gpu("kernel", "FillBuffer", 20, 4, device=2, stream=1, correlation=4),
        on_gpu("kernel", "Cijk_Alik", 30, 4, device=2, stream=1, correlation=5,
               **{"grid dim": [8, 1, 1], "block dim": [256, 1, 1], "shared size": 512}),
    )  # fmt: skip
    assert [row["direction"] for row in of("memcpy")] == ["HtoD"]
    assert len(of("memset")) == 1
    (kernel,) = of("kernel")
    assert (kernel["grid_x"], kernel["block_x"], kernel["shared_bytes"]) == (8, 256, 512)


@pytest.mark.parametrize(
    ("name", "direction"),
    [("CopyHostToDevice", "HtoD"), ("CopyDeviceToHost", "DtoH"), ("CopyDeviceToDevice", "DtoD"),
     ("CopyHostToHost", "HtoH")],
)  # fmt: skip
def test_directions_of_copies_written_as_kernels(rows: Any, name: str, direction: str) -> None:
    of = rows(on_gpu("kernel", name, 10, 4, device=2, stream=1, correlation=3))
    assert [row["direction"] for row in of("memcpy")] == [direction]


def test_memset_written_as_kernel_without_copies(rows: Any) -> None:
    of = rows(on_gpu("kernel", "FillBuffer", 20, 4, correlation=4))
    assert (len(of("memset")), len(of("kernel"))) == (1, 0)


def test_a_call_without_bytes_may_have_a_size(rows: Any) -> None:
    of = rows(
        event("cuda_runtime", "hipMemcpy", 10, 5, cid=1, correlation=3, size=64),
        on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 16, 4, correlation=3),
    )
    assert [row["bytes"] for row in of("memcpy")] == [64]


def test_copy_with_bytes_of_its_own_keeps_them(rows: Any) -> None:
    of = rows(
        event("cuda_runtime", "hipMemcpy", 10, 5, cid=1, correlation=3, bytes=64),
        event("cuda_runtime", "hipMemcpy", 20, 5, cid=1, correlation=4, bytes=32),
        on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 16, 4, correlation=3),
        on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 26, 4, correlation=4, bytes=33),
    )
    assert [row["bytes"] for row in of("memcpy")] == [64, 33]


def test_amd_spellings_of_device_properties(rows: Any) -> None:
    properties = {"id": 0, "warpSize": 64, "maxThreadsPerMultiProcessor": 2048,
            "maxSharedMemoryPerMultiProcessor": 65536}  # fmt: skip
    of = rows(on_gpu("kernel", "k", 10, 4, correlation=3), deviceProperties=[properties])
    (device,) = of("device")
    assert (device["max_warps_per_sm"], device["max_shared_bytes_per_sm"]) == (32, 65536)


@pytest.mark.parametrize(
    ("grid", "per_sm", "count"),
    # 108 SMs; too few digits to know; no grid.
    [([216, 1, 1], 2, 108), ([1, 1, 1], 0.0094, None), (None, 2, None)],
)
def test_sm_count_is_derived_from_blocks_per_sm(
    rows: Any, grid: list[int] | None, per_sm: float, count: int | None
) -> None:
    kernel = on_gpu("kernel", "k", 10, 4, correlation=3, grid=grid, **{"blocks per SM": per_sm})
    assert rows(kernel)("device")[0]["sm_count"] == count


def test_described_sm_count_wins_over_derived_one(rows: Any) -> None:
    kernel = on_gpu("kernel", "k", 10, 4, grid=[216, 1, 1], **{"blocks per SM": 2})
    of = rows(kernel, deviceProperties=[{"id": 0, "name": "A", "numSms": 132}])
    assert of("device")[0]["sm_count"] == 132


@pytest.mark.parametrize("word", ["nelems", "size"])
def test_elements_of_a_collective(rows: Any, word: str) -> None:
    """An all-gather gives more than it takes. PyTorch 2.2 calls them sizes."""
    args = {"Collective name": "allgather", f"In msg {word}": 4, f"Out msg {word}": 8}
    of = rows(
        event("cpu_op", "record_param_comms", 5, 9, **args),
        event("cpu_op", "c10d::allgather_", 4, 20, **args),  # around the one that is counted
        on_gpu("kernel", "ncclDevKernel_AllGather", 10, 4, correlation=3, **args),
    )
    found = [(row["kind"], row["in_elements"], row["out_elements"]) for row in of("collective")]
    assert sorted(found) == [("call", 4, 8), ("kernel", 4, 8)]


def test_a_copy_within_a_device_has_no_peer(rows: Any) -> None:
    of = rows(on_gpu("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 16, 4, bytes=64,
                     fromDevice=0, toDevice=0))  # fmt: skip
    assert [row["peer_device_id"] for row in of("memcpy")] == [None]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Driver Compiler", "driver"), ("Runtime Triggered Module Loading", "driver"),
     ("Lazy Function Loading", "driver"), ("Command Buffer Full", "driver"),
     ("Buffer Flush", "profiler"), ("Activity Buffer Request", "profiler")],
)  # fmt: skip
def test_overhead_is_of_profiler_or_driver(rows: Any, name: str, kind: str) -> None:
    """The profiler's is not there without it."""
    of = rows(
        event("overhead", name, 5, 2) | {"pid": -1, "tid": 0},
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=3),
    )
    assert [(row["kind"], row["pid"]) for row in of("overhead")] == [(kind, CPU)]


@pytest.mark.parametrize(
    ("category", "table", "cell"),
    [("xpu_driver", "api_call", {"layer": "driver"}), ("user", "range", {"kind": "push_pop"}),
     ("hpu_op", "operator", {"kind": "operator"}), ("xpu_sync", "sync", {"sync_type": None})],
)  # fmt: skip
def test_rare_categories(rows: Any, category: str, table: str, cell: dict[str, Any]) -> None:
    call = event("cuda_runtime", "cudaFree", 1, 2, cbid=3)
    """Its `cbid` would mark one that is not known to be a call of the runtime."""
    found = rows(call, event(category, "name", 10, 4, cbid=7))(table)
    assert cell.items() <= found[-1].items()


def test_annotations_written_as_operators_are_ranges(rows: Any) -> None:
    """PyTorch before 1.10; only a name that begins so is one."""
    annotations = ("ProfilerStep#1", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Iter.__next__",
            "enumerate(DataPipe)#Mapper")  # fmt: skip
    others = ("aten::add", "my ProfilerStep#1")
    of = rows(*(event("Operator", name, 10 + i, 4) for i, name in enumerate((*annotations, *others))),
              on_gpu("Kernel", "k", 10, 4))  # fmt: skip
    assert tuple(row["name"] for row in of("range")) == annotations
    assert tuple(row["name"] for row in of("operator")) == others


@pytest.mark.parametrize(
    ("written", "stream"),
    [(7, 7), (0, 0), (1_000_007, 7), (1_000_000, 0), (-1, None), (0xFFFFFFFF, None)],
)
def test_stream_of_wait(rows: Any, written: int, stream: int | None) -> None:
    """On lines of their own since PyTorch 2.13; of a context on none."""
    of = rows(on_gpu("cuda_sync", "Stream Sync", 10, 4, stream=written, correlation=3))
    assert [row["stream_id"] for row in of("sync")] == [stream]


def test_memory_of_the_host_is_on_no_device(rows: Any) -> None:
    blocks = [event("cpu_instant_event", "[memory]", 10 + kind, 0, Bytes=64,
                    **{"Device Type": kind, "Device Id": 0}) for kind in (0, 1)]  # fmt: skip
    of = rows(*blocks)
    assert [row["device_id"] for row in of("memory_event")] == [None, 0]


@pytest.mark.parametrize("category", ["Operator", "Runtime", "Kernel", "Memcpy", "Memset"])
def test_a_bare_list_of_the_first_releases(tmp_path: Path, category: str) -> None:
    """PyTorch 1.8 wrote nothing but the list of events."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([on_gpu(category, "a", 5, 2)]))
    with nsysconv.open(path) as opened:
        tables = (table for table in EVENTS if opened.profile.row_count(table))
        assert {*tables} == {TABLES_OF_1_8[category]}


DEFECTS = REAL / "defects"


@real
@pytest.mark.parametrize("name", [
    "IBM+kineto-spyre__worker0.pt.trace.json.gz",
    "IBM+kineto-spyre__7bd25bd0.worker0.pt.trace.json.gz",
])  # fmt: skip
def test_real_lists_of_the_first_releases_are_traces(name: str) -> None:
    with Probe(DEFECTS / name) as probe:
        assert detect(probe) is kineto


def test_memory_events_of_the_first_releases(rows: Any) -> None:
    """Without a category."""
    block = event("", "[memory]", 10, 0, Bytes=64, **{"Device Type": 1, "Device Id": 0})
    block = {key: value for key, value in block.items() if key not in ("cat", "dur")} | {"ph": "i"}
    of = rows(event("Operator", "aten::empty", 5, 9), block)
    assert [row["bytes"] for row in of("memory_event")] == [64]


def test_ranks_written_as_text_are_read(rows: Any) -> None:
    of = rows(event("cuda_runtime", "cudaFree", 1, 2),
              distributedInfo=json.dumps({"rank": 3, "world_size": 4}))  # fmt: skip
    assert [(row["rank"], row["world_size"]) for row in of("process")] == [(3, 4)]


def test_out_of_memory_event_is_no_memory_event(rows: Any) -> None:
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 64}
    of = rows(*(event("cpu_instant_event", name, 10, 0, **args) | {"ph": "i"}
                for name in ("[memory]", "[OutOfMemory]")))  # fmt: skip
    assert [row["bytes"] for row in of("memory_event")] == [64]


def test_agent_number_does_not_select_a_description(rows: Any) -> None:
    """ROCm runs on agent 2 and describes devices 0 and 1: alike, so that is what it is."""
    alike = {"name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64,
             "maxThreadsPerMultiprocessor": 2048}  # fmt: skip
    kernel = on_gpu("kernel", "k", 10, 4, device=2, stream=0, correlation=3)
    of = rows(kernel, deviceProperties=[{"id": 0, **alike}, {"id": 1, **alike}])
    (device,) = of("device")
    assert (device["device_id"], device["name"], device["sm_count"]) == (
        2, "AMD Instinct MI300X", 304)  # fmt: skip
    assert device["max_warps_per_sm"] == 32


def test_different_descriptions_are_not_used_for_other_devices(rows: Any) -> None:
    kernel = on_gpu("kernel", "k", 10, 4, device=2, stream=0, correlation=3)
    of = rows(kernel, deviceProperties=[{"id": 0, "name": "A"}, {"id": 1, "name": "B"}])
    assert of("device")[0]["name"] is None
    assert ("device-unnamed", 1) in [(note["slug"], note["count"]) for note in of("note")]


def test_xpu_copies_and_calls(rows: Any) -> None:
    of = rows(
        event("xpu_runtime", "urEnqueueUSMMemcpy", 10, 5, correlation=3),
        on_gpu("gpu_memcpy", "Memcpy M2D(HtoD)", 16, 4, correlation=3, bytes=64),
        on_gpu("kernel", "void at::native::xpu::Functor<float>", 26, 4, correlation=4),
    )
    assert [(row["direction"], row["bytes"]) for row in of("memcpy")] == [("HtoD", 64)]
    assert [row["layer"] for row in of("api_call")] == ["runtime"]
    assert len(of("kernel")) == 1


def test_peer_copy_has_the_device_it_names(rows: Any) -> None:
    """It has no `device` of its own."""
    of = rows(
        event("cuda_runtime", "cudaMemcpyPeerAsync", 10, 5, correlation=3),
        on_gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 16, 4, correlation=3, bytes=64,
               fromDevice=2, inDevice=2, toDevice=1, inContext=1),
    )  # fmt: skip
    (copy,) = of("memcpy")
    assert (copy["device_id"], copy["peer_device_id"], copy["context_id"]) == (2, 1, 1)


def test_streams_that_are_texts(rows: Any) -> None:
    """PyTorch 1.8 has device and stream in pid and tid only."""
    kernel = on_gpu("Kernel", "k", 10, 4, correlation=3)
    kernel |= {"pid": 1, "tid": "stream 13"}
    kernel["args"].pop("device", None)
    of = rows(event("Runtime", "cudaLaunchKernel", 5, 2, correlation=3), kernel)
    (found,) = of("kernel")
    assert (found["device_id"], found["stream_id"], found["pid"]) == (1, 13, CPU)


def test_a_gpu_number_that_is_a_process_number(rows: Any) -> None:
    """In a container the program may be process 1, and so may a GPU be."""
    call = event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=3) | {"pid": 1}
    of = rows(call, on_gpu("kernel", "k", 10, 4, device=1, correlation=3))
    assert [row["pid"] for row in of("process")] == [1]
    assert [(row["pid"], row["device_id"]) for row in of("kernel")] == [(1, 1)]


def test_unknown_categories_are_assigned_by_their_arguments(rows: Any) -> None:
    of = rows(
        event("newdevice_runtime", "ndLaunch", 5, 2, correlation=3, cbid=7),
        on_gpu("newdevice_op", "k", 10, 4, device=0, stream=1, correlation=3),
        event("weather", "rain", 10, 4),
    )
    assert len(of("api_call")) == len(of("kernel")) == 1
    notes = {note["slug"]: note["count"] for note in of("note")}
    assert (notes["category-assumed"], notes["category-unknown"]) == (2, 1)


def test_an_unknown_category_on_stream_0(rows: Any) -> None:
    of = rows(on_gpu("newdevice_op", "k", 10, 4, device=0, stream=0, correlation=3))
    assert [row["stream_id"] for row in of("kernel")] == [0]


def test_an_unknown_category_on_no_device(rows: Any) -> None:
    of = rows(event("weather", "rain", 10, 4, stream=7))
    assert of("kernel") == []
    assert ("category-unknown", 1) in [(note["slug"], note["count"]) for note in of("note")]


@pytest.mark.parametrize(
    ("category", "called"),
    [("mtia_ccp_events", "mtia_ccp_events"), ("MTIA_Insight", "mtia_insight"),
     ("mlu_notifier", "mlu_notifier"), ("npu_secret", "npu_*"), ("xpu_secret", "xpu_*")],
)  # fmt: skip
def test_accelerator_work_is_noted_by_category(rows: Any, category: str, called: str) -> None:
    """Work is missing from the tables: whoever asks for all of it must learn it. How a category goes on
    that nobody knows may be anything.
    """
    rows(event(category, "pe_exe", 10, 4), event(category, "pe_exe", 20, 4))
    with nsysconv.open(rows.path) as opened:
        (note,) = (n for n in opened.profile.notes if n.slug == "accelerator-left-out")
    assert (note.severity, note.count) == (Severity.DROPPED, 2)
    assert f"(category {called})" in note.text


def test_left_out_accelerator_work_records_no_gpu_facts(rows: Any) -> None:
    rows(event("mtia_runtime", "recordEvent", 5, 2), event("mtia_ccp_events", "pe_exe", 10, 4))
    with nsysconv.open(rows.path) as opened:
        assert Fact.KERNELS not in opened.profile.facts
        assert "accelerator" in opened.profile.advice[Fact.KERNELS]
        assert "no-gpu-work" not in {note.slug for note in opened.profile.notes}


def test_accelerator_lane_is_no_process(rows: Any) -> None:
    """Its lanes have the device's number for a process; what is called a runtime's there is its work."""
    there = {**event("mtia_runtime", "synchronize", 6, 1, device=17, correlation=3), "pid": 17}
    of = rows(
        event("mtia_runtime", "synchronizeStream", 5, 3, device=17, correlation=3),
        there,
        {**there, "cat": "mtia_ccp_events"},
    )
    assert [row["name"] for row in of("api_call")] == ["synchronizeStream"]
    assert len(of("process")) == 1
    with nsysconv.open(rows.path) as opened:
        counts = [n.count for n in opened.profile.notes if n.slug == "accelerator-left-out"]
    assert sum(counts) == 2


@real
def test_accelerator_trace_has_one_process() -> None:
    name = "facebookresearch+HolisticTraceAnalysis__mtia_inference_rank_0.json.gz"
    with nsysconv.open(REAL / "defects" / name) as opened:
        (process,) = opened.report("processes").rows()
    assert (process["pid"], process["api_call_count"]) == (865, 710)


def test_unknown_calls_of_rocm(rows: Any) -> None:
    of = rows(event("new_runtime", "newLaunch", 5, 2, correlation=3, cid=7))
    assert [row["name"] for row in of("api_call")] == ["newLaunch"]


def test_calls_that_copied_without_a_copy(rows: Any) -> None:
    of = rows(event("cuda_runtime", "cudaMemcpyAsync", 5, 2, correlation=3))
    assert "gpu-activity-missing" in [note["slug"] for note in of("note")]


def test_annotations_mirrored_on_a_gpu_are_no_work(rows: Any) -> None:
    of = rows(
        event("user_annotation", "ProfilerStep#1", 0, 50),
        on_gpu("gpu_user_annotation", "ProfilerStep#1", 9, 6, stream=7),
        on_gpu("kernel", "k", 10, 4, device=0, stream=7, correlation=3),
    )
    assert len(of("kernel")) == len(of("range")) == 1


def test_processes_are_kept_apart_where_traces_were_merged(tmp_path: Path) -> None:
    """Two ranks in one list: two profiles, each with its own operations, linked per process."""
    ranks = []
    for pid in (100, 200):
        ranks += [
            event("cuda_runtime", "cudaLaunchKernel", pid, 2, correlation=3) | {"pid": pid},
            on_gpu("kernel", f"k{pid}", pid + 10, 4, device=0, correlation=3),
        ]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": ranks}))
    result = nsysconv.import_files([path], tmp_path / "store.db")
    labels = [each.label for each in result.files[0].imported]
    assert labels == ["merged-pid100", "merged-pid200"]
    with reading(tmp_path / "store.db") as store:
        for profile, pid in zip(store.profiles(), (100, 200), strict=True):
            (kernel,) = event_rows(profile, "kernel")
            assert (kernel["name"], kernel["pid"]) == (f"k{pid}", pid)
            assert "process-assumed" in {note.slug for note in profile.notes}
    again = nsysconv.import_files([path], tmp_path / "store.db")
    assert [each.existing for each in again.files[0].imported] == [True, True]


def test_merged_processes_have_sizes_of_their_own_calls_and_no_rank(tmp_path: Path) -> None:
    """What the file says of a rank it says of one of them, and not of which."""
    ranks = []
    for pid in (100, 200):
        ranks += [
            event("cuda_runtime", "hipMemcpy", pid, 2, correlation=3, bytes=pid) | {"pid": pid},
            on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", pid + 10, 4, correlation=3),
        ]
    path = tmp_path / "merged.json"
    info = {"rank": 3, "world_size": 4}
    path.write_text(
        json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": ranks}))  # fmt: skip
    nsysconv.import_files([path], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        for profile, pid in zip(store.profiles(), (100, 200), strict=True):
            assert [row["bytes"] for row in event_rows(profile, "memcpy")] == [pid]
            assert [row["rank"] for row in small_rows(profile, "process")] == [None]
            assert Fact.RANKS not in profile.facts


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events in each chunk of a trace."""
    monkeypatch.setattr("nsysconv.importers.kineto.trace._FIRST_BYTES", 1 << 10)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._BLOCK_BYTES", 1 << 10)


@pytest.mark.usefixtures("small_chunks")
def test_gpu_rows_in_chunks_without_a_process(tmp_path: Path) -> None:
    """They are of the process whose rows stand before them, however far before."""
    events = []
    for pid in (100, 200):
        call = event("cuda_runtime", "cudaLaunchKernel", pid, 2) | {"pid": pid}
        kernels = [on_gpu("kernel", f"k{pid}", pid + i, 1, device=0) for i in range(40)]
        overhead = event("overhead", f"o{pid}", pid + 50, 2) | {"pid": -1, "tid": 0}
        events += [call, *kernels, overhead, call]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    nsysconv.import_files([path], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        for profile, pid in zip(store.profiles(), (100, 200), strict=True):
            kernels, overheads = event_rows(profile, "kernel"), event_rows(profile, "overhead")
            assert [(row["name"], row["pid"]) for row in kernels] == [(f"k{pid}", pid)] * 40
            assert [(row["name"], row["pid"]) for row in overheads] == [(f"o{pid}", pid)]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "order",
    [
        [(100, 40, 0), (100, 0, 43), (200, 40, 0), (200, 0, 40)],
        [(100, 1, 1), (200, 1, 1), (100, 1, 40)],
        [(100, 0, 40), (100, 40, 0)],
        [(100, 0, 40), (100, 1, 0), (200, 1, 40)],
    ],
    ids=["one after the other", "back again", "later than its work", "later, and others"],
)
def test_gpu_rows_belong_to_the_last_process_before_them(
    tmp_path: Path, order: list[tuple[int, int, int]]
) -> None:
    """Or, where none was met, of the first. A process, its calls, its kernels; eight are a chunk."""
    events = []
    for pid, calls, kernels in order:
        events += [event("cuda_runtime", "cudaFree", 10, 2) | {"pid": pid} for _ in range(calls)]
        events += [on_gpu("kernel", f"k{pid}", 20, 1, device=0) for _ in range(kernels)]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    nsysconv.import_files([path], tmp_path / "store.db")
    found = Counter[tuple[str, int]]()
    with reading(tmp_path / "store.db") as store:
        for profile in store.profiles():
            found.update((row["name"], row["pid"]) for row in event_rows(profile, "kernel"))
    expected = Counter[tuple[str, int]]()
    for pid, _, kernels in order:
        expected[f"k{pid}", pid] += kernels
    assert found == expected


@pytest.mark.parametrize("number", [{}, {"correlation": 0}])
def test_missing_correlation_links_no_copy_to_a_call(rows: Any, number: dict[str, int]) -> None:
    call = event("hip_runtime", "hipMemcpy", 10, 2, bytes=64, **number)
    of = rows(call, on_gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 12, 4, device=0, **number))
    assert [row["bytes"] for row in of("memcpy")] == [None]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("fraction", "coarse"), [(0, True), (0.25, False)])
def test_any_fraction_prevents_coarse_times_note(rows: Any, fraction: float, coarse: bool) -> None:
    calls = [event("cuda_runtime", "cudaFree", 10 + i, 2) for i in range(40)]
    calls[0]["ts"] += fraction
    assert ("coarse-times" in [note["slug"] for note in rows(*calls)("note")]) == coarse


def test_rocms_launches_that_share_a_correlation_are_all_told(rows: Any) -> None:
    rows(
        event("cuda_runtime", "hipLaunchKernel", 10, 5, cid=1, correlation=3),
        event("cuda_runtime", "hipExtModuleLaunchKernel", 20, 6, cid=1, correlation=4),
        on_gpu("kernel", "gemm", 40, 4, device=2, stream=0, correlation=3),
        on_gpu("kernel", "norm", 45, 8, device=2, stream=3, correlation=3),
    )
    with nsysconv.open(rows.path) as profile:
        launches, queues = (profile.report(name) for name in ("launch_stats", "queue_length"))
    assert {row["name"]: (row["launch_count"], row["gpu_op_sum_ns"]) for row in launches.rows()} == {
        "hipLaunchKernel": (1, 4000), "hipExtModuleLaunchKernel": (1, 8000)}  # fmt: skip
    assert [row["stream"] for row in queues.rows()] == ["0", "3"]
    assert "launch-assumed" in [note.slug for note in launches.notes]
