"""What other vendors' back ends and early releases write otherwise, event by event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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


# -- what rows come of events


def case(
    name: str, *events: Event, keys: dict[str, Any] | None = None, **tables: list[dict[str, Any]]
) -> Any:
    """Events, top-level keys, and by table what rows must come of them: the cells that matter."""
    return pytest.param(events, keys or {}, tables, id=name)


def call(name: str, at: int = 10, dur: int = 5, **args: Any) -> Event:
    return event("cuda_runtime", name, at, dur, **args)


def copy(at: int, kinds: str = "HtoD (Host -> Device)", **args: Any) -> Event:
    return on_gpu("gpu_memcpy", f"Memcpy {kinds}", at, 4, **args)


def memory(name: str, kind: int, at: int = 10, ph: str = "i") -> Event:
    args = {"Device Type": kind, "Device Id": 0, "Bytes": 64}
    return event("cpu_instant_event", name, at, 0, **args) | {"ph": ph}


def collective(word: str) -> list[Event]:
    """An all-gather gives more than it takes. PyTorch 2.2 calls its elements sizes."""
    args = {"Collective name": "allgather", f"In msg {word}": 4, f"Out msg {word}": 8}
    return [
        event("cpu_op", "record_param_comms", 5, 9, **args),
        event("cpu_op", "c10d::allgather_", 4, 20, **args),  # around the one that is counted
        on_gpu("kernel", "ncclDevKernel_AllGather", 10, 4, correlation=3, **args),
    ]


COLLECTIVE = [{"kind": kind, "in_elements": 4, "out_elements": 8} for kind in ("kernel", "call")]
KERNEL = on_gpu("kernel", "k", 10, 4, correlation=3)
ON_AGENT_2 = on_gpu("kernel", "k", 10, 4, device=2, stream=0, correlation=3)
MI300X = {"name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64,
          "maxThreadsPerMultiprocessor": 2048}  # fmt: skip
# Names of PyTorch before 1.10; only what begins so is an annotation.
ANNOTATIONS = ("ProfilerStep#1", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Iter.__next__",
               "enumerate(DataPipe)#Mapper")  # fmt: skip
OPERATORS = ("aten::add", "my ProfilerStep#1")
BLOCK_OF_1_8 = {key: value for key, value in memory("[memory]", 1).items() if key not in ("cat", "dur")}
KERNEL_OF_1_8 = {**on_gpu("Kernel", "k", 10, 4, correlation=3), "pid": 1, "tid": "stream 13"}


@pytest.mark.parametrize(("events", "keys", "tables"), [
    # Copies. ROCm before November 2024 wrote no bytes with the copy, and texts for numbers.
    case("a copy takes its bytes from its call",
         call("hipMemcpyWithStream", cid=1, correlation=3, kind="1", bytes="4096"),
         copy(16, device=2, stream=1, correlation=3),
         copy(26, "DtoH (Device -> Host)", device=2, stream=1, correlation=9),
         # `Host` does not say whether it is pinned.
         memcpy=[{"direction": "HtoD", "bytes": 4096, "src_kind": None, "dst_kind": "Device"},
                 {"direction": "DtoH", "bytes": None}]),
    case("a call without bytes may have a size",
         call("hipMemcpy", cid=1, correlation=3, size=64), copy(16, correlation=3),
         memcpy=[{"bytes": 64}]),
    case("a copy with bytes of its own keeps them",
         call("hipMemcpy", 10, cid=1, correlation=3, bytes=64), copy(16, correlation=3),
         call("hipMemcpy", 20, cid=1, correlation=4, bytes=32), copy(26, correlation=4, bytes=33),
         memcpy=[{"bytes": 64}, {"bytes": 33}]),
    *(case(f"a missing correlation links no copy to a call {number}",
           event("hip_runtime", "hipMemcpy", 10, 2, bytes=64, **number),
           copy(12, device=0, **number), memcpy=[{"bytes": None}])
      for number in ({}, {"correlation": 0})),
    case("a copy within a device has no peer",
         copy(16, "DtoD (Device -> Device)", bytes=64, fromDevice=0, toDevice=0),
         memcpy=[{"peer_device_id": None}]),
    case("a peer copy has the device it names, and no device of its own",
         call("cudaMemcpyPeerAsync", correlation=3),
         copy(16, "PtoP (Device -> Device)", correlation=3, bytes=64, fromDevice=2, inDevice=2,
              toDevice=1, inContext=1),
         memcpy=[{"device_id": 2, "peer_device_id": 1, "context_id": 1}]),
    case("copies and calls of XPU",
         event("xpu_runtime", "urEnqueueUSMMemcpy", 10, 5, correlation=3),
         copy(16, "M2D(HtoD)", correlation=3, bytes=64),
         on_gpu("kernel", "void at::native::xpu::Functor<float>", 26, 4, correlation=4),
         memcpy=[{"direction": "HtoD", "bytes": 64}], api_call=[{"layer": "runtime"}], kernel=[{}]),
    # ROCm before March 2024 wrote copies as kernels.
    case("copies written as kernels are copies",
         on_gpu("kernel", "CopyHostToDevice", 10, 4, device=2, stream=1, correlation=3),
         on_gpu("kernel", "FillBuffer", 20, 4, device=2, stream=1, correlation=4),
         on_gpu("kernel", "Cijk_Alik", 30, 4, device=2, stream=1, correlation=5,
                **{"grid dim": [8, 1, 1], "block dim": [256, 1, 1], "shared size": 512}),
         memcpy=[{"direction": "HtoD"}], memset=[{}],
         kernel=[{"grid_x": 8, "block_x": 256, "shared_bytes": 512}]),
    *(case(f"{name} is {direction}",
           on_gpu("kernel", name, 10, 4, device=2, stream=1, correlation=3),
           memcpy=[{"direction": direction}])
      for name, direction in (("CopyHostToDevice", "HtoD"), ("CopyDeviceToHost", "DtoH"),
                              ("CopyDeviceToDevice", "DtoD"), ("CopyHostToHost", "HtoH"))),
    case("a memset written as a kernel without copies",
         on_gpu("kernel", "FillBuffer", 20, 4, correlation=4), memset=[{}], kernel=[]),
    # Devices.
    case("AMD's spellings of device properties", KERNEL,
         keys={"deviceProperties": [{"id": 0, "warpSize": 64, "maxThreadsPerMultiProcessor": 2048,
                                     "maxSharedMemoryPerMultiProcessor": 65536}]},
         device=[{"max_warps_per_sm": 32, "max_shared_bytes_per_sm": 65536}]),
    *(case(f"a count of SMs is derived from blocks per SM: {what}",
           on_gpu("kernel", "k", 10, 4, correlation=3, grid=grid, **{"blocks per SM": per_sm}),
           device=[{"sm_count": count}])
      for what, grid, per_sm, count in (
          ("108 SMs", [216, 1, 1], 2, 108), ("too few digits to know", [1, 1, 1], 0.0094, None),
          ("no grid", None, 2, None))),
    case("a described count of SMs wins over the derived one",
         on_gpu("kernel", "k", 10, 4, grid=[216, 1, 1], **{"blocks per SM": 2}),
         keys={"deviceProperties": [{"id": 0, "name": "A", "numSms": 132}]},
         device=[{"sm_count": 132}]),
    # ROCm runs on agent 2 and describes devices 0 and 1.
    case("an agent's number selects no description, but they are alike", ON_AGENT_2,
         keys={"deviceProperties": [{"id": 0, **MI300X}, {"id": 1, **MI300X}]},
         device=[{"device_id": 2, "name": "AMD Instinct MI300X", "sm_count": 304,
                  "max_warps_per_sm": 32}]),
    case("different descriptions are not used for other devices", ON_AGENT_2,
         keys={"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]},
         device=[{"name": None}], note=[{"slug": "device-unnamed", "count": 1}]),
    # Streams: on lines of their own since PyTorch 2.13; of a context on none.
    *(case(f"a wait on stream {written} is on {stream}",
           on_gpu("cuda_sync", "Stream Sync", 10, 4, stream=written, correlation=3),
           sync=[{"stream_id": stream}])
      for written, stream in ((7, 7), (0, 0), (1_000_007, 7), (1_000_000, 0), (-1, None),
                              (0xFFFFFFFF, None))),
    case("streams that are texts: PyTorch 1.8 has device and stream in pid and tid only",
         event("Runtime", "cudaLaunchKernel", 5, 2, correlation=3), KERNEL_OF_1_8,
         kernel=[{"device_id": 1, "stream_id": 13, "pid": CPU}]),
    # Processes.
    case("a GPU's number that is a process's, as in a container",
         call("cudaLaunchKernel", 5, 2, correlation=3) | {"pid": 1},
         on_gpu("kernel", "k", 10, 4, device=1, correlation=3),
         process=[{"pid": 1}], kernel=[{"pid": 1, "device_id": 1}]),
    case("ranks written as text are read", call("cudaFree", 1, 2),
         keys={"distributedInfo": json.dumps({"rank": 3, "world_size": 4})},
         process=[{"rank": 3, "world_size": 4}]),
    # The profiler's overhead is not there without it.
    *(case(f"{name} is overhead of the {kind}",
           event("overhead", name, 5, 2) | {"pid": -1, "tid": 0},
           call("cudaLaunchKernel", 5, 2, correlation=3), overhead=[{"kind": kind, "pid": CPU}])
      for name, kind in (
          ("Driver Compiler", "driver"), ("Runtime Triggered Module Loading", "driver"),
          ("Lazy Function Loading", "driver"), ("Command Buffer Full", "driver"),
          ("Buffer Flush", "profiler"), ("Activity Buffer Request", "profiler"))),
    # Elements of collectives, memory, ranges.
    case("elements of a collective", *collective("nelems"), collective=COLLECTIVE),
    case("elements of a collective of PyTorch 2.2", *collective("size"), collective=COLLECTIVE),
    case("memory of the host is on no device", memory("[memory]", 0, 10, "X"),
         memory("[memory]", 1, 11, "X"),
         memory_event=[{"device_id": None}, {"device_id": 0}]),
    case("memory events of the first releases have no category",
         event("Operator", "aten::empty", 5, 9), BLOCK_OF_1_8, memory_event=[{"bytes": 64}]),
    case("an event of no memory left is no memory event",
         memory("[memory]", 1), memory("[OutOfMemory]", 1), memory_event=[{"bytes": 64}]),
    case("annotations written as operators are ranges",
         *(event("Operator", name, 10 + i, 4) for i, name in enumerate((*ANNOTATIONS, *OPERATORS))),
         on_gpu("Kernel", "k", 10, 4),
         range=[{"name": name} for name in ANNOTATIONS], operator=[{"name": name} for name in OPERATORS]),
    case("annotations mirrored on a GPU are no work",
         event("user_annotation", "ProfilerStep#1", 0, 50),
         on_gpu("gpu_user_annotation", "ProfilerStep#1", 9, 6, stream=7),
         on_gpu("kernel", "k", 10, 4, device=0, stream=7, correlation=3),
         kernel=[{}], range=[{}]),
    # Categories that are not known are assigned by their arguments.
    case("unknown categories",
         event("newdevice_runtime", "ndLaunch", 5, 2, correlation=3, cbid=7),
         on_gpu("newdevice_op", "k", 10, 4, device=0, stream=1, correlation=3),
         event("weather", "rain", 10, 4), api_call=[{}], kernel=[{}],
         note=[{"slug": "category-assumed", "count": 2}, {"slug": "category-unknown", "count": 1}]),
    case("an unknown category on stream 0",
         on_gpu("newdevice_op", "k", 10, 4, device=0, stream=0, correlation=3),
         kernel=[{"stream_id": 0}]),
    case("an unknown category on no device", event("weather", "rain", 10, 4, stream=7), kernel=[],
         note=[{"slug": "category-unknown", "count": 1}]),
    case("unknown calls of ROCm", event("new_runtime", "newLaunch", 5, 2, correlation=3, cid=7),
         api_call=[{"name": "newLaunch"}]),
    case("a call that copied without a copy", call("cudaMemcpyAsync", 5, 2, correlation=3),
         note=[{"slug": "gpu-activity-missing"}]),
])  # fmt: skip
def test_events_become_rows(
    rows: Any, events: list[Event], keys: dict[str, Any], tables: dict[str, list[dict[str, Any]]]
) -> None:
    """All rows of a table, and of notes those that are named."""
    of = rows(*events, **keys)
    for table, wanted in tables.items():
        found = of(table)
        if table == "note":
            assert all(any(want.items() <= note.items() for note in found) for want in wanted), found
            continue
        assert [{column: row[column] for column in want}
                for row, want in zip(found, wanted, strict=True)] == wanted, table  # fmt: skip


@pytest.mark.parametrize(
    ("category", "table", "cell"),
    [("xpu_driver", "api_call", {"layer": "driver"}), ("user", "range", {"kind": "push_pop"}),
     ("hpu_op", "operator", {"kind": "operator"}), ("xpu_sync", "sync", {"sync_type": None})],
)  # fmt: skip
def test_rare_categories(rows: Any, category: str, table: str, cell: dict[str, Any]) -> None:
    """The `cbid` would mark one that is not known to be a call of the runtime."""
    found = rows(call("cudaFree", 1, 2, cbid=3), event(category, "name", 10, 4, cbid=7))(table)
    assert cell.items() <= found[-1].items()


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


def test_accelerator_work_is_noted_by_category(rows: Any) -> None:
    """Work is missing from the tables: whoever asks for all of it must learn it. How a category goes on
    that nobody knows may be anything.
    """
    called = {"mtia_ccp_events": "mtia_ccp_events", "MTIA_Insight": "mtia_insight",
              "mlu_notifier": "mlu_notifier", "npu_secret": "npu_*", "xpu_secret": "xpu_*"}  # fmt: skip
    rows(*(event(category, "pe_exe", at, 4) for category in called for at in (10, 20)))
    with nsysconv.open(rows.path) as opened:
        found = [n for n in opened.profile.notes if n.slug == "accelerator-left-out"]
    assert {(note.severity, note.count) for note in found} == {(Severity.DROPPED, 2)}
    assert sorted(note.text.partition("(category ")[2].partition(")")[0] for note in found) == sorted(
        called.values())  # fmt: skip


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


# -- traces that were merged: two ranks in one list


Merged = Callable[..., AbstractContextManager[list[Profile]]]


@pytest.fixture
def merged(tmp_path: Path) -> Merged:
    """Imports the events of several processes and gives the profiles that they become."""

    @contextmanager
    def imported(events: list[Event], **keys: Any) -> Iterator[list[Profile]]:
        path, store = tmp_path / "merged.json", tmp_path / "store.db"
        path.write_text(json.dumps({"schemaVersion": 1, **keys, "traceEvents": events}))
        nsysconv.import_files([path], store)
        with reading(store) as opened:
            yield opened.profiles()

    return imported


def test_processes_are_kept_apart_where_traces_were_merged(merged: Merged, tmp_path: Path) -> None:
    """Two profiles, each with its own operations, linked per process."""
    ranks = [each for pid in (100, 200) for each in (
        call("cudaLaunchKernel", pid, 2, correlation=3) | {"pid": pid},
        on_gpu("kernel", f"k{pid}", pid + 10, 4, device=0, correlation=3))]  # fmt: skip
    with merged(ranks) as profiles:
        assert [profile.ref.label for profile in profiles] == ["merged-pid100", "merged-pid200"]
        for profile, pid in zip(profiles, (100, 200), strict=True):
            (kernel,) = event_rows(profile, "kernel")
            assert (kernel["name"], kernel["pid"]) == (f"k{pid}", pid)
            assert "process-assumed" in {note.slug for note in profile.notes}
    again = nsysconv.import_files([tmp_path / "merged.json"], tmp_path / "store.db")
    assert [each.existing for each in again.files[0].imported] == [True, True]


def test_merged_processes_have_sizes_of_their_own_calls_and_no_rank(merged: Merged) -> None:
    """What the file says of a rank it says of one of them, and not of which."""
    ranks = [each for pid in (100, 200) for each in (
        call("hipMemcpy", pid, 2, correlation=3, bytes=pid) | {"pid": pid},
        copy(pid + 10, correlation=3))]  # fmt: skip
    with merged(ranks, distributedInfo={"rank": 3, "world_size": 4}) as profiles:
        for profile, pid in zip(profiles, (100, 200), strict=True):
            assert [row["bytes"] for row in event_rows(profile, "memcpy")] == [pid]
            assert [row["rank"] for row in small_rows(profile, "process")] == [None]
            assert Fact.RANKS not in profile.facts


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events in each chunk of a trace."""
    monkeypatch.setattr("nsysconv.importers.kineto.trace.FIRST_BYTES", 1 << 10)
    monkeypatch.setattr("nsysconv.importers.kineto.trace.BLOCK_BYTES", 1 << 10)


