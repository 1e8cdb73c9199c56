"""Damaged, hostile and merely odd Kineto traces: rows and a note, or an error; nothing without a word.

What a changed byte may do without a word: change a value. A number, a name, a key of `args` or the
name of a row that is one by its name (`[memory]`, a collective) is what the file says, and nobody can
know that it said something else. What it may not do: take a row, or a row's duration, out of the
profile without a note that counts it.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mutate_bytes
import numpy as np
import pytest
from conftest import (
    CHILD_ENVIRONMENT,
    EVENTS,
    FIXTURES,
    REAL,
    Row,
    Shelf,
    dump,
    event_rows,
    few,
    name_of,
    real,
    small_rows,
)

from nsysconv import api, schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers import kineto
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.kineto import arrays, decode, trace
from nsysconv.importers.kineto.decode import batch_bounds, decode_text
from nsysconv.importers.kineto.packed import MISSING, Chunk
from nsysconv.importers.kineto.trace import EVENT_BORDER
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.store.location import reading
from nsysconv.store.recording import Batch, take_batches

KINETO = FIXTURES / "kineto"
SECRET = b"SECRET-"
# Notes on what every trace of its kind lacks; and on what was left out, repaired or guessed.
ORDINARY = frozenset({
    "api-calls-partial", "coarse-times", "no-gpu-work", "no-time-base", "device-unnamed",
    "python-functions-left-out", "gpu-activity-missing",
})  # fmt: skip
LEFT_OUT = frozenset({
    "trace-truncated", "event-unreadable", "wrong-type", "negative-duration", "impossible-time",
    "category-unknown", "category-assumed", "json-repaired", "no-time",
})  # fmt: skip
# Rows that differ by an argument or a name alone.
TOLD_BY_VALUES = frozenset({"collective", "memory_event"})
SECONDS = 10


@dataclass
class Found:
    """What a trace gave: rows with all their times by table, in all recordings, and notes."""

    rows: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    severities: dict[str, Severity] = field(default_factory=dict)

    @property
    def sure(self) -> int:
        """Rows of events that are rows whatever they are called."""
        return sum(count for name, count in self.rows.items() if name not in TOLD_BY_VALUES)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails where the block takes longer, whatever it waits for."""

    def stop(number: int, frame: object) -> None:
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _timed(table: Any) -> int:
    """Rows whose duration is known, where such rows have one."""
    if "dur_ns" not in table.column_names:
        return int(table.num_rows)
    null = table.column("dur_ns").null_count - table.column("start_ns").null_count
    return int(table.num_rows) - max(null, 0)


def _read(path: Path) -> Found | None:
    """What the importer makes of a file, without a store; None for an error of ours."""
    found = Found()
    try:
        with ExitStack() as stack, Probe(path, threads=1) as probe:
            if detect(probe) is not kineto:
                return None
            recordings = stack.enter_context(closing(kineto.read([probe], Options())))

            def take(batch: Batch) -> None:
                if batch.table in EVENTS:
                    found.rows[batch.table] += _timed(batch.rows)

            for recording in recordings:
                summary = take_batches(recording.batches, take)
                for note in summary.notes:
                    found.notes[note.slug] += note.count
                    found.severities[note.slug] = note.severity
    except NsysconvError as error:
        assert error.what
        assert str(path) in str(error)
        return None
    return found


def _imported(path: Path, store: Path) -> Found | None:
    """The same by way of the API and a store."""
    (file,) = api.import_files([path], store).files
    if file.error is not None:
        assert not store.exists()
        assert str(path) in str(file.error)
        return None
    found = Found()
    with reading(store) as opened:
        for profile in opened.profiles():
            for name in EVENTS:
                columns = schema.metadata.tables[name].columns
                if "dur_ns" in columns:
                    data = profile.columns(name, ("start_ns", "dur_ns"))
                    bad = (data["dur_ns"] == MISSING) & (data["start_ns"] != MISSING)
                    found.rows[name] += len(data["dur_ns"]) - int(np.count_nonzero(bad))
                else:
                    found.rows[name] += len(event_rows(profile, name))
            for note in profile.notes:
                found.notes[note.slug] += note.count
                found.severities[note.slug] = note.severity
    found.rows = +found.rows
    return found


