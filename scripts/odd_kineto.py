"""Damaged, merged and foreign JSON: what Kineto, its users and other programs really write.

Most start from the `basic` workload and change its text, so the answers of `basic` hold for
everything the change does not touch. The changes are by exact text; one that no longer matches is
an error.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from scenarios import WORKLOADS
from write_kineto import kineto_text, write_text

Maker = Callable[[Path], None]
Change = tuple[str, str]


def _text(workload: str = "basic", age: str = "2.13", number: int = 0) -> str:
    found = WORKLOADS[workload]
    return kineto_text(found, found.processes[number], age)


def _changed(*changes: Change, age: str = "2.13") -> Maker:

    def make(path: Path) -> None:
        text = _text(age=age)
        for old, new in changes:
            if old not in text:
                raise ValueError(f"{old!r} is not there")
            text = text.replace(old, new)
        # One of the changes is a byte that is not UTF-8.
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    return make


def _cut(mark: str, age: str) -> Maker:

    def make(path: Path) -> None:
        before, found, _ = _text(age=age).partition(mark)
        if not found:
            raise ValueError(f"{mark!r} is not there")
        write_text(before + mark, path)

    return make


def _cut_short(path: Path) -> None:
    # Stored, not compressed: every library writes the same bytes.
    data = gzip.compress(_text().encode(), compresslevel=0, mtime=0)
    path.write_bytes(data[: len(data) * 2 // 3])


def _plain(text: str) -> Maker:
    def make(path: Path) -> None:
        write_text(text, path)

    return make


def _loaded(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


def _reprinted(path: Path) -> None:
    write_text(json.dumps(_loaded(_text()), indent=4, sort_keys=True), path)


def _compact(path: Path) -> None:
    write_text(json.dumps(_loaded(_text()), separators=(",", ":")), path)


def _list(path: Path) -> None:
    write_text(json.dumps(_loaded(_text())["traceEvents"], indent=1), path)


def _merged(path: Path) -> None:
    first, second = (_loaded(_text("two_processes_one_gpu", number=n)) for n in (0, 1))
    del first["distributedInfo"]
    first["traceEvents"] += second["traceEvents"]  # type: ignore[operator]
    write_text(json.dumps(first, indent=1), path)


def _small_pid(path: Path) -> None:
    text = _text("graphs", number=1)
    write_text(text.replace(": 7002,", ": 1,").replace("thread 7002 ", "thread 1 "), path)


_SECRETS = """      "environment": {"HF_TOKEN": "SECRET-hf", "note": "\\"traceEvents\\": [", "n": [{}]},
      "SECRET-key": 1,
      "nested": {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "SECRET-kernel", "pid": 0,
        "tid": 7, "ts": 1.000, "dur": 1.000, "args": {"device": 0, "stream": 7}}],
        "baseTimeNanoseconds": 1, "deviceProperties": [{"id": 0, "name": "SECRET-gpu"}]},
      "command": "curl -H 'Authorization: Bearer SECRET-bearer' https://example.org",
      "INFO": ["INFO:2026-01-01 00:00:00 4242:4242 Config.cpp:1] SECRET-path/of/config"],
      "wandb_run": """
_AUTOGRAD = """[{"name": "aten::mm", "ph": "X", "ts": 12.5, "dur": 4.25, "tid": 1, \
"pid": "CPU functions", "args": {}}, {"name": "aten::mm", "ph": "s", "ts": 12.5, "tid": 1, \
"pid": "CPU functions", "id": "7", "cat": "cpu_to_cuda", "args": {}}, \
{"name": "sgemm", "ph": "f", "ts": 20.0, "tid": 7, "pid": "CUDA functions", "id": "7", \
"cat": "cpu_to_cuda", "args": {}}, {"name": "sgemm", "ph": "X", "ts": 20.0, "dur": 3.0, "tid": 7, \
"pid": "CUDA functions", "args": {}}]
"""
_BROWSER = """{"traceEvents":[
{"args":{"name":"Browser"},"cat":"__metadata","name":"process_name","ph":"M","pid":4100,"tid":0,\
"ts":0},
{"args":{"data":{"url":"https://example.org/SECRET-page"}},"cat":"devtools.timeline","dur":210,\
"name":"EvaluateScript","ph":"X","pid":4100,"tid":1,"ts":61001200400,"tts":3100},
{"args":{},"cat":"gpu","dur":90,"name":"GpuChannel::ExecuteDeferredRequest","ph":"X","pid":4133,\
"tid":1,"ts":61001200900},
{"args":{"src":"SECRET-src"},"cat":"blink","id":"0x12","name":"Load","ph":"b","pid":4100,"tid":1,\
"ts":61001201000}
],
"metadata":{"clock-domain":"LINUX_CLOCK_MONOTONIC","command_line":"browser --user=SECRET-user"}}
"""
_FUTURE = """
  {
    "ph": "X",
    "cat": "quantum_runtime",
    "name": "SECRET-call",
    "pid": 4242,
    "tid": 4242,
    "ts": 36288000011.000,
    "dur": 1.000
    ,
    "args": {
      "qubits": [1, {"a": "}"}], "correlation": 103
    }
  },
  {
    "ph": "C",
    "cat": "hardware_counters",
    "name": "sm__cycles",
    "pid": "GPU 0 Counters",
    "tid": 0,
    "ts": 36288000012.000,
    "args": {
      "value": 12.5
    }
  },
  {
    "ph": "Z",
    "name": "what is this",
    "future": null
  },
  {
    "ph": "M",
    "name": "process_name",
    "ts": 36288000000.000,
    "pid": 4242,"""

# file: (maker, what it holds).
ODD_KINETO: dict[str, tuple[Maker, str]] = {
    "odd-bare-inf.json": (
        _changed(
            ('"blocks per SM": 9.259259,      "warps per SM": 74.07407,      "grid": [1000,',
             '"blocks per SM": inf,      "warps per SM": -inf,      "grid": [1000,'),
            ('"memory bandwidth (GB/s)": "N/A"', '"memory bandwidth (GB/s)": N/A'),
            ('"memory bandwidth (GB/s)": 10.0', '"memory bandwidth (GB/s)": nan'), age="2.5"),
        "bare `inf`, `-inf`, `nan` and `N/A` where numbers stand; answers as `basic`",
    ),
    "odd-backslash.json": (
        _changed(('"name": "load"', '"name": "load C:\\Data\\path"'),
                 ("/home/SECRET-user/log/", "C:\\Users\\SECRET-user\\log\\")),
        "lone backslashes in the name of range `load` and in the file's own name",
    ),
    "odd-control-character.json": (
        _changed(('"name": "saxpy step"', '"name": "saxpy\tst\x01ep"')),
        "a raw tab and a raw byte 1 in the name of range `saxpy step`",
    ),
    "odd-quotes.json": (
        _changed(('"name": "saxpy step"', '"name": "the "saxpy" step"'),
                 ('"wandb_run": "SECRET-run"', '"wandb_run": "he said "SECRET-run""')),
        "quotes that are not escaped, in the name of range `saxpy step` and in a user's key; "
        "one line for each key",
    ),
    "odd-quotes-old-layout.json": (
        _changed(('"name": "saxpy step"', '"name": "the "saxpy" step"'), age="2.5"),
        "the same in the layout before 2.13: the name's line holds other keys, too",
    ),
    "odd-invalid-utf8.json": (
        _changed(('"name": "load"', '"name": "caf\udce9"')),
        "the byte E9 in the name of range `load`, which is not UTF-8",
    ),
    "odd-trailing-comma.json": (
        _changed(('\n  ],"traceName"', ',\n  ],"traceName"')),
        "a comma behind the last event; answers as `basic`",
    ),
    "odd-truncated.json": (
        _cut('"correlation": 110, "registers', "2.13"),
        "cut within kernel 110; the base of the times comes before the events",
    ),
    "odd-truncated-no-base.json": (
        _cut('"correlation": 110,      "registers', "2.5"),
        "cut within kernel 110; the base would come behind the events, so it is lost",
    ),
    "odd-cut-short.json.gz": (
        _cut_short, "the first two thirds of a compressed file of `basic`",
    ),
    "odd-compact.json": (_compact, "all in one line; answers as `basic`"),
    "odd-reprinted.json.gz": (
        _reprinted, "printed again with sorted keys and another indentation; answers as `basic`",
    ),
    "odd-list.json.gz": (
        _list, "the events of `basic` as a bare list: no base, no devices, no rank",
    ),
    "odd-autograd.json": (
        _plain(_AUTOGRAD), "the list that autograd's old profiler exports; no Kineto trace",
    ),
    "odd-browser.json": (_plain(_BROWSER), "a trace of a browser: no GPU profile"),
    "odd-no-events.json": (
        _plain('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}\n'),
        "no event at all",
    ),
    "odd-merged-ranks.json.gz": (
        _merged,
        "both ranks of `two_processes_one_gpu` in one list of events, as users' tools merge them",
    ),
    "odd-small-pid.json": (
        _small_pid,
        "process 7002 of `graphs` with pid 1, as in a container; its GPU rows have pid 1, too",
    ),
    "odd-secrets.json": (
        _changed(('      "wandb_run": ', _SECRETS)),
        "secrets in keys of users, one of which holds a trace of its own; answers as `basic`",
    ),
    "odd-durations.json": (
        _changed(('"ts": 1767225600000095, "dur": 5,', '"ts": 1767225600000095, "dur": -5,'),
                 ('"ts": 1767225600000204, "dur": 2,',
                  '"ts": 1767225600000204, "dur": 18446744073709549616,'),
                 ('"ts": 1767225600000013, "dur": 2,', '"ts": 0, "dur": 2,'), age="1.9"),
        "kernel 109 ends before it starts, call 119 lasts 2^64 us, copy 103 starts at 0 (1970)",
    ),
    "odd-future.json": (
        _changed(("""
  {
    "ph": "M",
    "name": "process_name",
    "ts": 36288000000.000,
    "pid": 4242,""", _FUTURE), ('"schemaVersion": 1', '"schemaVersion": 2')),
        "kinds of events that do not exist (yet), schema 2; answers as `basic`",
    ),
}  # fmt: skip
