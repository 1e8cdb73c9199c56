"""Damaged, hostile and merely odd Kineto traces, made by hand: rows and a note, or an error.

Cuts and changed bytes anywhere are tried in test_fuzz.py.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from bounds import within
from conftest import (
    CHILD_ENVIRONMENT,
    EVENTS,
    FIXTURES,
    Row,
    Shelf,
    event_rows,
    few,
    name_of,
    small_rows,
)
from whole import LEFT_OUT, Found, found_in

from nsysconv import api
from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers.kineto import arrays, decode, trace
from nsysconv.importers.kineto.decode import batch_bounds, decode_text
from nsysconv.importers.kineto.packed import MISSING, Chunk
from nsysconv.store.location import reading

KINETO = FIXTURES / "kineto"
SECRET = b"SECRET-"
SECONDS = 10
WHOLE_FIXTURES = sorted(
    path for path in KINETO.iterdir()
    if path.name not in ("odd-autograd.json", "odd-browser.json")
    and "truncated" not in path.name and "cut-short" not in path.name
)  # fmt: skip


def _imported(source: Path, store: Path) -> Found | None:
    """What is in the store of a file; None where it is refused in words, and nothing is left."""
    with within(SECONDS):
        (file,) = api.import_files([source], store).files
    if file.error is not None:
        assert not store.exists()
        assert str(source) in str(file.error)
        return None
    return found_in(store)


# -- fixtures made by hand

BASIC = {"api_call": 18, "kernel": 8, "memcpy": 7, "memset": 1, "range": 5, "sync": 2,
         "overhead": 4}  # fmt: skip
BASIC_CUT = {"api_call": 11, "kernel": 4, "memcpy": 6, "range": 5}
SMALL = {"api_call": 9, "kernel": 4, "memcpy": 2, "memset": 2}
# 1.9 has annotations among operators and no waits; three rows have impossible times.
OLD = {"api_call": 16, "kernel": 7, "memcpy": 6, "memset": 1, "operator": 5}
# File: its rows, and its notes but for api-calls-partial.
ODD: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "odd-backslash.json": (BASIC, {"json-repaired": 3, "metadata-unreadable": 1}),
    "odd-bare-inf.json": (BASIC, {"json-repaired": 4}),
    "odd-compact.json": (BASIC, {}),
    "odd-control-character.json": (BASIC, {"json-repaired": 2}),
    "odd-cut-short.json.gz": (BASIC_CUT, {"trace-truncated": 1}),
    "odd-durations.json": (OLD, {"impossible-time": 2, "negative-duration": 1, "json-repaired": 1,
                                 "coarse-times": 1}),
    "odd-future.json": (BASIC, {"category-unknown": 1}),
    "odd-invalid-utf8.json": (BASIC, {"json-repaired": 3}),
    "odd-list.json.gz": (BASIC, {"no-time-base": 1, "device-unnamed": 1}),
    "odd-no-events.json": ({}, {"no-time-base": 1, "no-gpu-work": 1}),
    "odd-quotes-old-layout.json": (BASIC, {"json-repaired": 2}),
    "odd-quotes.json": (BASIC, {"json-repaired": 2, "metadata-unreadable": 1}),
    "odd-reprinted.json.gz": (BASIC, {}),
    "odd-secrets.json": (BASIC, {}),
    "odd-small-pid.json": (SMALL, {}),
    "odd-trailing-comma.json": (BASIC, {}),
    "odd-truncated-no-base.json": (BASIC_CUT, {"trace-truncated": 1, "no-time-base": 1}),
    "odd-truncated.json": (BASIC_CUT, {"trace-truncated": 1}),
}  # fmt: skip
REFUSED = {"odd-autograd.json": "old autograd profiler", "odd-browser.json": "not of PyTorch's"}
def test_every_odd_fixture_is_here() -> None:
    odd = {path.name for path in KINETO.glob("odd-*")}
    assert odd == {*ODD, *REFUSED, "odd-merged-ranks.json.gz"}


@pytest.mark.parametrize("name", ODD)
def test_notes_and_rows_of_an_odd_trace(shelf: Shelf, name: str) -> None:
    found = found_in(shelf.store(KINETO / name))
    del found.notes["api-calls-partial"]
    assert (found.timed, found.notes) == ODD[name]


@pytest.mark.parametrize("name", REFUSED)
def test_another_programs_trace_is_refused_in_words(tmp_path: Path, name: str) -> None:
    (file,) = api.import_files([KINETO / name], tmp_path / "store.db").files
    assert file.error is not None
    assert REFUSED[name] in file.error.what
    assert not (tmp_path / "store.db").exists()


# -- content made by hand

HEAD = (b'{"schemaVersion": 1, "baseTimeNanoseconds": 1767225600000000000, "deviceProperties": '
        b'[{"id": 0, "name": "A GPU"}], "traceEvents": [')  # fmt: skip
TAIL = b'], "traceName": "x"}'
KERNEL = (
    b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.000, '
    b'"dur": 2.000, "args": {"device": 0, "stream": 7, "context": 1, "correlation": 5}}'
)
CALL = (b'{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 42, "tid": 43, '
        b'"ts": 0.500, "dur": 1.000, "args": {"cbid": 211, "correlation": 5}}')  # fmt: skip
BOTH = {"kernel": 1, "api_call": 1}


def _trace(*events: bytes, head: bytes = HEAD, tail: bytes = TAIL) -> bytes:
    return head + b",\n".join(events) + tail


def _kernel(old: bytes, new: bytes) -> bytes:
    """A kernel with one thing spelled otherwise, and its call."""
    assert old in KERNEL
    return _trace(KERNEL.replace(old, new), CALL)


def _call(old: bytes, new: bytes) -> bytes:
    assert old in CALL
    return _trace(KERNEL, CALL.replace(old, new))


_DEEP = 100_000
_BIG = 9_999_999_999_999_999_999_999
_NAN = {"json-repaired": 1, "wrong-type": 1, "gpu-activity-missing": 1}
_NO_TIME = {"wrong-type": 1, "gpu-activity-missing": 1}
_IMPOSSIBLE = {"impossible-time": 1, "gpu-activity-missing": 1}
_GUESSED, _UNTIMED = {"category-assumed": 1}, {"wrong-type": 1}
ONE_CALL, ONE_KERNEL = {"api_call": 1}, {"kernel": 1}
# Content, the rows of it, and its notes but for api-calls-partial.
CASES: dict[str, tuple[bytes, dict[str, int], dict[str, int]]] = {
    "nothing odd": (_trace(KERNEL, CALL), BOTH, {}),
    "nested deep in an event": (
        _trace(KERNEL, b'{"ph": "X", "cat": "kernel", "args": {"a": ' + b"[" * _DEEP
               + b"]" * _DEEP + b"}}", CALL), BOTH, {"event-unreadable": 1}),
    "nested deep and never closed": (
        _trace(KERNEL, CALL, b'{"ph": "X", "args": ' + b"[" * _DEEP, tail=b""),
        BOTH, {"trace-truncated": 1}),
    "nested deep before the events": (
        _trace(KERNEL, CALL, head=HEAD[:-16] + b'"a": ' + b"[" * _DEEP + b"]" * _DEEP + b", "
               + HEAD[-16:]), BOTH,
        {"metadata-unreadable": 1, "no-time-base": 1, "device-unnamed": 1}),
    "nested deep behind the events": (
        _trace(KERNEL, CALL, tail=b'], "a": ' + b"[" * _DEEP + b"]" * _DEEP + b"}"), BOTH,
        {"metadata-unreadable": 1}),
    "a list": (b"[" + KERNEL + b"," + CALL + b"]", BOTH, {"no-time-base": 1, "device-unnamed": 1}),
    "a list with a mark": (b"\xef\xbb\xbf[" + KERNEL + b"," + CALL + b"]", BOTH,
                           {"no-time-base": 1, "device-unnamed": 1}),
    "an object with a mark": (b"\xef\xbb\xbf" + _trace(KERNEL, CALL), BOTH, {}),
    "a comma too many": (_trace(KERNEL, CALL, b""), BOTH, {}),
    "a key of the events spelled by number": (
        _trace(KERNEL, CALL, head=HEAD.replace(b"traceEvents", rb"trace\u0045ve\u006Ets")), BOTH, {}),
    "an array of events after the first": (
        _trace(KERNEL, tail=b'], "traceEvents": [' + CALL + TAIL), BOTH, {"events-in-two-arrays": 1}),
    "three arrays of events": (
        _trace(KERNEL, KERNEL, tail=b'], "traceEvents": [' + CALL + b", " + KERNEL
               + b'], "a": [{"b": 1}], "traceEvents": [' + CALL + b", " + CALL + TAIL),
        {"kernel": 3, "api_call": 3}, {"events-in-two-arrays": 2}),
    "no event": (_trace(), {}, {"no-gpu-work": 1}),
    "no end": (_trace(KERNEL, CALL, tail=b""), BOTH, {"trace-truncated": 1}),
    "no brace": (_trace(KERNEL, CALL, tail=b"]"), BOTH, {"trace-truncated": 1}),
    "half of what follows": (_trace(KERNEL, CALL, tail=TAIL[:-2]), BOTH,
                             {"metadata-unreadable": 1}),
    "two documents": (_trace(KERNEL, CALL) + b"\n" + _trace(KERNEL, CALL), BOTH,
                      {"event-unreadable": 2}),
    "a key twice in an event": (_kernel(b'"name": "k"', b'"name": "a", "name": "k"'), BOTH, {}),
    "a list of objects behind the events": (
        _trace(KERNEL, CALL, tail=b'], "mine": [{"name": "a"}, {"name": "b"}], "more": 1}'),
        BOTH, {}),
    "times as texts": (_kernel(b'"ts": 1.000, "dur": 2.000', b'"ts": "1.000", "dur": "2.000"'),
                       BOTH, {}),
    "a time that is a word": (_kernel(b'"ts": 1.000', b'"ts": "soon"'), ONE_CALL, _NO_TIME),
    "a time that is a list": (_kernel(b'"ts": 1.000', b'"ts": [1]'), ONE_CALL, _NO_TIME),
    "a time that is an object": (_kernel(b'"ts": 1.000', b'"ts": {"a": 1}'), ONE_CALL, _NO_TIME),
    "a time that is true": (_kernel(b'"ts": 1.000', b'"ts": true'), ONE_CALL, _NO_TIME),
    "no time": (_kernel(b'"ts": 1.000, ', b""), ONE_CALL, _NO_TIME),
    "a time of 2^63": (_kernel(b'"ts": 1.000', b'"ts": 9223372036854775808'), ONE_CALL, _NO_TIME),
    "a time of 4,000 digits": (_kernel(b'"ts": 1.000', b'"ts": ' + b"1" * 4000), ONE_CALL,
                               _NO_TIME),
    "a time of 5,000 digits": (_kernel(b'"ts": 1.000', b'"ts": ' + b"1" * 5000), ONE_CALL,
                               {"event-unreadable": 1, "gpu-activity-missing": 1}),
    "a time of 1e400": (_kernel(b'"ts": 1.000', b'"ts": 1e400'), ONE_CALL, _NAN),
    "a time of 1e999999999": (_kernel(b'"ts": 1.000', b'"ts": 1e999999999'), ONE_CALL, _NAN),
    "a time of 1e999999999 as text": (_kernel(b'"ts": 1.000', b'"ts": "1e999999999"'), ONE_CALL,
                                      _NO_TIME),
    "a time of Infinity as text": (_kernel(b'"ts": 1.000', b'"ts": "Infinity"'), ONE_CALL,
                                   _NO_TIME),
    "a time of NaN": (_kernel(b'"ts": 1.000', b'"ts": NaN'), ONE_CALL, _NAN),
    "a negative duration": (_kernel(b'"dur": 2.000', b'"dur": -2.000'), ONE_CALL,
                            {"negative-duration": 1, "gpu-activity-missing": 1}),
    "a duration of 1e30": (_kernel(b'"dur": 2.000', b'"dur": 1e30'), ONE_CALL,
                           {"impossible-time": 1, "gpu-activity-missing": 1}),
    "a duration that is a list": (_kernel(b'"dur": 2.000', b'"dur": [2]'), ONE_CALL,
                                  {"wrong-type": 1, "gpu-activity-missing": 1}),
    "arguments that are a list": (_kernel(b'"args": {', b'"args": [1], "x": {'), BOTH,
                                  {"json-repaired": 1, "launches-without-work": 1}),
    "arguments that are null": (_kernel(b'"args": {', b'"args": null, "x": {'), BOTH,
                                {"json-repaired": 1, "launches-without-work": 1}),
    "a category that is a list": (_kernel(b'"kernel"', b'["kernel"]'), BOTH,
                                  {"category-assumed": 1}),
    "a category that is a number": (_kernel(b'"kernel"', b"7"), BOTH, {"category-assumed": 1}),
    "a category nobody knows": (_call(b'"cuda_runtime"', b'"cuda_runtimf"'), BOTH,
                                {"category-assumed": 1}),
    "an operator of no category known": (
        _trace(KERNEL, CALL, b'{"ph": "X", "cat": "cpu_oq", "name": "a", "pid": 42, "tid": 43, '
               b'"ts": 1.000, "dur": 1.000, "args": {}}'), BOTH, {"category-unknown": 1}),
    "a name that is a number": (_kernel(b'"k"', b"5"), BOTH, {}),
    "a name that is an object": (_kernel(b'"k"', b'{"a": 1}'), BOTH, {}),
    "a name that is null": (_kernel(b'"k"', b"null"), BOTH, {}),
    "a name with half a character": (_kernel(b'"k"', b'"k\\ud800"'), BOTH, {"json-repaired": 1}),
    "a name with the character 0": (_kernel(b'"k"', b'"k\\u0000"'), BOTH, {}),
    "a process as text": (_call(b'"pid": 42', b'"pid": "42"'), BOTH, {}),
    "a process that is a word": (_call(b'"pid": 42', b'"pid": "python"'), BOTH, {}),
    "a process that is a list": (_call(b'"pid": 42', b'"pid": [42]'), BOTH, {}),
    "a process of 5,000 digits": (_call(b'"pid": 42', b'"pid": "' + b"1" * 5000 + b'"'), BOTH, {}),
    "a process of 2^64": (_call(b'"pid": 42', b'"pid": 18446744073709551616'), BOTH, {}),
    "a process of 22 digits": (_call(b'"pid": 42', b'"pid": %d' % _BIG), BOTH, {}),
    "a process of -2^63": (_call(b'"pid": 42', b'"pid": -9223372036854775808'), BOTH, {}),
    "a stream of 22 digits": (_kernel(b'"stream": 7', b'"stream": %d' % _BIG), BOTH, {}),
    "a grid of words": (_kernel(b'"device"', b'"grid": [1, "a", null], "block": {}, "device"'),
                        BOTH, {}),
    "a grid of 1e30": (_kernel(b'"device"', b'"grid": [1e30, 1, 1], "device"'), BOTH, {}),
    "SMs without end": (
        _kernel(b'"device"', b'"blocks per SM": 1e-320, "grid": [1, 1, 1], "device"'), BOTH, {}),
    "SMs of 400 digits": (
        _kernel(b'"device"', b'"blocks per SM": 1' + b"0" * 400 + b', "grid": [1,1,1], "device"'),
        BOTH, {}),
    "SMs beyond 2^63": (
        _kernel(b'"device"', b'"blocks per SM": 1, "grid": [4000000000, 4000000000, 4000000000], '
                b'"device"'), BOTH, {}),
    "a size that is a list": (_call(b'"cbid"', b'"bytes": [1], "size": {}, "cbid"'), BOTH, {}),
    "an end of an event in 200,000 spaces": (
        _trace(KERNEL, CALL, b'{"ph": "X", "args": {}' + b" " * 200_000, tail=b""), BOTH,
        {"trace-truncated": 1}),
    "200,000 lines behind the events": (
        _trace(KERNEL, CALL, tail=b'], "a": x' + b"\n" * 200_000 + b"}"), BOTH,
        {"metadata-unreadable": 1}),
    "60,000 texts that never end": (
        _trace(KERNEL, CALL, b'{"ph": "X", "a": ' + b'"b": "c ' * 60_000 + b"}", KERNEL),
        {"kernel": 2, "api_call": 1}, {"event-unreadable": 1}),
    "300,000 backslashes": (
        _trace(KERNEL, b'{"ph": "X", "a": "' + b"\\" * 300_001 + b'"}', CALL), BOTH,
        {"event-unreadable": 1}),
    "a name that looks like a border of events, its quotes not escaped": (
        _trace(CALL, KERNEL.replace(b'"k"', b'"a "b" {}, {"name": 1}"'), KERNEL),
        {"kernel": 2, "api_call": 1}, {"json-repaired": 1}),
    # The limit is 2^53 ns: 104 days.
    "a start within the limit": (_kernel(b"1.000", b"8000000000000.000"), BOTH, {}),
    "a start beyond the limit": (_kernel(b"1.000", b"9100000000000.000"), ONE_CALL, _IMPOSSIBLE),
    "a start of 1e30": (_kernel(b"1.000", b"1e30"), ONE_CALL, _NO_TIME),
    "a duration within the limit": (_kernel(b"2.000", b"8000000000000.000"), BOTH, {}),
    "a duration beyond the limit": (_kernel(b"2.000", b"9100000000000.000"), ONE_CALL, _IMPOSSIBLE),
    "no category": (_kernel(b'"cat": "kernel", ', b""), BOTH, _GUESSED),
    "a key of the category that is damaged": (_kernel(b'"cat"', b'"cbt"'), BOTH, _GUESSED),
    "a category that is null": (_kernel(b'"kernel"', b"null"), BOTH, _GUESSED),
    "a kernel's key of the duration that is damaged": (_kernel(b'"dur"', b'"dvr"'), ONE_CALL, _NO_TIME),
    "a kernel's duration that is null": (_kernel(b'"dur"', b'"dur": null, "x"'), ONE_CALL, _NO_TIME),
    "a call's key of the duration that is damaged": (_call(b'"dur"', b'"dvr"'), ONE_KERNEL, _UNTIMED),
    "a call's duration that is null": (_call(b'"dur"', b'"dur": null, "x"'), ONE_KERNEL, _UNTIMED),
    "several members of gzip": (
        gzip.compress(HEAD + KERNEL) + gzip.compress(b"," + CALL + TAIL) + bytes(512), BOTH, {}),
    "bytes after gzip": (gzip.compress(_trace(KERNEL, CALL)) + b"more", BOTH, {"trailing-data": 1}),
    "bytes after gzip and zeros": (
        gzip.compress(_trace(KERNEL, CALL)) + bytes(512) + b"more", BOTH, {"trailing-data": 1}),
    **{f"{word.decode()} instead of a number": (
        _kernel(b'"device"', b'"bandwidth": ' + word + b', "device"'), BOTH, {"json-repaired": 1})
       for word in (b"inf", b"-inf", b"Infinity", b"nan", b"-nan", b"nan(ind)", b"-nan(ind)", b"N/A")},
}  # fmt: skip
for _key, _value in {
    "schemaVersion": b"%d" % _BIG, "host_name": b'"a\\ud800"', "cuda_driver_version": b"1e400",
    "distributedInfo": b'{"rank": %d, "world_size": "%s"}' % (_BIG, b"1" * 5000),
}.items():  # fmt: skip
    CASES[f"odd {_key}"] = (
        _trace(KERNEL, CALL, head=HEAD[:-16] + b'"%s": %s, ' % (_key.encode(), _value)
               + HEAD[-16:]), BOTH, {})  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, 20))
def test_odd_content(tmp_path: Path, case: str) -> None:
    content, rows, notes = CASES[case]
    found = _found(tmp_path, content)
    del found.notes["api-calls-partial"]
    assert (found.timed, found.notes) == (rows, notes)


def test_pid_that_is_a_list_hides_no_other_process() -> None:
    """A kernel names no process: it is of the one whose call stands before it."""
    listed = CALL.replace(b'"pid": 42', b'"pid": [42]')
    chunk = decode_text(b",".join((CALL, listed, KERNEL)), 0, python_functions=False)
    assert arrays.tables_of(chunk, 0)["kernel"]["pid"].tolist() == [42]


def _decoded_one_by_one(*events: bytes, place: int = 0) -> Chunk:
    """A chunk of which every event is a batch of its own."""
    text = b",\n".join(events)
    assert len(list(batch_bounds(text, 100))) == len(events)
    return decode_text(text, place, python_functions=False, batch_bytes=100)


def test_gpu_rows_belong_to_process_of_rows_before() -> None:
    """Also where that is in another batch, and the next batch's process is another."""
    second = CALL.replace(b'"pid": 42', b'"pid": 44')
    text = b",\n".join((CALL, KERNEL, KERNEL, second, KERNEL, KERNEL, KERNEL, KERNEL))
    parts = [text[low:high] for low, high in batch_bounds(text, 200)]
    assert parts[1] == b",\n".join((KERNEL, second))
    chunk = decode_text(text, 0, python_functions=False, batch_bytes=200)
    assert arrays.tables_of(chunk, 0)["kernel"]["pid"].tolist() == [42, 42, 44, 44, 44, 44]
    assert chunk.pids == [42, 44]


