"""Profiles of XLA: the training of scripts/fixtures_xplane.py, real files, and what goes wrong."""

from __future__ import annotations

import csv
import functools
import gzip
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest
from conftest import (
    FIXTURES,
    NO_REAL,
    REAL,
    Row,
    claimed_by,
    event_rows,
    profile_in_place,
    small_rows,
)
from fixtures_xplane import (
    GARBAGE,
    HOST,
    LENGTH,
    NVIDIA,
    PID,
    POOL,
    START,
    STEPS,
    THREAD,
    US,
    Plane,
    Ref,
    Unsigned,
    environment,
    host,
    item,
    odd,
    space,
    tpu,
    training,
)
from importing import refusal

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.xplane import details, planes
from nsysconv.notes import Severity
from nsysconv.report import MISSING
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "xplane"
TRAINING, ODD = FOLDER / "training.xplane.pb", FOLDER / "odd.xplane.pb"
JAX = REAL / "jax_xplane"
FUSED, LEGACY = (JAX / f"AMD-AGI+TraceLens__{name}.xplane.pb"
                 for name in ("te_fused_attn", "jax_conv_minimal_legacy"))  # fmt: skip
TENSORFLOW = JAX / "openxla+xprof__tf_gpu_multi_worker.xplane.pb"
OWN = JAX / "own__jax_0.10.2_cpu__host1.xplane.pb"
real = pytest.mark.skipif(not JAX.is_dir(), reason=NO_REAL)
MS = 1_000_000


_opened = ExitStack()


@functools.cache
def _kept(path: Path, include: tuple[str, ...] = ()) -> Profile:
    return _opened.enter_context(profile_in_place(path, include))


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    yield
    _kept.cache_clear()
    _opened.close()


def opened(path: Path, include: tuple[str, ...] = ()) -> AbstractContextManager[Profile]:
    """The profile of a file, which is read once unless a test has written it."""
    if path.parent in (FOLDER, JAX):
        return nullcontext(_kept(path, include))
    return profile_in_place(path, include)


def rows(path: Path, table: str, include: tuple[str, ...] = ()) -> list[Row]:
    with opened(path, include) as profile:
        return event_rows(profile, table)


def columns(path: Path, table: str, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in rows(path, table)]


def notes(path: Path) -> dict[str, int]:
    with opened(path) as profile:
        return {f"{note.slug} {note.text.split()[0]}": note.count for note in profile.notes}


def facts(path: Path) -> set[Fact]:
    with opened(path) as profile:
        return set(profile.facts)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "made.xplane.pb"
        path.write_bytes(content)
        return path

    return write


# -- the training


def test_kernels_by_hand() -> None:
    found = columns(TRAINING, "kernel", "start_ns", "dur_ns", "name", "correlation_id", "stream_id")
    assert found == [
        row for step in range(STEPS) for row in (
            (4 * MS * step + 2 * MS, 500_001, "gemm_fusion_dot", 10 * step + 2, 7),
            (4 * MS * step + 2_600_000, 200_000, "loop_add_fusion", 10 * step + 3, 7),
        )
    ]  # fmt: skip
    first, second = rows(TRAINING, "kernel")[:2]
    launch = ("grid_x", "grid_y", "block_x", "registers_per_thread", "static_shared_bytes",
              "dynamic_shared_bytes", "shared_bytes", "occupancy_pct", "context_id", "pid")  # fmt: skip
    assert [first[name] for name in launch] == [64, 1, 256, 32, 0, 49_152, None, 62, 1, PID]
    # Details by reference; an occupancy of 0 was not computed.
    assert [second[name] for name in launch] == [128, 2, 128, 16, 1024, 0, None, None, 1, PID]


def test_copies_and_memsets_by_hand() -> None:
    copies = columns(TRAINING, "memcpy", "start_ns", "dur_ns", "bytes", "direction", "src_kind",
                     "dst_kind", "peer_device_id")  # fmt: skip
    assert copies == [(4 * MS * step + 1_200_000, 100_000, 1 << 20, "HtoD", "Pinned", "Device", None)
                      for step in range(STEPS)]  # fmt: skip
    sets = columns(TRAINING, "memset", "start_ns", "dur_ns", "bytes", "memory_kind")
    assert sets == [(1_700_000, 10_000, 4096, "Device")]