def _new(found: Found, whole: Found) -> set[str]:
    """Notes that the whole file has not, or of less."""
    return {slug for slug, count in found.notes.items() if count > whole.notes[slug]}


# -- random damage


class Lab:
    """Writes damaged files and looks at what becomes of them, each by one of two ways."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "store.db"

    def look(self, content: bytes, *, store: bool) -> Found | None:
        source = self._folder / "trace.json"
        source.write_bytes(content)
        began = time.monotonic()
        with within(SECONDS):
            if not store:
                found = _read(source)
            else:
                found = _imported(source, self._store)
                self._store.unlink(missing_ok=True)
        assert time.monotonic() - began < SECONDS
        assert [path.name for path in self._folder.iterdir()] == [source.name]
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@dataclass(frozen=True)
class Sample:
    """A whole trace, what it gives, and its text where it is compressed."""

    name: str
    content: bytes
    text: bytes
    whole: Found


_CUT_TO = 60_000
_KEPT = 120_000


def _shortened(text: bytes) -> bytes:
    """A trace with fewer events, its own beginning and no end; as it is where it is short."""
    if len(text) <= _KEPT:
        return text
    *_, last = EVENT_BORDER.finditer(text, 0, _CUT_TO)
    return text[: last.start() + 1] + b"]}"


def _sample(lab: Lab, path: Path) -> Sample:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    text = _shortened(text)
    content = gzip.compress(text, 6, mtime=0) if path.suffix == ".gz" else text
    whole = lab.look(content, store=False)
    assert whole is not None, path
    return Sample(path.name, content, text, whole)


WHOLE_FIXTURES = sorted(
    path for path in KINETO.iterdir()
    if path.name not in ("odd-autograd.json", "odd-browser.json")
    and "truncated" not in path.name and "cut-short" not in path.name
)  # fmt: skip


def _assert_cut(lab: Lab, sample: Sample, size: int, *, store: bool) -> None:
    found = lab.look(sample.content[:size], store=store)
    if found is None:
        return
    rest = sample.content[size:].strip()
    where = f"{sample.name} cut at {size}"
    if rest:
        said = found.notes.keys() & {"trace-truncated", "metadata-unreadable"}
        assert {found.severities[slug] for slug in said} - {Severity.INFO}, where
    if "trace-truncated" not in found.notes:
        assert found.rows == sample.whole.rows, where
    assert found.rows <= sample.whole.rows, where


def _assert_changed(lab: Lab, sample: Sample, content: bytes, where: str, *, store: bool) -> None:
    found = lab.look(content, store=store)
    if found is None:
        return
    if found.sure < sample.whole.sure:
        assert _new(found, sample.whole) & LEFT_OUT, where
    for name in TOLD_BY_VALUES:
        # One byte is in one event only.
        lost = sample.whole.rows[name] - found.rows[name]
        assert lost <= 1 or _new(found, sample.whole) & LEFT_OUT, where


_EVERY = 10  # one in so many goes through a store, which takes ten times as long
_FILES = 30


def _cuts(lab: Lab, paths: list[Path], seed: int) -> None:
    random_ = random.Random(f"cuts {seed}")
    for number in range(_FILES):
        sample = _sample(lab, random_.choice(paths))
        cut, _ = mutate_bytes.cut(random_, sample.content)
        _assert_cut(lab, sample, len(cut), store=number % _EVERY == 0)


def _changes(lab: Lab, paths: list[Path], seed: int) -> None:
    random_ = random.Random(f"changes {seed}")
    for number in range(_FILES):
        sample = _sample(lab, random_.choice(paths))
        packed = sample.text is not sample.content and random_.random() < 0.5
        changed, what = mutate_bytes.change(
            random_, sample.content if packed else sample.text, counts=(1,))  # fmt: skip
        _assert_changed(lab, sample, changed, f"{sample.name} {what}", store=number % _EVERY == 0)


@pytest.mark.parametrize("seed", few(range(10), 1))
def test_fixtures_cut_anywhere(lab: Lab, seed: int) -> None:
    _cuts(lab, WHOLE_FIXTURES, seed)


@pytest.mark.parametrize("seed", few(range(16), 1))
def test_fixtures_with_a_changed_byte(lab: Lab, seed: int) -> None:
    _changes(lab, WHOLE_FIXTURES, seed)


def _small_real_files() -> list[Path]:
    """The twelve smallest, and the plain ones, of which the beginning is taken."""
    files = sorted((REAL / "kineto").iterdir(), key=lambda path: path.stat().st_size)
    return [*files[:12], *(path for path in files[12:] if path.suffix == ".json")]


@real
@pytest.mark.parametrize("seed", few(range(30), 1))
def test_real_traces_cut_anywhere(lab: Lab, seed: int) -> None:
    _cuts(lab, _small_real_files(), seed)


@real
@pytest.mark.parametrize("seed", few(range(30), 1))
def test_real_traces_with_a_changed_byte(lab: Lab, seed: int) -> None:
    _changes(lab, _small_real_files(), seed)


@pytest.mark.parametrize(
    "name", ["basic-2.13.json", "training-1.9.json", "graphs-2.5-7001.json.gz"]
)
def test_a_cut_trace_keeps_all_whole_events(lab: Lab, name: str) -> None:
    """What a cut file gives is what the events before the cut give."""
    content = (KINETO / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    borders = [match.start() + 1 for match in EVENT_BORDER.finditer(content)]
    random_ = random.Random(name)
    for size in sorted(random_.sample(range(borders[10], borders[-1]), 40)):
        found = lab.look(content[:size], store=False)
        last = max(border for border in borders if border <= size)
        wanted = lab.look(content[:last] + b"]}", store=False)
        assert found is not None
        assert wanted is not None
        assert found.rows == wanted.rows, size
        assert "trace-truncated" in found.notes


# -- fixtures made by hand

UNREPAIRED = {
    "odd-backslash.json": {"json-repaired": 3, "metadata-unreadable": 1},
    "odd-bare-inf.json": {"json-repaired": 4},
    "odd-compact.json": {},
    "odd-control-character.json": {"json-repaired": 2},
    "odd-cut-short.json.gz": {"trace-truncated": 1},
    "odd-durations.json": {"impossible-time": 2, "negative-duration": 1, "json-repaired": 1,
                           "coarse-times": 1},
    "odd-future.json": {"category-unknown": 1},
    "odd-invalid-utf8.json": {"json-repaired": 3},
    "odd-list.json.gz": {"no-time-base": 1, "device-unnamed": 1},
    "odd-no-events.json": {"no-time-base": 1, "no-gpu-work": 1},
    "odd-quotes-old-layout.json": {"json-repaired": 2},
    "odd-quotes.json": {"json-repaired": 2, "metadata-unreadable": 1},
    "odd-reprinted.json.gz": {},
    "odd-secrets.json": {},
    "odd-small-pid.json": {},
    "odd-trailing-comma.json": {},
    "odd-truncated-no-base.json": {"trace-truncated": 1, "no-time-base": 1},
    "odd-truncated.json": {"trace-truncated": 1},
}  # fmt: skip
REFUSED = {"odd-autograd.json": "old autograd profiler", "odd-browser.json": "not of a GPU"}
BASIC = {"api_call": 18, "kernel": 8, "memcpy": 7, "memset": 1, "range": 5, "sync": 2,
         "overhead": 4}  # fmt: skip
BASIC_CUT = {"api_call": 11, "kernel": 4, "memcpy": 6, "range": 5}
ROWS = {
    **dict.fromkeys(UNREPAIRED, BASIC),
    "odd-cut-short.json.gz": BASIC_CUT, "odd-truncated.json": BASIC_CUT,
    "odd-truncated-no-base.json": BASIC_CUT, "odd-no-events.json": {},
    "odd-small-pid.json": {"api_call": 9, "kernel": 4, "memcpy": 2, "memset": 2},
    # 1.9 has annotations among operators and no waits; three rows have impossible times.
    "odd-durations.json": {"api_call": 16, "kernel": 7, "memcpy": 6, "memset": 1, "operator": 5},
}  # fmt: skip


def test_every_odd_fixture_is_here() -> None:
    odd = {path.name for path in KINETO.glob("odd-*")}
    assert odd == {*UNREPAIRED, *REFUSED, "odd-merged-ranks.json.gz"}


@pytest.mark.parametrize("name", UNREPAIRED)
def test_notes_and_rows_of_an_odd_trace(shelf: Shelf, name: str) -> None:
    profile = shelf.profile(KINETO / name)
    notes = Counter({note.slug: note.count for note in profile.notes})
    del notes["api-calls-partial"]
    assert notes == UNREPAIRED[name]
    rows = {table: len(event_rows(profile, table)) for table in EVENTS}
    assert {table: count for table, count in rows.items() if count} == ROWS[name]


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
ONE_CALL = {"api_call": 1}
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
}  # fmt: skip
for _key, _value in {
    "schemaVersion": b"%d" % _BIG, "host_name": b'"a\\ud800"', "cuda_driver_version": b"1e400",
    "distributedInfo": b'{"rank": %d, "world_size": "%s"}' % (_BIG, b"1" * 5000),
}.items():  # fmt: skip
    CASES[f"odd {_key}"] = (
        _trace(KERNEL, CALL, head=HEAD[:-16] + b'"%s": %s, ' % (_key.encode(), _value)
               + HEAD[-16:]), BOTH, {})  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, 35))
def test_odd_content(tmp_path: Path, case: str) -> None:
    content, rows, notes = CASES[case]
    source = tmp_path / "trace.json"
    source.write_bytes(content)
    with within(SECONDS):
        found = _imported(source, tmp_path / "store.db")
    assert found is not None
    del found.notes["api-calls-partial"]
    assert found.rows == rows
    assert found.notes == notes


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


@pytest.mark.parametrize(
    "word", [b"inf", b"-inf", b"Infinity", b"nan", b"-nan", b"nan(ind)", b"-nan(ind)", b"N/A"]
)
def test_words_instead_of_numbers_become_null(tmp_path: Path, word: bytes) -> None:
    found = _found(tmp_path, _kernel(b'"device"', b'"bandwidth": ' + word + b', "device"'))
    assert found.rows == BOTH
    assert found.notes["json-repaired"] == 1


def test_name_that_looks_like_event_border_does_not_split_event(tmp_path: Path) -> None:
    """Its quotes are not escaped, and one of its values ends as an event does."""
    event = KERNEL.replace(b'"k"', b'"a "b" {}, {"name": 1}"')
    found = _found(tmp_path, _trace(CALL, event, KERNEL))
    assert found.rows == {"kernel": 2, "api_call": 1}
    assert found.notes["json-repaired"] == 1


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


@pytest.mark.parametrize(
    ("start", "dur", "kept"),
    # The limit is 2^53 ns: 104 days.
    [(b"8000000000000.000", b"2.000", True), (b"9100000000000.000", b"2.000", False),
     (b"1.000", b"8000000000000.000", True), (b"1.000", b"9100000000000.000", False),
     (b"1.000", b"1e30", False), (b"1e30", b"2.000", False)],
)  # fmt: skip
def test_times_at_the_limits_are_kept(tmp_path: Path, start: bytes, dur: bytes, kept: bool) -> None:
    found = _found(tmp_path, _trace(CALL, KERNEL.replace(b"1.000", start).replace(b"2.000", dur)))
    assert found.rows["kernel"] == kept
    assert sum(found.notes[slug] for slug in ("impossible-time", "wrong-type")) == (not kept)


def _found(tmp_path: Path, content: bytes) -> Found:
    source = tmp_path / "trace.json"
    source.write_bytes(content)
    found = _imported(source, tmp_path / "store.db")
    assert found is not None
    return found


def _doubtful(found: Found) -> set[str]:
    return {slug for slug in found.notes if slug in LEFT_OUT}


@pytest.mark.parametrize(
    ("old", "new"), [(b'"cat": "kernel", ', b""), (b'"cat"', b'"cbt"'), (b'"kernel"', b"null")]
)
def test_interval_without_category_is_noted(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    found = _found(tmp_path, _kernel(old, new))
    assert found.rows["kernel"] == 1 or _doubtful(found)
    assert _doubtful(found), "taken for a kernel or left out: guessed, in any case"


@pytest.mark.parametrize("row", ["kernel", "call"])
@pytest.mark.parametrize("new", [b'"dvr"', b'"dur": null, "x"'])
def test_interval_without_duration_is_noted(
    tmp_path: Path, row: str, new: bytes
) -> None:
    """Reports leave such calls and operators out, and such kernels have no busy time."""
    content = (_kernel if row == "kernel" else _call)(b'"dur"', new)
    assert _doubtful(_found(tmp_path, content))


@pytest.mark.parametrize("packed", [True, False], ids=["gzip", "plain"])
def test_arrays_of_events_in_several_chunks_are_joined(tmp_path: Path, packed: bool) -> None:
    """The border of two arrays stands in the middle of a large trace."""
    half = b",".join([KERNEL, CALL] * 20_000)
    content = HEAD + half + b'], "traceEvents": [' + half + TAIL
    found = _found(tmp_path, gzip.compress(content, 1) if packed else content)
    assert found.rows == {"kernel": 40_000, "api_call": 40_000}
    assert found.notes["events-in-two-arrays"] == 1
    assert _doubtful(found) == set()


def test_events_under_a_users_key_are_not_read(tmp_path: Path) -> None:
    """Where the array's own key is damaged, what a user's key holds is not the trace."""
    content = (KINETO / "odd-secrets.json").read_bytes()
    place = content.rindex(b'"traceEvents"')
    source = tmp_path / "trace.json"
    source.write_bytes(content[:place] + b'"traceEvenus"' + content[place + 13 :])
    assert _imported(source, tmp_path / "store.db") is None


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
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_file_without_events_is_refused(tmp_path: Path, case: str) -> None:
    source = tmp_path / "trace.json"
    source.write_bytes(NOTHING[case])
    with within(SECONDS):
        assert _imported(source, tmp_path / "store.db") is None


# -- gzip

MANY = _trace(*[KERNEL, CALL] * 20_000)  # 6 MB


def test_gzip_cut_short(tmp_path: Path) -> None:
    packed = gzip.compress(MANY)
    found = _found(tmp_path, packed[: len(packed) // 2])
    assert found.notes["trace-truncated"] == 1
    # Up to the cut: about half, for the events are alike.
    assert found.rows["kernel"] > 8_000


def test_gzip_with_a_corrupt_middle(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(MANY, 0))  # stored: the damage is at a known place
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    found = _found(tmp_path, bytes(packed))
    assert found.notes["trace-truncated"] == 1
    # As much as is inflated at once may be lost before the damage.
    assert found.rows["kernel"] > 5_000


@pytest.mark.parametrize("content", [MANY, _trace(KERNEL, CALL)], ids=["large", "small"])
def test_gzip_with_a_wrong_checksum(tmp_path: Path, content: bytes) -> None:
    """Which of the bytes are wrong nobody knows: some rows with a note, or an error."""
    packed = bytearray(gzip.compress(content))
    packed[-8] ^= 1
    source = tmp_path / "trace.json.gz"
    source.write_bytes(packed)
    found = _imported(source, tmp_path / "store.db")
    assert found is None or found.notes["trace-truncated"] == 1


def test_gzip_of_several_members(tmp_path: Path) -> None:
    middle = HEAD + KERNEL
    packed = gzip.compress(middle) + gzip.compress(b"," + CALL + TAIL) + bytes(512)
    assert _found(tmp_path, packed).rows == BOTH


@pytest.mark.parametrize("zeros", [0, 512])
def test_bytes_after_compressed_trace_are_noted(tmp_path: Path, zeros: int) -> None:
    found = _found(tmp_path, gzip.compress(_trace(KERNEL, CALL)) + bytes(zeros) + b"more")
    assert found.rows == BOTH
    assert (found.notes["trailing-data"], found.notes["trace-truncated"]) == (1, 0)


def test_bytes_after_block_of_compressed_trace_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read at once ends where the compressed data does."""
    packed = gzip.compress(_trace(KERNEL, CALL))
    monkeypatch.setattr(trace, "_READ_BYTES", len(packed))
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


