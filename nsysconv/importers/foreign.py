"""What a file is that no importer reads, and what to do instead: files of other programs.

Looked at only after every importer has refused the file. A wrong guess would be worse than none, so each
rule is a sign that no other program writes, as far as is known.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from nsysconv.importers.probe import Probe

_HEAD_BYTES = 1 << 16
# Of a Perfetto trace: how many packets to look at, and the field with the number of a packet's sequence.
_PACKETS = 4
_SEQUENCE = (10, 0)

_AS_SQLITE = "Export it as SQLite instead: nsys export --type sqlite REPORT.nsys-rep"
_NSYS = "Record the program with nsys profile --trace=cuda,nvtx … instead."
_ROCM = (
    "nsysconv does not read it. Of AMD's GPUs it reads what PyTorch records: use torch.profiler."
)
_NO_GPU = "It tells of the CPU alone. Record the GPU's work with nsys profile --trace=cuda,nvtx …"
_UNPACK = "Unpack it, and import what is in it."


class _Kind(NamedTuple):
    """A kind of files: a pattern that its content begins with or holds, what it is, what to do."""

    sign: bytes
    title: str
    hint: str


_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"

_BINARY = (
    _Kind(rb"PERFILE2", "a recording of Linux perf", f"Look at it with perf report. {_NO_GPU}"),
    _Kind(
        rb"NVR\0",
        "a report of Nsight Compute, which tells of single kernels",
        f"Look at it with ncu --import FILE. {_NSYS}",
    ),
    _Kind(
        rb"PAR1",
        "a Parquet file, such as nsys export --type parquetdir writes",
        _AS_SQLITE,
    ),
    _Kind(rb"ARROW1\0\0", "an Arrow file, such as nsys export --type arrow writes", _AS_SQLITE),
    _Kind(
        rb"\xff{4}..\0\0\x10\0\0\0",
        "an Arrow stream, such as nsys export --type arrow writes",
        _AS_SQLITE,
    ),
    _Kind(rb"\x89HDF\r\n\x1a\n", "an HDF5 file, such as nsys export --type hdf writes", _AS_SQLITE),
    _Kind(
        rb"PK\x03\x04.*\.parquet",
        "a zip archive of Parquet files, such as nsys export --type parquetdir writes",
        _AS_SQLITE,
    ),
    _Kind(rb"PK\x03\x04", "a zip archive", _UNPACK),
    _Kind(rb".{257}ustar", "a tar archive", _UNPACK),
    _Kind(rb"\x28\xb5\x2f\xfd", "a file that zstd has compressed", _UNPACK),
    _Kind(rb"\xfd7zXZ\0", "a file that xz has compressed", _UNPACK),
    _Kind(rb"BZh[1-9]1AY&SY", "a file that bzip2 has compressed", _UNPACK),
    _Kind(
        rb"\x04\x22\x4d\x18.{0,32}?memray|memray\0",
        "a recording of memray",
        f"Look at it with memray stats FILE. {_NO_GPU}",
    ),
    _Kind(
        rb"\x80[\x02-\x05].{0,64}?line_profiler",
        "a profile of line_profiler, as a Python pickle, which nsysconv does not open",
        f"Look at it with python -m line_profiler FILE. {_NO_GPU}",
    ),
    _Kind(
        rb"\x80[\x02-\x05](?:\x95|[]}(\x8c])",
        "a Python pickle, which nsysconv does not open: it could run any program",
        "Memory snapshots of PyTorch are shown by pytorch.org/memory_viz.",
    ),
    _Kind(
        rb"[\xfb{][()\xa8\xa9]\x03[\xfazZ\xdaus]",
        "a profile of cProfile",
        f"Look at it with python -m pstats FILE. {_NO_GPU}",
    ),
    _Kind(
        rb"\x0a"
        + _VARINT
        + rb"(?:\x08"
        + _VARINT
        + rb")?\x12.(?:/host:|/device:|Task Environment)",
        "an XSpace of XLA's profiler (xplane.pb), as JAX and TensorFlow write it",
        f"nsysconv does not read it. {_NSYS}",
    ),
)
"""Kinds of files that are no text, by how they begin. The first that fits is the answer."""

_JSON = (
    _Kind(rb'\A\s*\{\s*"rocprofiler-sdk-tool"', "JSON of rocprofv3", _ROCM),
    _Kind(rb'"CPU H(?:IP|SA) API"', "a trace of rocprof, as Chrome's JSON", _ROCM),
    _Kind(
        rb'speedscope\.app/file-format-schema',
        "stacks sampled on the CPU, as speedscope's JSON",
        f"Look at it at speedscope.app. {_NO_GPU}",
    ),
    _Kind(
        rb'\A\s*\{\s*"(?:alloc_samples|elapsed_time_sec)"\s*:',
        "a profile of Scalene",
        f"nsysconv reads no times of source lines. {_NSYS}",
    ),
    _Kind(
        rb'\A\s*\[(?=[^\0]*"children")(?=[^\0]*"frame")(?=[^\0]*"metrics")',
        "a profile of Triton's Proton",
        f"nsysconv does not read it. {_NSYS}",
    ),
    _Kind(
        rb'"process_name"[^{}]*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"/(?:host:CPU|device:)|'
        rb'"args"\s*:\s*\{\s*"name"\s*:\s*"/(?:host:CPU|device:)[^{}]*\},\s*"name"\s*:\s*"process_name"',
        "a trace that XLA's profiler made for viewing, as Chrome's JSON",
        f"nsysconv does not read it. {_NSYS}",
    ),
    _Kind(
        rb'"viztracer_metadata"',
        "a trace of VizTracer",
        f"Look at it with vizviewer FILE. {_NO_GPU}",
    ),
    _Kind(
        rb'\A\s*\{\s*"(?:CudaEvent|NvtxEvent|TraceProcessEvent)"|\A\s*\{\s*"Type"\s*:\s*\d+\s*,\s*"\w+Event"',
        "an export of Nsight Systems as JSON",
        _AS_SQLITE,
    ),
)  # fmt: skip
"""Kinds of JSON, by what it holds."""

_TEXT = (
    _Kind(
        rb'\A"?(?:Guid"?,"?)?(?:Kind|Domain|Correlation_Id|Sample_Timestamp)"?,"?\w+"?,.*'
        rb'(?:Start_Timestamp|Correlation_Id|Counter_Value)',
        "a table of rocprofv3, as CSV",
        _ROCM,
    ),
    _Kind(
        rb'\A"?Name"?,"?Calls"?,"?TotalDurationNs"?,"?AverageNs"?,"?Percentage',
        "a summary of rocprof, as CSV",
        _ROCM,
    ),
    _Kind(rb'\A"?Index"?,"?KernelName"?,"?gpu-id', "a table of rocprof, as CSV", _ROCM),
    _Kind(rb'\A"?Dispatch_ID"?,"?\w+"?,', "counters of rocprof, as CSV", _ROCM),
    _Kind(
        rb'^"ID","Process ID","Process Name","Host Name","Kernel Name"|'
        rb'^"Process ID","Process Name","Host Name","Kernel Name"|^==PROF== ',
        "what Nsight Compute (ncu) printed, which tells of single kernels",
        f"nsysconv does not read it. {_NSYS}",
    ),
    _Kind(
        rb"^Timer unit: [\d.e+-]+ s\s",
        "what line_profiler printed",
        f"nsysconv reads no times of source lines. {_NO_GPU}",
    ),
    _Kind(
        rb"\A\s*<(?:!DOCTYPE html|html)[\s>]",
        "a web page, and not the file itself",
        "Fetch the file again; from a page that shows it, by its link to the raw file.",
    ),
)  # fmt: skip
"""Kinds of text, by what it holds."""


@dataclass(frozen=True)
class _Database:
    """A kind of SQLite database, recognised by tables that it has; a `*` is for the rest of a name."""

    tables: frozenset[str]
    title: str
    hint: str


_DATABASES = (
    _Database(
        frozenset({"rocpd_info_agent*", "rocpd_kernel_dispatch*"}),
        "a rocpd database of ROCm (rocprofv3, rocprof-sys)",
        _ROCM,
    ),
    _Database(
        frozenset({"rocpd_api", "rocpd_op"}), "an RPD recording of ROCm (rocmProfileData)", _ROCM
    ),
    _Database(frozenset({"KERN"}), "a database of rocprof", _ROCM),
    _Database(
        frozenset({"compute_kernel", "compute_workload"}), "counters of rocprof-compute", _ROCM
    ),
    _Database(
        frozenset({"STRING_IDS", "CANN_API"}),
        "a profile of Ascend NPUs (msprof)",
        "nsysconv does not read it.",
    ),
)


def kind_of(probe: Probe) -> tuple[str, str] | None:
    """Return what the file is, and what to do instead, or None if it is unknown. Never raises."""
    if probe.is_sqlite:
        return _database_kind(probe.tables)
    if probe.head.startswith(b"\x1f\x8b"):
        text = _inflated(probe)
        if text.startswith(b"SQLite format 3\0"):
            return "a SQLite database that gzip has compressed", "Unpack it first: gunzip FILE"
        return _content_kind(text)
    return _content_kind(probe.head)


def _content_kind(head: bytes) -> tuple[str, str] | None:
    for kind in _BINARY:
        if re.match(kind.sign, head, re.DOTALL):
            return kind.title, kind.hint
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for kind in _JSON if text.startswith((b"{", b"[")) else _TEXT:
        if re.search(kind.sign, text, re.MULTILINE):
            return kind.title, kind.hint
    if _is_perfetto(head):
        return (
            "a Perfetto trace",
            "Look at it at ui.perfetto.dev, and import the profile that it was made from.",
        )
    return None


def _database_kind(names: Collection[str]) -> tuple[str, str] | None:
    for kind in _DATABASES:
        if all(_has_table(table, names) for table in kind.tables):
            return kind.title, kind.hint
    return None


def _has_table(table: str, names: Collection[str]) -> bool:
    if table.endswith("*"):
        return any(name.startswith(table[:-1]) for name in names)
    return table in names


def _inflated(probe: Probe) -> bytes:
    # Of a damaged gzip file: nothing.
    with suppress(OSError, EOFError, zlib.error), gzip.open(probe.path) as file:
        return file.read(_HEAD_BYTES)
    return b""


# -- Perfetto's traces have no signature: they are messages of protobuf, packet after packet.


def _is_perfetto(head: bytes) -> bool:
    place, sequences = 0, 0
    for _ in range(_PACKETS):
        packet = _packet_at(head, place)
        if packet is None:
            return False
        place = packet.stop
        fields = _fields(head[packet.start : packet.stop])
        if fields is None:
            return False
        sequences += _SEQUENCE in fields
        if place >= len(head):
            break
    return sequences > 0


def _packet_at(data: bytes, place: int) -> slice | None:
    # A packet is a field 1 of the trace: its tag, its length, its bytes.
    length, start = _varint(data, place + 1)
    if data[place : place + 1] != b"\x0a" or start is None or start + length > len(data):
        return None
    return slice(start, start + length)


def _fields(message: bytes) -> set[tuple[int, int]] | None:
    """Return the (field number, wire type) pairs of a message, or None if it is no message."""
    fields, place = set(), 0
    while place < len(message):
        tag, begin = _varint(message, place)
        length, after = _varint(message, begin) if begin is not None else (0, None)
        if begin is None or not tag >> 3 or tag & 7 not in (0, 1, 2, 5):
            return None
        if tag & 7 in (0, 2) and after is None:
            return None
        # By wire type: a varint, 8 bytes, bytes behind their length, 4 bytes.
        end = {0: after, 1: begin + 8, 2: (after or 0) + length, 5: begin + 4}[tag & 7]
        place = end or 0
        fields.add((tag >> 3, tag & 7))
    return fields if place == len(message) else None


def _varint(data: bytes, place: int) -> tuple[int, int | None]:
    """Return a number of protobuf and where it ends; None: it does not end."""
    value = 0
    for shift, byte in enumerate(data[place : place + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    return 0, None