@pytest.mark.usefixtures("small_chunks")
def test_gpu_rows_in_chunks_without_a_process(merged: Merged) -> None:
    """They are of the process whose rows stand before them, however far before."""
    events = []
    for pid in (100, 200):
        launch = call("cudaLaunchKernel", pid, 2) | {"pid": pid}
        kernels = [on_gpu("kernel", f"k{pid}", pid + i, 1, device=0) for i in range(40)]
        overhead = event("overhead", f"o{pid}", pid + 50, 2) | {"pid": -1, "tid": 0}
        events += [launch, *kernels, overhead, launch]
    with merged(events) as profiles:
        for profile, pid in zip(profiles, (100, 200), strict=True):
            found, overheads = event_rows(profile, "kernel"), event_rows(profile, "overhead")
            assert [(row["name"], row["pid"]) for row in found] == [(f"k{pid}", pid)] * 40
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
    merged: Merged, order: list[tuple[int, int, int]]
) -> None:
    """Or, where none was met, of the first. A process, its calls, its kernels; eight are a chunk."""
    events, expected = [], Counter[tuple[str, int]]()
    for pid, calls, kernels in order:
        events += [call("cudaFree", 10, 2) | {"pid": pid} for _ in range(calls)]
        events += [on_gpu("kernel", f"k{pid}", 20, 1, device=0) for _ in range(kernels)]
        expected[f"k{pid}", pid] += kernels
    with merged(events) as profiles:
        assert expected == Counter((row["name"], row["pid"]) for profile in profiles
                                   for row in event_rows(profile, "kernel"))  # fmt: skip


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