def test_annotations_are_ranges_and_steps_have_their_number() -> None:
    found = columns(TRAINING, "range", "start_ns", "dur_ns", "name", "kind", "tid")
    assert found == [
        (500_000, 100_000, "evaluate", "push_pop", THREAD),
        *(row for step in range(STEPS) for row in (
            (4 * MS * step + MS, 3_900_000, f"train {step}", "push_pop", THREAD),
            (4 * MS * step + 1_050_000, 500_000, "load batch", "push_pop", THREAD),
        )),
    ]  # fmt: skip
    with api.open(TRAINING) as profile:
        report = profile.report("steps", step_range="train *").to_arrow().to_pydict()
    assert report["step"][:STEPS] == ["train 0", "train 1", "train 2"]
    # A step lasts to the end of what was launched in it.
    assert report["kernel_ns"][:STEPS] == [700_001] * STEPS


def test_annotated_steps_are_the_steps_also_if_the_host_runs_ahead(
    written: Callable[[bytes], Path],
) -> None:
    """Two steps of 100 µs on the host from 1000 µs on; their kernels of 1000 µs end at 2150 and 3150."""
    host_plane, gpu = Plane("/host:CPU"), Plane("/device:GPU:0", NVIDIA)
    launches = [plane_event for i in (0, 1) for plane_event in (
        host_plane.event("train", 100 * i, 100, step_num=i, _r=1),
        host_plane.event("cuLaunchKernel", 100 * i + 10, 5, correlation_id=Unsigned(i + 1)),
    )]  # fmt: skip
    host_plane.line(1, "python", [*launches, host_plane.event("load", 250, 10),
                                  host_plane.event("eval", 300, 30, step_num=0)])  # fmt: skip
    gpu.line(2, "Stream #5", [
        gpu.event("k", 150 + 1000 * i, 1000, correlation_id=Unsigned(i + 1),
                  kernel_details="grid:1,1,1 block:1,1,1") for i in (0, 1)
    ])  # fmt: skip
    path = written(space([host_plane, gpu]))
    with api.open(path) as profile:
        assert profile.timeline.profile.attributes["step_range"] == "train *"
        report = profile.report("steps").to_arrow().to_pydict()
        assert report["step"][:2] == ["train 0", "train 1"]
        # A step ends with the last op launched in it, and the next one begins there.
        assert report["dur_ns"][:2] == [1_150_000, 1_000_000]
        assert report["kernel_ns"][:2] == [1_000_000, 1_000_000]
        (row,) = profile.report("kernels").to_arrow().to_pylist()
        assert row["per_step_ns"] == 1_000_000
        assert profile.report("steps", step_range="eval *").to_arrow()["step"][0].as_py() == "eval 0"


def test_steps_of_keras_have_their_number_in_the_name(written: Callable[[bytes], Path]) -> None:
    """As `fit` and, in it, its callback annotate them; on JAX the number is in the text alone."""
    for outer, inner, steps in (
        ("train#epoch_num=0,step_num={},_r=1#", "Profiled batch#step_num={}#", "train {}"),
        ("no step", "Profiled batch {}", "Profiled batch {}"),
    ):
        plane = Plane("/host:CPU")
        plane.line(1, "python", [event for i in (3, 4) for event in (
            plane.event(outer.format(i), 100 * i, 60), plane.event(inner.format(i), 100 * i + 5, 50))
        ])  # fmt: skip
        with api.open(written(space([plane]))) as profile:
            report = profile.report("steps").to_arrow().to_pydict()
        assert report["step"][:2] == [steps.format(3), steps.format(4)]


def test_steps_are_not_chosen_if_others_are_named_alike(written: Callable[[bytes], Path]) -> None:
    plane = Plane("/host:CPU")
    plane.line(1, "python", [plane.event("train", 0, 50, step_num=0),
                             plane.event("train input", 60, 5)])  # fmt: skip
    with profile_in_place(written(space([plane]))) as profile:
        assert profile.attributes["step_range"] is None


def test_calls_of_jitted_functions_alone_are_no_steps(written: Callable[[bytes], Path]) -> None:
    plane = Plane("/host:CPU")
    plane.line(1, "python", [plane.event("PjitFunction(step)", 100 * i, 50) for i in range(4)])
    with api.open(written(space([plane]))) as profile:
        assert profile.report("steps").to_arrow()["step"].to_pylist() == ["[whole profile]"]