@pytest.mark.parametrize("packed", few([True, False], 1), ids=["gzip", "plain"])
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


@pytest.mark.parametrize("place", SECRET_PLACES)
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


@pytest.mark.parametrize("place", SECRET_PLACES)
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
    """A trace large enough for worker processes: 30 MB, every event another."""
    path = tmp_path_factory.mktemp("large") / "trace.json"
    with path.open("wb") as file:
        file.write(HEAD)
        for number in range(100_000):
            times = b'"ts": %d.250' % (number + 1)
            ids = b'"correlation": %d' % (number + 1)
            for event, time_ in ((CALL, b'"ts": 0.500'), (KERNEL, b'"ts": 1.000')):
                file.write(b",\n" * (number > 0 or event is KERNEL))
                file.write(event.replace(time_, times).replace(b'"correlation": 5', ids))
        file.write(TAIL)
    assert path.stat().st_size > decode._ALONE_BYTES
    return path


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


@needs_proc
def test_no_worker_is_left_behind(large: Path, tmp_path: Path) -> None:
    assert _workers() == []
    assert _import(large, tmp_path / "store.db", lambda: None) is None
    assert _workers() == []


@needs_proc
@pytest.mark.parametrize("count", [1, 100])
def test_a_killed_worker_is_an_error(large: Path, tmp_path: Path, count: int) -> None:
    def kill() -> None:
        for worker in _workers()[:count]:
            os.kill(worker, signal.SIGKILL)

    error = _import(large, tmp_path / "store.db", kill)
    assert isinstance(error, InputError)
    assert "ended early" in str(error)
    assert str(large) in str(error)
    assert _workers() == []
    assert not (tmp_path / "store.db").exists()


