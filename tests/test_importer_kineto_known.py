"""Events of known categories: read with less in them, they give the rows that they give in full."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL_TRACES, few, real

from nsysconv.importers.kineto import decode
from nsysconv.importers.kineto.arrays import tables_of
from nsysconv.importers.kineto.decode import decode_text
from nsysconv.importers.kineto.events import (
    CATEGORIES,
    PASSED_OVER,
    Args,
    decode_events,
    decode_known_events,
)
from nsysconv.importers.kineto.packed import Chunk

# What no fixture holds: copies among the kernels, bytes given on the API call, a copy between devices.
OLD = (
    {"ph": "X", "cat": "kernel", "name": "CopyHostToDevice", "pid": 0, "tid": 7, "ts": 5, "dur": 2,
     "args": {"device": 0, "stream": 7, "correlation": 3, "bytes": 64, "toDevice": 1,
              "graph node id": 9}},
    {"ph": "X", "cat": "kernel", "name": "FillBuffer", "pid": 0, "tid": 7, "ts": 8, "dur": 2,
     "args": {"device": 0, "stream": 7, "correlation": 4, "bytes": 32}},
    {"ph": "X", "cat": "cuda_runtime", "name": "hipMemcpy", "pid": 5, "tid": 5, "ts": 1, "dur": 2,
     "args": {"correlation": 3, "size": 64}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "pid": 0, "tid": 7,
     "ts": 11, "dur": 2, "args": {"fromDevice": 0, "inDevice": 0, "toDevice": 1, "inContext": 1}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 5, "tid": 5, "ts": 9,
     "args": {"Addr": 1, "Bytes": 2, "Total Allocated": 3, "Total Reserved": 4, "Device Id": 0,
              "Device Type": 1}},
)  # fmt: skip


def text_of(events: list[Any]) -> bytes:
    """Those of known categories, as a chunk of a trace."""
    known = CATEGORIES.keys() | PASSED_OVER
    found = [
        event for event in events if isinstance(event.get("cat"), str) and event["cat"] in known
    ]
    return b",\n".join(json.dumps(event).encode() for event in found)


def events_of(path: Path) -> list[Any]:
    """The events of a trace; none of one that is not JSON."""
    content = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (ValueError, EOFError):
        return []
    return found if isinstance(found, list) else list(found.get("traceEvents", []))


def contents_of(chunk: Chunk) -> dict[str, Any]:
    """All that a chunk holds, to be compared."""
    tables = tables_of(chunk, 0)
    found = asdict(chunk)
    found["tables"] = {
        table: {name: values.tolist() for name, values in columns.items()}
        for table, columns in tables.items()
    }
    return found


def require_the_same(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(decode_known_events(b"[%b]" % text)) == len(decode_events(b"[%b]" % text))
    found = contents_of(decode_text(text, 0, python_functions=True))
    monkeypatch.setattr(decode, "decode_known_events", decode_events)
    assert found == contents_of(decode_text(text, 0, python_functions=True))


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "kineto").iterdir()), ids=lambda path: path.name
)
def test_fixtures(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_the_same(text_of(events_of(path)), monkeypatch)


def test_odd_events(monkeypatch: pytest.MonkeyPatch) -> None:
    require_the_same(text_of(list(OLD)), monkeypatch)


@real
@pytest.mark.parametrize("path", few(REAL_TRACES, 2), ids=lambda path: path.name)
def test_real_traces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_the_same(text_of(events_of(path)), monkeypatch)


@pytest.mark.parametrize("category", sorted(CATEGORIES))
def test_all_args_of_a_category(category: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the keys that an event may have, with a number of its own."""
    args: dict[str, Any] = {key: 100 + i for i, key in enumerate(Args.__struct_encode_fields__)}
    for key in ("grid", "block", "grid dim", "block dim"):
        args[key] = [args[key], 2, 3]
    names = ("k", "[memory]", "record_param_comms", "CopyPeer", "CopyHostToDevice", "FillBuffer")
    events = [
        {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 5,
            "tid": 6,
            "ts": 7,
            "dur": 8,
            "args": some,
        }
        for name in names
        for some in (args, {}, *({key: value} for key, value in args.items()))
    ]
    require_the_same(text_of(events), monkeypatch)


def test_an_unknown_category_beside_known_ones() -> None:
    """Its row, known by its stream, is not lost, nor is that of its neighbor."""
    kernel = {"ph": "X", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2,
              "args": {"device": 0, "stream": 7}}  # fmt: skip
    text = b",".join(
        json.dumps({**kernel, "cat": cat}).encode() for cat in ("kernel", "new_kernel")
    )
    chunk = decode_text(text, 0, python_functions=False)
    assert tables_of(chunk, 0)["kernel"]["start_ns"].tolist() == [5000, 5000]
    assert chunk.counts == {"category assumed": 1}


def test_bytes_that_are_no_utf8_are_noted_in_skipped_events() -> None:
    text = b'{"ph": "X", "cat": "gpu_user_annotation", "name": "a\xff", "ts": 5, "dur": 2}'
    chunk = decode_text(text, 0, python_functions=False)
    assert chunk.counts == {"no UTF-8": 1}