def test_calls_are_linked_and_what_xla_does_is_an_operator() -> None:
    calls = columns(TRAINING, "api_call", "name", "layer", "correlation_id")
    assert Counter(calls) == Counter(
        [("cuMemcpyHtoDAsync_v2", "driver", 10 * step + 1) for step in range(STEPS)]
        + [("cuLaunchKernel", "driver", 10 * step + i) for step in range(STEPS) for i in (2, 3)]
        + [("cuStreamSynchronize", "driver", None)] * STEPS
        + [("cuMemsetD32Async", "driver", 99)]
    )
    found = Counter(columns(TRAINING, "operator", "name", "tid", "kind"))
    # `wrapped_convert` looks like an annotation, but is inside an execution.
    assert found == {("PjitFunction(step)", THREAD, "operator"): STEPS,
                     ("wrapped_convert", THREAD, "operator"): STEPS,
                     ("fusion.2", POOL, "operator"): 1}  # fmt: skip


def test_memory_events() -> None:
    found = columns(TRAINING, "memory_event", "start_ns", "bytes", "allocated_bytes", "reserved_bytes",
                    "device_id", "address")  # fmt: skip
    assert found[:2] == [(1_100_000, 1 << 20, 3_000_000, None, 0, 4096),
                         (4 * MS, -1 << 20, 1_951_424, None, 0, 4096)]  # fmt: skip
    assert len(found) == 2 * STEPS


def test_python_functions_are_read_on_request_without_their_folder() -> None:
    assert not any(row["kind"] == "python_function" for row in rows(TRAINING, "operator"))
    assert Fact.PYTHON_FUNCTIONS not in facts(TRAINING)
    with opened(TRAINING, ("python_functions",)) as profile:
        assert Fact.PYTHON_FUNCTIONS in profile.facts
        found = [r for r in event_rows(profile, "operator") if r["kind"] == "python_function"]
    assert [(row["name"], row["dur_ns"]) for row in found] == [("train.py:12 load", 400_000)] * STEPS


def test_what_runs_while_the_profiler_starts_or_stops_is_its_own(
    written: Callable[[bytes], Path],
) -> None:
    """The line begins at 1000 µs. The program works, and collects garbage, from 3000 to 3400."""
    plane = Plane("/host:CPU")
    plane.line(1, "python", [plane.event(*each) for each in (
        ("$profiler.py:12 start_trace", 0, 1900), ("CollectGarbage", 100, 2),
        ("PjitFunction(step)", 2000, 300), ("CollectGarbage", 2350, 50),
        ("$profiler.py:34 stop_trace", 2500, 900), ("CollectGarbage", 2600, 3),
    )])  # fmt: skip
    gpu = Plane("/device:GPU:0", NVIDIA)
    gpu.line(5, "Stream #5", [gpu.event("k", 2100, 100, kernel_details="grid:1,1,1 block:1,1,1")])
    path = written(space([plane, gpu]))
    spans = columns(path, "range", "name", "start_ns") + columns(path, "operator", "name", "start_ns")
    assert sorted(spans) == [("CollectGarbage", 3_350_000), ("PjitFunction(step)", 3_000_000)]
    own = columns(path, "overhead", "name", "dur_ns")
    assert Counter(own)["CollectGarbage", 2_000] == Counter(own)["CollectGarbage", 3_000] == 1
    with api.open(path) as profile:
        (row,) = profile.report("summary").to_arrow().to_pylist()
    assert row["span_ns"] == 400_000


def test_the_profile_as_a_whole() -> None:
    with opened(TRAINING) as profile:
        said = profile.attributes
        assert (said["zero_utc_ns"], said["recording_ns"]) == (START, LENGTH)
        assert (said["tool_version"], said["host"]) == ("jax 0.10.2", HOST)
        devices = small_rows(profile, "device")
        assert [row["sm_count"] for row in devices] == [108, None]
        assert (devices[0]["compute_major"], devices[0]["compute_minor"]) == (8, 0)
        assert {row["tid"]: row["name"] for row in small_rows(profile, "thread")} == {
            THREAD: "python", POOL: "tf_XLAPjRtCpuClient"}  # fmt: skip
        assert set(profile.facts) == {
            Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.API_LINKS, Fact.RANGES,
            Fact.OPERATORS, Fact.MEMORY_EVENTS, Fact.THREADS, Fact.DEVICES, Fact.UTC}  # fmt: skip
    assert notes(TRAINING) == {
        "occupancy-theoretical kernels": 3, "python-functions-left-out Python": 3,
        "rows-not-read events": 1, "rows-not-read marks": 3}  # fmt: skip