@pytest.mark.parametrize("number", range(6))
def test_note_has_offset_of_its_batch(number: int) -> None:
    calls = [CALL] * 6
    calls[number] = CALL.replace(b"0.500", b'"soon"')
    chunk = _decoded_one_by_one(*calls, place=1000)
    assert len(arrays.tables_of(chunk, 0)["api_call"]["start_ns"]) == 5
    assert chunk.first_offsets == {"no time stamp": 1000 + number * len(CALL + b",\n")}


def test_damage_in_later_batch_is_noted_with_its_offset() -> None:
    bad = b'{"ph": "X", "name": ' + b"oops " * 30 + b"}"
    chunk = _decoded_one_by_one(CALL, CALL, bad, CALL, place=1000)
    assert chunk.first_offsets == {"unreadable": 1000 + 2 * len(CALL + b",\n")}
    assert chunk.counts == {"unreadable": 1}


def test_python_functions_are_counted() -> None:
    function = CALL.replace(b"cuda_runtime", b"python_function")
    chunk = decode_text(b",".join([function] * 5), 0, python_functions=False)
    assert chunk.counts == {"python functions": 5}


def test_times_of_a_repaired_event_are_exact() -> None:
    """A double holds none of these."""
    event = KERNEL.replace(b"1.000", b"1711964723456789.123").replace(b'"k"', rb'"C:\qk"')
    chunk = decode_text(event, 0, python_functions=False)
    assert chunk.counts == {"lone backslash": 1}
    assert arrays.nanoseconds(chunk.tables["kernel"].starts).tolist() == [1711964723456789123]