@needs_proc
def test_no_worker_is_left_behind_by_an_error(large: Path, tmp_path: Path) -> None:
    def fail() -> None:
        raise InputError("the disk is full")

    error = _import(large, tmp_path / "store.db", fail)  # held while we look
    assert "the disk is full" in str(error)
    assert _workers() == []


@needs_proc
def test_no_worker_is_left_behind_by_an_interrupt(large: Path, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as held:
        _import(large, tmp_path / "store.db", interrupt)
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


def _everything(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows, names in place of their numbers being those of the file."""
    rows = dump(store)
    del rows["run"]
    return rows


@pytest.mark.slow
def test_workers_change_no_row(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cores in (("beside.db", 2), ("alone.db", 1)):
        monkeypatch.setattr(decode, "cores", lambda cores=cores: cores)
        api.import_files([large], tmp_path / name)
    beside, alone = _everything(tmp_path / "beside.db"), _everything(tmp_path / "alone.db")
    assert len(alone["kernel"]) == len(alone["api_call"]) == 100_000
    assert beside.keys() == alone.keys()
    for table in (*EVENTS, "name", "process", "thread", "stream", "device", "note"):
        assert beside[table] == alone[table], table


@pytest.mark.parametrize("path", few(WHOLE_FIXTURES, 5), ids=name_of)
def test_workers_change_no_row_of_a_fixture(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """In small chunks, so that there is something for workers to do."""
    if "merged-ranks" in path.name or path.stat().st_size < 5_000:
        pytest.skip("too small for two chunks, or of two processes")
    wanted = shelf.profile(path)  # before anything is changed
    monkeypatch.setattr(decode, "_ALONE_BYTES", 0)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._FIRST_BYTES", 1 << 12)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._BLOCK_BYTES", 1 << 13)
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


@pytest.mark.parametrize("packed", [True, False], ids=["gzip", "plain"])
def test_damaged_trace_reads_the_same_in_small_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Damage in a later chunk is noted with its offset in the file."""
    bad = b'{"ph": "X", "name": oops}'
    content = _trace(*[KERNEL, CALL] * 200, bad, *[KERNEL, CALL] * 100, bad, *[KERNEL, CALL] * 100)
    source = tmp_path / "trace.json"
    source.write_bytes(gzip.compress(content) if packed else content)
    monkeypatch.setattr(decode, "_ALONE_BYTES", 0)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._READ_BYTES", 1 << 12)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._FIRST_BYTES", 1 << 12)
    monkeypatch.setattr("nsysconv.importers.kineto.trace._BLOCK_BYTES", 1 << 13)
    (file,) = api.import_files([source], tmp_path / "store.db").files
    (imported,) = file.imported
    assert (imported.row_counts["kernel"], imported.row_counts["api_call"]) == (400, 400)
    (note,) = (note for note in imported.notes if note.slug == "event-unreadable")
    assert note.where == f"byte {content.index(bad):,}"