def test_a_compressed_one_holds_the_same() -> None:
    packed = FOLDER / "training.xplane.pb.gz"
    for table in ("kernel", "memcpy", "api_call", "range", "operator", "memory_event"):
        assert rows(packed, table) == rows(TRAINING, table)


# -- traps


def test_garbage_and_missing_names_of_an_amd_gpu() -> None:
    first, nameless, shared = rows(ODD, "kernel")
    assert [first[key] for key in ("name", "start_ns", "dur_ns", "grid_x", "block_x")] == [
        "im2col", 1_010_000, 2000, 8, 64]  # fmt: skip
    for row in (first, nameless):
        assert row["registers_per_thread"] is row["static_shared_bytes"] is None
        assert row["dynamic_shared_bytes"] is None
    assert nameless["name"] is None
    # Details that all events of a name share; a correlation of 0 is none.
    names = ("name", "correlation_id", "grid_x", "shared_bytes", "local_bytes_per_thread")
    assert [shared[name] for name in names] == ["fill", None, 4, 64, 8]
    with opened(ODD) as profile:
        (device,) = small_rows(profile, "device")
    assert (device["device_id"], device["sm_count"], device["compute_major"]) == (3, 304, None)


def test_odd_events_are_left_out_and_counted_with_the_place_of_the_first() -> None:
    assert notes(ODD) == {
        "rows-not-read events": 2, "rows-not-read planes": 1, "negative-duration events": 1,
        "impossible-time events": 2, "category-unknown events": 1, "nameless-id events": 2,
        "details-not-believed kernels": 2, "api-names-missing API": 1, "profiler-diagnostic errors": 1,
    }  # fmt: skip
    with opened(ODD) as profile:
        found = {n.text.split(" were left")[0]: n for n in profile.notes}
    counted = found["events that only count occurrences"]
    assert counted.severity is Severity.DROPPED
    at = int(counted.where.removeprefix("byte ").replace(",", ""))
    assert odd()[at : at + 4] == item(1, 1) + item(5, 12)


def test_calls_named_as_their_kernel_are_unnamed_and_linked() -> None:
    assert columns(ODD, "api_call", "name", "layer", "correlation_id") == [
        ("(unnamed launch)", None, 5), ("hipMemcpyDtoDAsync", "runtime", 7)]  # fmt: skip
    assert Fact.API_LINKS in facts(ODD)
    with api.open(ODD) as profile:
        launched = profile.report("launch_stats").to_arrow().to_pydict()
    assert (launched["name"], launched["launch_count"]) == (
        ["(unnamed launch)", "hipMemcpyDtoDAsync"], [1, 1])  # fmt: skip


def test_directions() -> None:
    assert columns(ODD, "memcpy", "bytes", "direction", "peer_device_id") == [
        (655_360, "DtoD", None), (655_360, "Unknown", None)]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "line", "vendor", "expected"), [
    ("kind_src:device kind_dst:pageable size:8", "x", "", "Nvidia", ("DtoH", None)),
    ("kind_src:device kind_dst:managed size:8", "MemcpyD2D", "", "Nvidia", ("DtoD", None)),
    ("size:8 dest:1", "MemcpyP2P", "", "Nvidia", ("PtoP", 1)),
    ("size:8 dest:1", "MemcpyP2P", "", "AMD", ("PtoP", None)),
    ("size:8 dest:8", "MemcpyH2D", "Stream #1(MemcpyD2H)", "", ("HtoD", None)),
    ("kind:DeviceToHost size:8", "MemcpyOther", "", "AMD", ("DtoH", None)),
    ("size:8", "MemcpyOther", "Stream #1(Kernel,MemcpyD2H)", "", ("DtoH", None)),
    ("size:8", "MemcpyOther", "Stream #1(MemcpyH2D,MemcpyD2H)", "", ("Unknown", None)),
])  # fmt: skip
def test_direction_of_a_copy(
    text: str, name: str, line: str, vendor: str, expected: tuple[str, int | None]
) -> None:
    from nsysconv.codes import DIRECTIONS

    _, direction, *_, peer = details.copy_details(text, name, line, vendor)
    assert (DIRECTIONS[direction], None if peer == MISSING else peer) == expected