@pytest.mark.parametrize("start", [b"0.000", b"3000000.000"])
def test_event_at_0_without_duration_has_no_time(start: bytes) -> None:
    """Also where that is the second from which times count."""
    event = KERNEL.replace(b"1.000", start).replace(b"2.000", b"0.000")
    later = KERNEL.replace(b"1.000", b"3000001.000")
    chunk = decode_text(event + b",\n" + later, 0, python_functions=False)
    rows = arrays.tables_of(chunk, 3_000_000_000)["kernel"]
    assert rows["start_ns"].tolist() == [MISSING, 1000]
    assert rows["dur_ns"].tolist() == [MISSING, 2000]


def _found(tmp_path: Path, content: bytes) -> Found:
    source = tmp_path / "trace.json"
    source.write_bytes(content)
    found = _imported(source, tmp_path / "store.db")
    assert found is not None
    return found


@pytest.mark.parametrize("packed", few([True, False], 1))
def test_arrays_of_events_in_several_chunks_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """The border of two arrays stands in the middle of many chunks."""
    monkeypatch.setattr(trace, "FIRST_BYTES", 1 << 12)
    monkeypatch.setattr(trace, "BLOCK_BYTES", 1 << 14)
    half = b",".join([KERNEL, CALL] * 1_000)
    content = HEAD + half + b'], "traceEvents": [' + half + TAIL
    found = _found(tmp_path, gzip.compress(content, 1) if packed else content)
    assert found.timed == {"kernel": 2_000, "api_call": 2_000}
    assert found.notes["events-in-two-arrays"] == 1
    assert not LEFT_OUT & set(found.notes)


