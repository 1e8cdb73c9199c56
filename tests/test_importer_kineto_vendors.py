"""What other vendors' back ends and early releases write otherwise, event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import event_rows, import_file, small_rows

from nsysconv.store.read import Profile, reading

Event = dict[str, Any]

CPU = 4711
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

    return imported


def table_rows(profile: Profile, table: str) -> list[dict[str, Any]]:
    if table == "note":
        return [{"slug": note.slug, "count": note.count} for note in profile.notes]
    if table in ("device", "process"):
        return small_rows(profile, table)
    return event_rows(profile, table)


def test_bytes_of_a_copy_stand_on_its_call(rows: Any) -> None:
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


def test_copies_that_were_kernels(rows: Any) -> None:
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


def test_an_agent_number_is_no_id_of_a_description(rows: Any) -> None:
    """ROCm runs on agent 2 and describes devices 0 and 1: alike, so that is what it is."""
    alike = {"name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64,
             "maxThreadsPerMultiprocessor": 2048}  # fmt: skip
    kernel = on_gpu("kernel", "k", 10, 4, device=2, stream=0, correlation=3)
    of = rows(kernel, deviceProperties=[{"id": 0, **alike}, {"id": 1, **alike}])
    (device,) = of("device")
    assert (device["device_id"], device["name"], device["sm_count"]) == (
        2, "AMD Instinct MI300X", 304)  # fmt: skip
    assert device["max_warps_per_sm"] == 32


def test_different_descriptions_name_no_other_device(rows: Any) -> None:
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


def test_a_peer_copy_ran_where_it_says(rows: Any) -> None:
    """It has no `device` of its own."""
    of = rows(
        event("cuda_runtime", "cudaMemcpyPeerAsync", 10, 5, correlation=3),
        on_gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 16, 4, correlation=3, bytes=64,
               fromDevice=0, inDevice=0, toDevice=1, inContext=1),
    )  # fmt: skip
    (copy,) = of("memcpy")
    assert (copy["device_id"], copy["peer_device_id"], copy["context_id"]) == (0, 1, 1)


def test_streams_that_are_texts(rows: Any) -> None:
    """PyTorch 1.8 tells device and stream by the row only."""
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


def test_unknown_categories_are_told_by_what_they_carry(rows: Any) -> None:
    of = rows(
        event("newdevice_runtime", "ndLaunch", 5, 2, correlation=3, cbid=7),
        on_gpu("newdevice_op", "k", 10, 4, device=0, stream=1, correlation=3),
        event("weather", "rain", 10, 4),
    )
    assert len(of("api_call")) == len(of("kernel")) == 1
    notes = {note["slug"]: note["count"] for note in of("note")}
    assert (notes["category-assumed"], notes["category-unknown"]) == (2, 1)


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
    import nsysconv

    result = nsysconv.import_files([path], tmp_path / "store.db")
    assert [each.label for each in result.files[0].imported] == ["merged", "merged-pid200"]
    with reading(tmp_path / "store.db") as store:
        for profile, pid in zip(store.profiles(), (100, 200), strict=True):
            (kernel,) = event_rows(profile, "kernel")
            assert (kernel["name"], kernel["pid"]) == (f"k{pid}", pid)
            assert "process-assumed" in {note.slug for note in profile.notes}
    again = nsysconv.import_files([path], tmp_path / "store.db")
    assert [each.existing for each in again.files[0].imported] == [True, True]