def test_numbers_that_cannot_be_are_null() -> None:
    *found, is_garbage = details.kernel_details(GARBAGE)
    assert (found[:6], is_garbage) == ([8, 1, 1, 64, 1, 1], 1)
    assert set(found[6:]) == {MISSING}
    assert set(details.kernel_details("grid:1,2 regs:x occ_pct:0")[:-1]) == {MISSING}


def test_a_cpu_profile_holds_no_gpu_facts(written: Callable[[bytes], Path]) -> None:
    plane = Plane("/host:CPU")
    plane.line(1, "main", [plane.event("mine", 0, 5), plane.event("step", 10, 5, step_num=0),
                           plane.event("mine", 20, 5)])  # fmt: skip
    path = written(space([plane]))
    assert facts(path) == {Fact.RANGES, Fact.OPERATORS, Fact.THREADS}
    # On a thread that is not Python's, the program's annotations are known by its steps.
    assert {name for (name,) in columns(path, "range", "name")} == {"mine", "step 0"}
    assert notes(path) == {"no-gpu-work the": 1}


def test_a_line_has_its_head_first(written: Callable[[bytes], Path]) -> None:
    """As all writers of protobuf put it; what is behind its events is no part of it."""
    plane = Plane("/device:GPU:0", NVIDIA)
    event = plane.event("k", 1, 1, correlation_id=Unsigned(1), kernel_details="grid:1,1,1 block:1,1,1")
    head, events = item(2, "Stream #5") + item(3, 1000), item(4, event) + item(4, event)
    plane.lines = [head + events + item(11, "x")]
    found = columns(written(space([plane])), "kernel", "start_ns", "dur_ns", "stream_id")
    assert found == [(2000, 1000, 5)] * 2
    plane.lines = [events + head]
    assert "not valid protobuf at byte" in str(refusal(written(space([plane]))))


def test_times_since_1970_become_the_zero(written: Callable[[bytes], Path]) -> None:
    plane = Plane("/device:GPU:0", NVIDIA)
    for stream in (1, 2):
        event = plane.event("k", 1, 1, correlation_id=Unsigned(stream))
        plane.line(stream, f"Stream #{stream}", [event], START + stream)
    path = written(space([plane]))
    with opened(path) as profile:
        assert profile.attributes["zero_utc_ns"] == START + 1
        assert [row["start_ns"] for row in event_rows(profile, "kernel")] == [1000, 1001]


def test_many_events_come_in_windows(
    written: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planes, "WINDOW_BYTES", 300)
    path = written(training())
    for table in ("kernel", "api_call", "range", "operator"):
        assert rows(path, table) == rows(TRAINING, table)


def test_programs_of_many_bytes_are_not_read(written: Callable[[bytes], Path]) -> None:
    program = Plane("/host:metadata", {"hlo": b"x" * (8 << 20)}, names={"jit": 1},
                    shared={"jit": {"hlo": b"y" * (8 << 20)}})  # fmt: skip
    path = written(space([host(), program]))
    tracemalloc.start()
    assert len(rows(path, "range")) == 1 + 2 * STEPS
    assert tracemalloc.get_traced_memory()[1] < 7 << 20
    tracemalloc.stop()


# -- damage


def test_a_tpu_is_refused_in_words(written: Callable[[bytes], Path]) -> None:
    assert "of TPUs, whose work nsysconv does not read" in str(refusal(written(tpu())))


def test_a_file_without_gpu_and_host_is_refused(written: Callable[[bytes], Path]) -> None:
    assert "without a plane of a GPU or of the host" in str(refusal(written(space([environment()]))))


def test_a_cut_file_is_refused_with_what_is_missing(written: Callable[[bytes], Path]) -> None:
    content = training()
    assert "the file is cut off: 100 bytes" in str(refusal(written(content[: -len(item(4, HOST)) - 100])))
    for size in range(200, len(content), 397):
        path = written(content[:size])
        if "xplane" in claimed_by(path):
            with pytest.raises(InputError, match=r"cut off|not valid") as caught, profile_in_place(path):
                pass
            assert caught.value.hint, size


def test_a_transfer_as_text_is_refused_with_its_place(written: Callable[[bytes], Path]) -> None:
    content = training().decode("utf-8", "replace").encode()
    path = written(content)
    assert claimed_by(path) == ["xplane"]
    assert "not valid protobuf at byte" in str(refusal(path))
    assert "copied as text" in str(refusal(path))


