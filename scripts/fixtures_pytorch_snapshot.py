"""Memory snapshots: a GPU that runs out of memory, and one that holds a block, in round numbers.

bytes of GPU 0                                   in use  reserved
before                                            1,300     5,120   weights 1,000, another block 300
 10 us  alloc A 500         model.py(20) forward  1,800     5,120
 20 us  segment_alloc 2,048                       1,800     7,168
 30 us  alloc B 2,000     model.py(30) attention  3,800     7,168   the peak
 40 us  oom: asked for 4,000, 100 were free       3,800     7,168
 60 us  B is freed                                1,800     7,168
 70 us  the other block is freed                  1,500     7,168
 80 us  segment_free 1,024                        1,500     6,144
 90 us  alloc C 64, in the backward pass          1,564     6,144
100 us  C is freed                                1,500     6,144

at the end: weights 1,000 of 1,024, A 500 of 512; 2,560 and 2,048 are inactive.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fixture import Fixture

T0_US = 1_767_225_600_000_000
SECRET = "hunter2-snapshot"
"""Lies where a snapshot has texts that nobody needs."""

FIRST, SECOND, THIRD = 1_000_000, 2_000_000, 3_000_000
WEIGHTS, A, B, OTHER, C = FIRST, FIRST + 1024, SECOND, THIRD, SECOND
_SITE = f"/home/{SECRET}/venv/lib/python3.11/site-packages"


def frame(filename: str, line: int, name: str) -> dict[str, Any]:
    """Return a frame, with its keys in their order."""
    return {"name": name, "filename": filename, "line": line}


_EMPTY = frame("??", 0, "at::detail::empty_cuda(c10::ArrayRef<long>)")
_TRAIN = frame(f"/home/{SECRET}/train.py", 5, "<module>")
_INIT = [_EMPTY, frame(f"/home/{SECRET}/model.py", 10, "__init__"), _TRAIN]
_FORWARD = [_EMPTY, frame(f"/home/{SECRET}/model.py", 20, "forward"), _TRAIN]
_EINSUM = frame(f"{_SITE}/torch/functional.py", 407, "einsum")
_ATTENTION = [_EMPTY, _EINSUM, frame(f"/home/{SECRET}/model.py", 30, "attention"), _TRAIN]
_NODE = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"
_BACKWARD = [_EMPTY, frame("??", 0, _NODE), frame("??", 0, f"{SECRET}::clone")]


def event(at_us: int, action: str, addr: int, size: int, frames: Any = ()) -> dict[str, Any]:
    """Return an entry of a trace; one of an allocation that failed has what was free for `addr`."""
    place = "device_free" if action == "oom" else "addr"
    return {"action": action, place: addr, "size": size, "stream": 0, "time_us": T0_US + at_us,
            "compile_context": SECRET, "user_metadata": SECRET, "frames": [*frames]}  # fmt: skip


def block(
    address: int, size: int, requested: int, state: str = "active_allocated", frames: Any = ()
) -> dict[str, Any]:
    """Return a block of a segment."""
    return {"address": address, "size": size, "requested_size": requested, "state": state,
            "frames": [*frames]}  # fmt: skip


def segment(device: int, address: int, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a segment that its blocks fill."""
    used = [each for each in blocks if each["state"] != "inactive"]
    sizes = {
        "total_size": sum(each["size"] for each in blocks),
        "allocated_size": sum(each["size"] for each in used),
        "active_size": sum(each["size"] for each in used),
        "requested_size": sum(each["requested_size"] for each in used),
    }
    return {"device": device, "address": address, **sizes, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": [*blocks]}  # fmt: skip


def training() -> dict[str, Any]:
    """Return the snapshot of the table above, with a second GPU that holds 200 bytes."""
    events = [
        event(10, "alloc", A, 500, _FORWARD),
        event(20, "segment_alloc", SECOND, 2048, _ATTENTION),
        event(30, "alloc", B, 2000, _ATTENTION),
        event(40, "oom", 100, 4000, _ATTENTION),
        event(50, "free_requested", B, 2000),
        event(60, "free_completed", B, 2000),
        event(70, "free_completed", OTHER, 300),
        event(80, "segment_free", THIRD, 1024),
        event(90, "alloc", C, 64, _BACKWARD),
        event(95, "free_requested", C, 64),
        event(100, "free_completed", C, 64),
        event(110, "snapshot", 0, 0),
    ]
    return {
        "segments": [
            segment(0, FIRST, block(WEIGHTS, 1024, 1000, frames=_INIT),
                    block(A, 512, 500, frames=_FORWARD), block(FIRST + 1536, 2560, 2500, "inactive")),
            segment(0, SECOND, block(SECOND, 2048, 64, "inactive")),
            segment(1, FIRST, block(FIRST, 256, 200)),
        ],
        "device_traces": [events, []],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": SECRET, "max_split_size": -1,
                               "garbage_collection_threshold": 0.5},
        "external_annotations": [{"stage": "START", "name": SECRET, "device": 0, "time_us": T0_US}],
    }  # fmt: skip


def old() -> dict[str, Any]:
    """Return the same as PyTorch 2.0 wrote it: no times, blocks without addresses, and their history."""
    found = training()
    for each in found["segments"]:
        for name in ("segment_pool_id", "is_expandable", "frames"):
            del each[name]
        for own in each["blocks"]:
            frames = own.pop("frames")
            address = own.pop("address")
            if frames:
                real = own["requested_size"]
                own["history"] = [{"addr": address, "real_size": real, "frames": frames}]
    for each in found["device_traces"][0]:
        for name in ("time_us", "compile_context", "user_metadata"):
            del each[name]
    return {"segments": found["segments"], "device_traces": found["device_traces"]}


def without_history() -> dict[str, Any]:
    """Return what is dumped if no history was recorded, with a block that another stream still uses."""
    waiting = block(SECOND, 2048, 2000, "active_awaiting_free")
    return {"segments": [segment(0, FIRST, block(FIRST, 1024, 1000)), segment(0, SECOND, waiting)],
            "device_traces": [[]]}  # fmt: skip


def segments_only() -> list[Any]:
    """Return what `torch.cuda.memory_snapshot()` returns."""
    segments: list[Any] = training()["segments"]
    return segments


def _write(make: Callable[[], Any], protocol: int, path: Path) -> None:
    path.write_bytes(pickle.dumps(make(), protocol=protocol))


ABOUT = """\
`pytorch_snapshot/` holds memory snapshots as `torch.cuda.memory._dump_snapshot()` writes them
(`scripts/fixtures_pytorch_snapshot.py`), with a made-up secret in folders, settings and annotations.
"""
EXAMPLE = "pytorch_snapshot/training.pickle"
FILES = [
    Fixture(f"pytorch_snapshot/{name}.pickle", holds, partial(_write, make, protocol))
    for name, holds, make, protocol in (
        ("training", "a peak and an allocation that failed, as of PyTorch 2.7", training, 4),
        ("old", "the same, as of PyTorch 2.0", old, 2),
        ("text", "the same, in the text protocol", training, 0),
        ("without_history", "blocks, and no events", without_history, 4),
        ("segments_only", "a list of segments", segments_only, 5),
    )
]