@pytest.mark.parametrize("name", [b"null", b""])
def test_missing_name_stays_missing(tmp_path: Path, name: bytes) -> None:
    _found(tmp_path, _kernel(b'"name": "k", ', b'"name": null, ' if name else b""))
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        (kernel,) = event_rows(profile, "kernel")
    assert kernel["name"] is None


NOTHING = {
    "0 bytes": b"", "a brace": b"{", "a bracket": b"[", "an empty object": b"{}",
    "an empty list": b"[]", "null": b"null", "zeros": bytes(1000), "only a head": HEAD[:40],
    "no array": HEAD[:-1], "an object for an array": HEAD[:-1] + b"{}}",
    "another encoding": _trace(KERNEL, CALL).decode().encode("utf-16"),
    "a gzip magic": b"\x1f\x8b", "a gzip head": b"\x1f\x8b\x08" + bytes(7),
    "nothing compressed": gzip.compress(b""), "nested deep": b"[" * _DEEP + b"]" * _DEEP,
    "nested deep and never closed": b"[" * _DEEP,
    # Where the array's own key is damaged, what a user's key holds is not the trace.
    "events under a user's key": b'"traceEvenus"'.join(
        (KINETO / "odd-secrets.json").read_bytes().rsplit(b'"traceEvents"', 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_file_without_events_is_refused(tmp_path: Path, case: str) -> None:
    source = tmp_path / "trace.json"
    source.write_bytes(NOTHING[case])
    assert _imported(source, tmp_path / "store.db") is None


# -- gzip

MANY = _trace(*[KERNEL, CALL] * 10_000)  # 3 MB


def test_gzip_cut_short(tmp_path: Path) -> None:
    packed = gzip.compress(MANY)
    found = _found(tmp_path, packed[: len(packed) // 2])
    assert found.notes["trace-truncated"] == 1
    # Up to the cut: about half, for the events are alike.
    assert found.timed["kernel"] > 4_000


def test_gzip_with_a_corrupt_middle(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(MANY, 0))  # stored: the damage is at a known place
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    found = _found(tmp_path, bytes(packed))
    assert found.notes["trace-truncated"] == 1
    # As much as is inflated at once may be lost before the damage.
    assert found.timed["kernel"] > 1_000


@pytest.mark.parametrize("content", [MANY, _trace(KERNEL, CALL)], ids=["large", "small"])
def test_gzip_with_a_wrong_checksum(tmp_path: Path, content: bytes) -> None:
    """Which of the bytes are wrong nobody knows: some rows with a note, or an error."""
    packed = bytearray(gzip.compress(content))
    packed[-8] ^= 1
    source = tmp_path / "trace.json.gz"
    source.write_bytes(packed)
    found = _imported(source, tmp_path / "store.db")
    assert found is None or found.notes["trace-truncated"] == 1


def test_bytes_after_block_of_compressed_trace_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read at once ends where the compressed data does."""
    packed = gzip.compress(_trace(KERNEL, CALL))
    monkeypatch.setattr(trace, "READ_BYTES", len(packed))
    found = _found(tmp_path, packed + b"more")
    assert (found.notes["trailing-data"], found.notes["trace-truncated"]) == (1, 0)


_BOMBS = {
    "spaces before the events": (HEAD, b" ", {"error": "no event ends"}),
    "a name without an end": (HEAD + KERNEL + b',{"ph": "X", "name": "', b"a",
                              {"error": "no event ends"}),
    "spaces behind the events": (HEAD + KERNEL + b"],", b" ", {"kernel": 1}),
}  # fmt: skip
_BOMB_BYTES = 200 << 20
_MEMORY_BYTES = 800 << 20
# What getrusage tells of a new program begins at what its parent held; /proc has its own.
_CHILD = """
import json, pathlib, re, resource, sys
from nsysconv import api
(file,) = api.import_files([sys.argv[1]], sys.argv[2]).files
status = pathlib.Path("/proc/self/status")
if status.exists():
    kib = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
else:
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "error": str(file.error) if file.error else "",
    "rows": [each.row_counts for each in file.imported],
    "kib": kib,
}))
"""


@pytest.mark.parametrize("packed", few([True, False], 1))
@pytest.mark.parametrize("case", few(_BOMBS, 1))
def test_compression_bomb_takes_bounded_memory_and_time(tmp_path: Path, case: str, packed: bool) -> None:
    head, byte, wanted = _BOMBS[case]
    source = tmp_path / "trace.json"
    with gzip.open(source, "wb", 1) if packed else source.open("wb") as file:
        file.write(head)
        for _ in range(_BOMB_BYTES >> 20):
            file.write(byte * (1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(source), str(tmp_path / "store.db")],
        env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
    outcome = json.loads(done.stdout)
    assert outcome["kib"] << 10 < _MEMORY_BYTES
    if "error" in wanted:
        assert wanted["error"] in outcome["error"]
    else:
        assert outcome["rows"][0]["kernel"] == wanted["kernel"]
    source.unlink()


# -- secrets

_LABEL = (b'{"ph": "M", "name": "process_labels", "pid": 42, "tid": 0, "ts": 0, '
          b'"args": {"labels": "SECRET-label"}}')  # fmt: skip
SECRET_PLACES = {
    "a user's key": _trace(KERNEL, CALL, head=HEAD[:-16] + b'"token": "SECRET-a", '
                           b'"SECRET-key": {"b": ["SECRET-c"]}, ' + HEAD[-16:]),
    "a user's key behind the events": _trace(KERNEL, CALL, tail=b'], "token": "SECRET-a", '
                                             b'"x": [{"name": "SECRET-b"}, {"id": 1}]}'),
    "damaged keys": _trace(KERNEL, CALL, head=HEAD[:-16] + b'"note": "a "SECRET-a" b",\n'
                           b'"token": "SECRET-b", ' + HEAD[-16:]),
    "the file's own name": _trace(KERNEL, CALL, tail=b'], "traceName": "/home/SECRET-user/x"}'),
    "a key of a device": _trace(KERNEL, CALL).replace(
        b'"name": "A GPU"', b'"name": "A GPU", "uuid": "SECRET-uuid", "x": {"y": "SECRET-y"}'),
    "a key of distributedInfo": _trace(
        KERNEL, CALL, head=HEAD[:-16] + b'"distributedInfo": {"rank": 0, "world_size": 1, '
        b'"pg_config": [{"desc": "SECRET-a"}], "backend": "SECRET-b"}, ' + HEAD[-16:]),
    "arguments": _call(b'"cbid"', b'"Call stack": "/home/SECRET-user/train.py(1): main", '
                       b'"Concrete Inputs": ["SECRET-a"], "kwargs": {"b": "SECRET-b"}, "cbid"'),
    "values and stack of an operator that has some": _trace(
        KERNEL, CALL, b'{"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "ts": 1.000, "dur": 1.000,'
        b' "pid": 42, "tid": 43, "args": {"Concrete Inputs": ["SECRET-a", "[SECRET-b]", "3"],'
        b' "Call stack": "SECRET-c;/home/SECRET-d/a.py(1): f;a.py(SECRET-e): f;a.py(1): f SECRET-f",'
        b' "finished": "SECRET-g", "Fwd thread id": "SECRET-h", "Record function id": "SECRET-i"}}'),
    "stack of a block of memory": _trace(
        KERNEL, CALL, b'{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1.0,'
        b' "s": "t", "pid": 42, "tid": 43, "args": {"Bytes": 1, '
        b'"Call stack": "SECRET-c;/home/SECRET-d/a.py(1): f"}}'),
    "peers of a collective": _trace(
        KERNEL, CALL, b'{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 1.0, "pid": 42,'
        b' "dur": 1.000, "tid": 43, "args": {"Collective name": "send", "Src Rank": "SECRET-a",'
        b' "Dst Rank": ["SECRET-b"], "Is asynchronized op": "SECRET-c"}}'),
    "arguments of a damaged event": _trace(KERNEL, CALL.replace(
        b'"cbid"', b'"Call stack": "SECRET-a\tb", "cbid"')),
    "a process's labels": _trace(_LABEL, KERNEL, CALL),
    "an event that is left out": _trace(
        KERNEL, CALL, b'{"ph": "X", "cat": "SECRET-cat", "name": "SECRET-name", "ts": 1.000, '
        b'"dur": 1.000, "pid": 1, "tid": 1}'),
    "an event that cannot be read": _trace(KERNEL, b'{"ph": "X", "name": SECRET-a}', CALL),
    "an event that is cut": _trace(KERNEL, CALL, b'{"ph": "X", "name": "SECRET-a', tail=b""),
    "a time": _trace(KERNEL, KERNEL.replace(b"1.000", b'"SECRET-ts"'), CALL),
    "a process's number": _trace(KERNEL, CALL, CALL.replace(b'"pid": 42', b'"pid": "SECRET-p"')),
    "a Python function": _trace(
        KERNEL, CALL, b'{"ph": "X", "cat": "python_function", "name": "/home/SECRET-u/a.py(1): f",'
        b' "ts": 1.000, "dur": 1.000, "pid": 42, "tid": 43}'),
    "a key of an event": _call(b'"ph": "X"', b'"ph": "X", "SECRET-key": "SECRET-value"'),
    "versions that are texts": _trace(
        KERNEL, CALL, head=HEAD[:-16] + b'"cupti_version": "SECRET-a", '
        b'"cuda_driver_version": ["SECRET-b"], ' + HEAD[-16:]).replace(
        b'"schemaVersion": 1', b'"schemaVersion": "SECRET-c"'),
}  # fmt: skip


@pytest.mark.parametrize("place", few(SECRET_PLACES, 8))
def test_no_secret_gets_into_a_store(tmp_path: Path, place: str) -> None:
    content = SECRET_PLACES[place]
    assert SECRET in content
    source, store = tmp_path / "trace.json", tmp_path / "store.db"
    source.write_bytes(content)
    (file,) = api.import_files([source], store).files
    assert file.error is None
    assert file.imported[0].row_counts["kernel"] == 1
    assert file.imported[0].row_counts["api_call"] >= 1
    assert SECRET not in store.read_bytes()
    assert not [note for note in file.imported[0].notes if "SECRET-" in str(note)]


@pytest.mark.parametrize("place", few(SECRET_PLACES, 4))
def test_no_secret_in_a_refusal(tmp_path: Path, place: str) -> None:
    source = tmp_path / "trace.json"
    source.write_bytes(SECRET_PLACES[place].replace(b"traceEvents", b"traceEvent_"))
    (file,) = api.import_files([source], tmp_path / "store.db").files
    assert file.error is not None
    assert "SECRET-" not in str(file.error)


# -- worker processes

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")


def _workers() -> list[int]:
    """The worker processes of this process that have not been waited for."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                command = (folder / "cmdline").read_bytes()
                ended = not command  # a zombie
                if int(parent) == os.getpid() and (b"nsysconv.processes" in command or ended):
                    found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 4 MB, every event another."""
    path = tmp_path_factory.mktemp("large") / "trace.json"
    with path.open("wb") as file:
        file.write(HEAD)
        for number in range(12_000):
            times = b'"ts": %d.250' % (number + 1)
            ids = b'"correlation": %d' % (number + 1)
            for event, time_ in ((CALL, b'"ts": 0.500'), (KERNEL, b'"ts": 1.000')):
                file.write(b",\n" * (number > 0 or event is KERNEL))
                file.write(event.replace(time_, times).replace(b'"correlation": 5', ids))
        file.write(TAIL)
    return path


@pytest.fixture
def for_workers(large: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, read by worker processes in very many chunks."""
    monkeypatch.setattr(decode, "ALONE_BYTES", 0)
    monkeypatch.setattr(trace, "FIRST_BYTES", 1 << 14)
    monkeypatch.setattr(trace, "BLOCK_BYTES", 1 << 16)
    return large


def _import(source: Path, store: Path, act: Callable[[], None]) -> NsysconvError | None:
    """Imports and does something once, in the middle, when workers are there."""
    done: list[int] = []

    def progress(path: Path, what: str, rows: int) -> None:
        if not done and (found := _workers()):
            done.extend(found)
            act()

    with within(60):
        (file,) = api.import_files([source], store, progress=progress).files
    assert done, "no worker was seen"
    return file.error


def _kill(count: int) -> None:
    for worker in _workers()[:count]:
        os.kill(worker, signal.SIGKILL)


def _fail(error: BaseException) -> None:
    raise error


# What happens in the middle: the error's words, None where there is none.
IN_THE_MIDDLE: dict[str, tuple[Callable[[], None], str | None]] = {
    "nothing": (lambda: None, None),
    "a worker is killed": (lambda: _kill(1), "ended early"),
    "an error": (lambda: _fail(InputError("the disk is full")), "the disk is full"),
    "all workers are killed": (lambda: _kill(100), "ended early"),
}


@needs_proc
@pytest.mark.parametrize("what", few(IN_THE_MIDDLE, 3))
def test_no_worker_is_left_behind(for_workers: Path, tmp_path: Path, what: str) -> None:
    act, said = IN_THE_MIDDLE[what]
    assert _workers() == []
    error = _import(for_workers, tmp_path / "store.db", act)  # held while we look
    assert _workers() == []
    assert (tmp_path / "store.db").exists() == (said is None)
    if said is None:
        assert error is None
    else:
        assert isinstance(error, InputError)
        assert said in str(error)
        assert "killed" not in what or str(for_workers) in str(error)


@needs_proc
def test_no_worker_is_left_behind_by_an_interrupt(for_workers: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as held:
        _import(for_workers, tmp_path / "store.db", lambda: _fail(KeyboardInterrupt()))
    assert _workers() == []
    assert held.value is not None
    assert not (tmp_path / "store.db").exists()


def test_no_folder_is_left_behind_by_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    source = tmp_path / "trace.json"
    source.write_bytes(HEAD[:-1] + b"{}}")
    result = api.import_files([source], tmp_path / "store.db")
    assert list((tmp_path / "temporary").iterdir()) == []
    assert result.errors


def _in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "ALONE_BYTES", 0)
    monkeypatch.setattr(trace, "FIRST_BYTES", 1 << 12)
    monkeypatch.setattr(trace, "BLOCK_BYTES", 1 << 13)


@pytest.mark.parametrize("path", few(WHOLE_FIXTURES, 1), ids=name_of)
def test_workers_change_no_row_of_a_fixture(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """In small chunks, so that there is something for workers to do."""
    if "merged-ranks" in path.name or path.stat().st_size < 5_000:
        pytest.skip("too small for two chunks, or of two processes")
    wanted = shelf.profile(path)  # before anything is changed
    _in_small_chunks(monkeypatch)
    api.import_files([path], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        for table in EVENTS:
            assert _sorted(event_rows(profile, table)) == _sorted(event_rows(wanted, table)), table
        for table in ("process", "thread", "stream", "device"):
            assert small_rows(profile, table) == small_rows(wanted, table), table


def _sorted(rows: list[Row]) -> list[str]:
    """Rows in an order of their own, without the numbers of names."""
    return sorted(
        repr({key: value for key, value in row.items() if not key.endswith(("s_id", "e_id"))})
        for row in rows)  # fmt: skip


@pytest.mark.parametrize("packed", few([True, False], 1))
def test_damaged_trace_reads_the_same_in_small_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Damage in a later chunk is noted with its offset in the file."""
    bad = b'{"ph": "X", "name": oops}'
    content = _trace(*[KERNEL, CALL] * 200, bad, *[KERNEL, CALL] * 100, bad, *[KERNEL, CALL] * 100)
    source = tmp_path / "trace.json"
    source.write_bytes(gzip.compress(content) if packed else content)
    monkeypatch.setattr(trace, "READ_BYTES", 1 << 12)
    _in_small_chunks(monkeypatch)
    (file,) = api.import_files([source], tmp_path / "store.db").files
    (imported,) = file.imported
    assert (imported.row_counts["kernel"], imported.row_counts["api_call"]) == (400, 400)
    (note,) = (note for note in imported.notes if note.slug == "event-unreadable")
    assert note.where == f"byte {content.index(bad):,}"