def test_a_damaged_event_is_named_by_its_byte(written: Callable[[bytes], Path]) -> None:
    content = training()
    needle = item(1, 1) + item(2, 700 * US)
    at = content.index(needle)
    path = written(content[:at] + b"\x0f" + content[at + 1 :])
    assert f"not valid protobuf at byte {at:,}" in str(refusal(path))


def test_damaged_gzip_is_refused(written: Callable[[bytes], Path]) -> None:
    packed = gzip.compress(training() * 1)
    assert "damaged or cut off" in str(refusal(written(packed[:-200])))


@pytest.mark.parametrize("name", ["converted__jax_conv_minimal_legacy.trace.json.gz",
                                  "own__jax_0.10.2_cpu__perfetto_trace.json.gz"])  # fmt: skip
@real
def test_traces_for_viewing_are_pointed_to_the_profile(name: str) -> None:
    message = str(refusal(JAX / name))
    assert "XLA profiler" in message
    assert ".xplane.pb" in message


def test_a_program_beside_the_profile_is_named(written: Callable[[bytes], Path]) -> None:
    module = item(1, "jit_step") + item(2, "main.5") + item(3, b"")
    message = str(refusal(written(item(1, module + item(3, b"x" * 300)))))
    assert "XLA program" in message
    assert ".xplane.pb" in message


# -- real files


def sums(path: Path, table: str, *by: str) -> dict[tuple[object, ...], tuple[int, int]]:
    found: dict[tuple[object, ...], list[int]] = {}
    for row in rows(path, table):
        entry = found.setdefault(tuple(row[name] for name in by), [0, 0])
        entry[0] += 1
        entry[1] += row["dur_ns"]
    return {key: (count, ns) for key, (count, ns) in found.items()}


def memory(path: Path) -> tuple[int, int, int, int]:
    sizes = [row["bytes"] for row in rows(path, "memory_event")]
    taken, freed = [s for s in sizes if s > 0], [-s for s in sizes if s < 0]
    return len(taken), sum(taken), len(freed), sum(freed)


def linked(path: Path) -> int:
    calls = {row["correlation_id"] for row in rows(path, "api_call")}
    return sum(row["correlation_id"] in calls for t in ("kernel", "memcpy") for row in rows(path, t))


def python_rows(path: Path) -> int:
    found = rows(path, "operator", ("python_functions",))
    return sum(row["kind"] == "python_function" for row in found)


@real
def test_counts_and_sums_of_provenance() -> None:
    with (JAX / "PROVENANCE_jax_xplane.tsv").open(encoding="utf-8", newline="") as file:
        said = {row["file"]: row["what it holds"] for row in csv.DictReader(file, delimiter="\t")}
    for path in (FUSED, LEGACY, TENSORFLOW):
        for table in ("kernel", "memcpy"):
            found = sums(path, table).get((), (0, 0))
            words = f"{table} {found[0]} events, {found[1] * 1000} ps"
            assert (words in said[path.name]) == bool(found[0]), words
            assert found[0] or f"{table} " not in said[path.name]


@real
def test_te_fused_attn() -> None:
    assert sums(FUSED, "kernel", "device_id") == {(0,): (150, 12_133_585)}
    assert Counter(name for (name,) in columns(FUSED, "api_call", "name")) == {
        "hipModuleLaunchKernel": 75, "hipLaunchKernel": 50, "hipMemsetAsync": 20,
        "hipExtModuleLaunchKernel": 5}  # fmt: skip
    assert memory(FUSED) == (30, 2_124_952_064, 29, 2_116_563_200)
    # Of 59 Python events two are the profiler's own.
    assert (linked(FUSED), python_rows(FUSED)) == (150, 57)
    # So is the garbage that is collected meanwhile.
    assert {name for (name,) in columns(FUSED, "overhead", "name")} == {
        "PythonRefManager::CollectGarbage", "profiler.py:101 start_trace",
        "profiler.py:213 stop_trace"}  # fmt: skip
    with opened(FUSED) as profile:
        said = profile.attributes
        assert (said["zero_utc_ns"], said["recording_ns"]) == (1779266702889805563, 9_731_909_612)
        assert len(small_rows(profile, "device")) == 8
        assert Fact.MEMSETS not in profile.facts
    assert notes(FUSED)["copies-as-kernels kernels"] == 20


@real
def test_jax_conv_minimal_legacy() -> None:
    assert sums(LEGACY, "kernel", "device_id") == {(7,): (25, 3_586_493)}
    copies = sums(LEGACY, "memcpy", "device_id", "direction", "stream_id")
    assert {key: count for key, (count, _) in copies.items()} == {
        (0, "DtoD", 7): 10, (0, "DtoD", 8): 15, (0, "DtoD", 9): 14, (0, "DtoD", 10): 14}  # fmt: skip
    assert sum(ns for _, ns in copies.values()) == 889_028
    assert sum(row["bytes"] for row in rows(LEGACY, "memcpy")) == 34_734_080
    assert Counter(name for (name,) in columns(LEGACY, "api_call", "name")) == {
        "hipMemcpyDtoDAsync": 53, "(unnamed launch)": 25}  # fmt: skip
    assert memory(LEGACY) == (230, 92_133_806_080, 230, 92_133_806_080)
    assert (linked(LEGACY), python_rows(LEGACY)) == (78, 2646)
    with opened(LEGACY) as profile:
        assert profile.attributes["zero_utc_ns"] == 1757516928109201518
    found = rows(LEGACY, "memcpy")
    span = max(r["start_ns"] + r["dur_ns"] for r in found) - min(r["start_ns"] for r in found)
    assert span == 27_867_728


@real
def test_tf_gpu_multi_worker() -> None:
    kernels = sums(TENSORFLOW, "kernel", "device_id")
    assert {key: count for key, (count, _) in kernels.items()} == {(4,): 665, (6,): 665}
    assert sum(ns for _, ns in kernels.values()) == 29_690_748
    assert sums(TENSORFLOW, "memcpy")[()] == (226, 471_357)
    assert sum(row["bytes"] for row in rows(TENSORFLOW, "memcpy")) == 155_006
    assert {name for (name,) in columns(TENSORFLOW, "api_call", "name")} == {"(unnamed launch)"}
    assert linked(TENSORFLOW) == 1556
    assert memory(TENSORFLOW) == (1859, 7_121_981_184, 634, 2_729_656_320)
    assert notes(TENSORFLOW)["rows-not-read events"] == 2 + 4886 + 1330
    assert Fact.UTC not in facts(TENSORFLOW)


@real
def test_steps_of_the_own_file(tmp_path: Path) -> None:
    """As the events of the file have them: offsets and durations, with 5.936 µs of their line."""
    expected = [(75_736, 4_921_913), (5_032_962, 1_759_333), (6_815_170, 1_187_512),
                (8_010_418, 1_148_950), (9_172_625, 1_256_159)]  # fmt: skip
    api.import_files([OWN], tmp_path / "own.db")
    for target in (OWN, tmp_path / "own.db"):
        (report,) = api.report_on(target, "steps")
        found = [row for row in report.rows() if row["step"].startswith("train ")]
        assert [row["step"] for row in found] == [f"train {i}" for i in range(5)]
        assert [(row["start_ns"], row["dur_ns"]) for row in found] == expected


@real
@pytest.mark.parametrize("path", [FUSED, LEGACY, TENSORFLOW])
def test_files_without_annotated_steps_have_none(path: Path) -> None:
    with opened(path) as profile:
        assert profile.attributes["step_range"] is None


@real
def test_own_cpu_file() -> None:
    assert Counter(name for (name,) in columns(OWN, "range", "name")) == {
        "my_range": 5, **{f"train {step}": 1 for step in range(5)}}  # fmt: skip
    assert facts(OWN) == {Fact.OVERHEAD, Fact.RANGES, Fact.OPERATORS, Fact.THREADS, Fact.UTC}
    with opened(OWN) as profile:
        assert profile.attributes["tool_version"] == "jax 0.10.2"
        assert profile.attributes["step_range"] == "train *"
        assert [row["pid"] for row in small_rows(profile, "process")] == [15145]


def test_words_of_the_fixture_are_those_of_the_reader() -> None:
    assert {details.host_name(name).kind for name in ("my_range", "load batch")} == {details.ANY}
    for name in ("ParseArguments", "Wait for usage holds", "Handle inputs", "a/b:MatMul", "end: x"):
        assert details.host_name(name).kind == details.RUNTIME, name
    assert details.host_name("eval#step_num=3,_r=1#") == (details.ANY, "eval", 3)
    assert details.host_name("ProfilerStep#3") == (details.ANY, "ProfilerStep#3", MISSING)
    assert Ref("x") == "x"
