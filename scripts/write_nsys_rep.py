"""Write an SQLite export of Nsight Systems as the report (`.nsys-rep`) that it could have been made from.

    python scripts/write_nsys_rep.py EXPORT.sqlite REPORT.nsys-rep [--build 2025.6.1.190]

Prints which tables, columns and options have no known place in a report. Fields, their order, and what is
written out though it is 0 follow public reports. The same export gives the same bytes.
"""

from __future__ import annotations

import argparse
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import nsys_rep_fields as fields
from nsys_rep_fields import Cell, fill
from nsys_rep_wire import (
    COUNT_OF_EVENTS,
    COUNT_OF_LAYOUTS,
    COUNT_OF_STRINGS,
    COUNT_OF_THREADS,
    MASK,
    TITLE,
    Block,
    Report,
    Samples,
    field,
)

SECRETS = (
    "head-610", "head-721", "head-2.9", "head-2.26.11", "head-2.26.12", "head-2.26.30",
    "analysis-options", "agent-activity-list", "ui-data", "preset", "telemetry", "unnamed-string",
    "process-stream", "113-5", "113-7", "113-8", "113-9", "109-4",
)  # fmt: skip
"""Places for texts that must never leave a report: fields of the head, sections, strings, events."""

Row = dict[str, Cell]
_VM = 1 << 48
# Before the session began.
_SEEN = -1_000_000
# What clocks were compared before it began.
_EARLY = 254_000_000
_GRAPH_KINDS = {77: 113, 94: 131, 95: 132}
_INSTANTIATED = 94
# Domain, schema, size of the payload, size of all; what lies between is reserved.
_PAYLOAD = struct.Struct("<I4xI4xQQ")
# Tables that are not events or targets, with their columns that are written or follow from others.
_OTHERS = {
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "ProcessStreams": "globalPid filenameId contentId",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime systemClockNs",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "META_DATA_CAPTURE": "name value",
    "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId type numEntries",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId schemaId idx type name offset",
}
_IMPLIED = {"PROCESSES": {"pid"}, "NVTX_EVENTS": {"binaryData", "eventId"}, "COMPOSITE_EVENTS": {"id"},
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {"syncType"}, "TARGET_INFO_GPU": {"vmId"},
            "TARGET_INFO_CUDA_GPU": {"vmId"}, "PROFILER_OVERHEAD": {"eventClass"}}  # fmt: skip
_ARGUMENT, _VARIABLE = "PROCESS_0:ARGUMENT_", "PROCESS_0:ENVIRONMENT_VARIABLE"


def write_report(
    export: Path, report: Path, *, build: str = "2024.5.1.113", block_events: int = 7000,
    secrets: Mapping[str, str] | None = None,
) -> list[str]:  # fmt: skip
    """Write an export as a report of that build; return what has no place in it, a line for each.

    `secrets`: places, of SECRETS, with texts to plant there only. Raises ValueError for other places.
    """
    with closing(sqlite3.connect(f"{export.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        rows = Export(connection)
        report.write_bytes(_Writer(rows, build, secrets or {}).report(block_events).written())
        return [*not_held(rows)]


class Export:
    """The rows of an export."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Look which tables and columns there are."""
        connection.text_factory = bytes  # some texts are no UTF-8
        self._sql = connection
        self.columns: dict[str, list[str]] = {}
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for table in (name.decode() for (name,) in names):
            found = connection.execute(f"PRAGMA table_info({table})")
            self.columns[table] = [row[1].decode() for row in found]

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table in their order; none where there is no such table."""
        if table in self.columns:
            for cells in self._sql.execute(f"SELECT * FROM {table}"):
                yield dict(zip(self.columns[table], cells, strict=True))

    def first(self, table: str) -> Row:
        """Return the first row; an empty one where there is none."""
        return next(self.rows(table), {})

    def strings(self) -> list[bytes]:
        """Return the strings by their ids, empty ones where an id is missing."""
        found = dict(self._sql.execute("SELECT id, CAST(value AS BLOB) FROM StringIds").fetchall())
        return [found.get(number, b"") for number in range(max(found, default=-1) + 1)]

    def said(self) -> list[tuple[str, str]]:
        """Return the options of the recording. Until 2023 they say of which process they are."""
        found = [(_text(row["name"]), _text(row["value"])) for row in self.rows("META_DATA_CAPTURE")]
        options = {*fields.CUDA_OPTIONS, *fields.GRAPH_OPTIONS}
        return [(short if (short := name.removeprefix("PROCESS_0:")) in options else name, value)
                for name, value in found]  # fmt: skip


def _text(cell: Cell) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def not_held(export: Export) -> Iterator[str]:
    """Yield tables, columns and options of an export that are not written, with how many there are."""
    held = {table: set(columns.split()) for table, columns in _OTHERS.items()}
    held |= {table: {*fields.named(spec)} for table, spec in fields.EVENTS.items()}
    targets = {**fields.MACHINE, **fields.TARGETS}
    held |= {table: {*fields.named(spec)} for table, (_, spec) in targets.items()}
    for table, columns in export.columns.items():
        rows = [*export.rows(table)]
        if table not in held:
            if rows and not table.startswith(("ENUM_", "META_DATA_EXPORT", "EXPORT_META_DATA")):
                yield f"{table}: {len(rows)} rows"
            continue
        for column in columns:
            count = sum(row[column] is not None for row in rows)
            if count and column not in held[table] | _IMPLIED.get(table, set()):
                yield f"{table}.{column}: {count} cells"
    known = {"DEVICE_DISPLAY_NAME", "PROFILING_SESSION_UUID", "RUN_DURATION_MS", "PROCESS_0:COMMAND",
             "PROCESS_0:WORKING_DIR", "CAPTURE_EVENT_TYPE", "CUDA_TRACE_SCOPE", *fields.CUDA_OPTIONS,
             *fields.GRAPH_OPTIONS, *fields.OSRT_OPTIONS}  # fmt: skip
    for name in dict.fromkeys(name for name, _ in export.said()):
        if name not in known and not name.startswith((_ARGUMENT, _VARIABLE)):
            yield f"META_DATA_CAPTURE: {name}"


class _Writer:
    def __init__(self, export: Export, build: str, secrets: Mapping[str, str]) -> None:
        if unknown := set(secrets) - {*SECRETS}:
            raise ValueError(f"no such places of secrets: {sorted(unknown)}")
        self._export = export
        self._build = build
        self._version = tuple(int(part) for part in build.split("."))
        self._secrets = {place: text.encode() for place, text in secrets.items()}
        self._strings = export.strings()
        planted = {}
        for place in ("109-4", "process-stream", "unnamed-string"):
            if place in self._secrets:
                planted[place] = len(self._strings)
                self._strings.append(self._secrets[place])
        self._module, self._captured = planted.get("109-4"), planted.get("process-stream")
        self._launched = {row["globalPid"] for row in export.rows("ProcessStreams")}
        self._vid = _number(export.first("ANALYSIS_DETAILS").get("globalVid")) or _VM

    def report(self, block_events: int) -> Report:
        options = self._options({"2.26.30": self._secrets.get("analysis-options")})
        sections = {
            "Analysis Options Data": options,
            **dict.fromkeys(("Raw Sampling Data", "Sampling Data Offsets"), b""),
            "Agent activity list": self._opaque("agent-activity-list"),
            "Profiling Preset Data": self._opaque("preset"),
            "Time Conversion Data": self._conversions() if self._version >= (2025, 6) else None,
            "UI Data": self._opaque("ui-data"),
            "Telemetry": self._opaque("telemetry"),
        }
        if self._version < (2023, 3) and not sections["Agent activity list"]:
            sections["Agent activity list"] = None
        found = {name: content for name, content in sections.items() if content is not None}
        return Report(self._title(), found).with_samples(self._samples(block_events))

    def _title(self) -> bytes:
        if self._version < (2023, 4):
            return TITLE + b"1."
        digits = "".join(str(part) for part in (self._version[0] % 100, *self._version[1:3]))
        return TITLE + f"{self._build.replace('.', '@')}-{digits}00000000v0.".encode()

    def _opaque(self, place: str) -> bytes:
        # Only the names of these sections are known.
        return field(1, self._secrets[place]) if place in self._secrets else b""

    def _samples(self, block_events: int) -> Samples:
        events = [field(1, event) for event in self._events()]
        blocks = [events[at : at + block_events] for at in range(0, len(events), block_events)]
        streams = [fill(fields.STREAM, row) for row in self._export.rows("ProcessStreams")]
        if self._captured is not None:
            cells: Row = {"globalPid": self._vid, "filenameId": 0, "contentId": self._captured}
            streams.append(fill(fields.STREAM, cells))
        texts = [*(field(1, text) for text in self._strings), *(field(2, one) for one in streams)]
        threads = [field(1, fill(fields.THREAD, row)) for row in self._export.rows("ThreadNames")]
        layouts = self._layouts()
        counts = [
            field(COUNT_OF_EVENTS, len(events)), field(COUNT_OF_STRINGS, len(self._strings)),
            field(COUNT_OF_THREADS, len(threads)), field(9, "lz4"), field(10, 1), field(12, 1),
            field(13, field(1, self._vid | 1 << 32) + field(2, 3) + field(3, 16)), field(15, 0),
            field(COUNT_OF_LAYOUTS, 1) if layouts else b"",
        ]  # fmt: skip
        return Samples(
            self._head(), b"".join(counts), [Block.of(b"".join(one)) for one in blocks],
            [Block.of(b"".join(texts))], b"".join(threads), self._targets(),
            Block.of(layouts).written() if layouts else b"",
        )  # fmt: skip

    # -- events

    def _events(self) -> list[bytes]:
        found = [
            (_number(row.get("start") or row.get("timestamp") or row.get("_seen")), fill(spec, row))
            for table, spec in fields.EVENTS.items()
            for row in (self._derived(table, row) for row in self._rows(table))
        ]
        if self._module is not None:
            module: Row = {"_seen": _SEEN, "_string": self._module, "globalPid": self._vid}
            found.insert(0, (_SEEN, fill(fields.MODULE, module)))
        # Since then threads write their events one after the other.
        if self._version < (2024, 6):
            found.sort(key=lambda timed: timed[0])
        return [event for _, event in found]

    def _rows(self, table: str) -> Iterator[Row]:
        yield from self._export.rows(table)
        asked = any(place.startswith("113") for place in self._secrets)
        if table == "PROCESSES" and asked and not self._export.first(table):
            # Exports until 2021 name no processes; reports do.
            tids = [_number(row["globalTid"]) for row in self._export.rows("ThreadNames")]
            for pid in dict.fromkeys(tid >> 24 << 24 for tid in tids or [self._vid]):
                yield {"globalPid": pid, "name": b"program"}

    def _derived(self, table: str, row: Row) -> Row:
        if table == "PROCESSES":
            row |= {f"_{place}": text for place, text in self._secrets.items() if place[:3] == "113"}
            row |= {"_seen": _SEEN, "_old": 0 if self._version < (2024, 6) else None}
            # What nsys launched has no short name, only a path.
            if row["globalPid"] in self._launched and "113-5" not in self._secrets:
                row["_launched"] = row.pop("name")
        elif table == "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" and row.get("eventSyncId") is None:
            row["_oldType"] = row.pop("syncType")
        elif table == "CUDA_GRAPH_EVENTS":
            row["_kind"] = _GRAPH_KINDS.get(_number(row["eventClass"]), 132)
            if row["eventClass"] == _INSTANTIATED:
                row["_instantiated"] = row.pop("graphId")
        elif table == "NVTX_EVENTS" and isinstance(blob := row.get("binaryData"), bytes):
            _, row["_schema"], size, _ = _PAYLOAD.unpack_from(blob)
            row["_payload"] = blob[_PAYLOAD.size :][:size]
        return row

    def _layouts(self) -> bytes:
        """Return the layouts of payloads, for each process with some; one report was seen with any."""
        entries: dict[Cell, dict[bytes, None]] = {}
        for row in self._export.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES"):
            entries.setdefault(row["schemaId"], {})[field(4, fill(fields.ENTRY, row))] = None
        found: dict[bytes, None] = {}
        for row in self._export.rows("NVTX_PAYLOAD_SCHEMAS"):
            inside = b"".join(entries.get(row["schemaId"], ()))
            found[field(2, fill(fields.SCHEMA, row) + inside + fill(fields.SCHEMA_END, row))] = None
        ranges = self._export.rows("NVTX_EVENTS")
        tids = (_number(row["globalTid"]) for row in ranges if row.get("binaryData"))
        pids = dict.fromkeys(tid >> 24 << 24 for tid in tids)
        each = (field(3, field(1, pid) + b"".join(found)) for pid in pids)
        return field(1, 259) + b"".join(each) + field(4, 0) if found else b""

    def _targets(self) -> bytes:
        machine, others = (
            b"".join(field(number, fill(spec, row))
                     for table, (number, spec) in tables.items() for row in self._export.rows(table))
            for tables in (fields.MACHINE, fields.TARGETS)
        )  # fmt: skip
        return field(1, field(1, self._vid) + field(2, machine)) + field(10, 3) + others

    # -- the head

    def _head(self) -> bytes:
        planted = {place.removeprefix("head-"): text for place, text in self._secrets.items()}
        rows = self._export.rows("TARGET_INFO_SYSTEM_ENV")
        states = {_number(row["nameEnum"]): row["value"] for row in rows}
        folder = f"/opt/nvidia/nsight-systems/{self._build.rpartition('.')[0]}/target-linux-x64"
        states.setdefault(170, folder.encode())
        states |= {key: planted[str(key)] for key in (610, 721) if str(key) in planted}
        facts = [field(1, fill({1: "key", 2: "value"}, {"key": key, "value": states[key]}))
                 for key in sorted(states)]  # fmt: skip
        times = self._export.first("ANALYSIS_DETAILS")
        clocks = self._clocks() if self._version < (2025, 6, 2) else b""
        return b"".join((
            field(1, field(1, "Local (CLI)") + field(2, b"".join(facts)) + field(3, self._vid)),
            field(2, self._options(planted)), field(15, 0), field(16, clocks) if clocks else b"",
            fill({17: "startTime", 18: "stopTime", 19: "stopTime"}, times), field(50, b""),
        ))  # fmt: skip

    def _options(self, planted: Mapping[str, bytes | None]) -> bytes:
        said = self._export.said()
        one: dict[str, bytes] = {name: value.encode() for name, value in said}
        arguments = [value for name, value in said if name.startswith(_ARGUMENT)]
        variables = [value.partition("=")[::2] for name, value in said if name == _VARIABLE]
        secret = planted.get("2.26.30")
        types = [fields.EVENT_TYPES[value] for name, value in said if name == "CAPTURE_EVENT_TYPE"]
        osrt = [field(number, _value(one[name]))
                for name, number in fields.OSRT_OPTIONS.items() if name in one]  # fmt: skip
        new = self._version >= (2025, 6)
        cuda = self._cuda_options(one, int(new))
        argument = planted.get("2.26.11")
        launched = [
            field(1, 4), field(10, one.get("PROCESS_0:COMMAND", b"")),
            *(field(11, text) for text in arguments), b"" if argument is None else field(11, argument),
            field(12, planted.get("2.26.12") or one.get("PROCESS_0:WORKING_DIR", b"")),
            field(20, 1), field(22, 0),
            *(field(30, field(1, name) + field(2, text)) for name, text in variables),
            b"" if secret is None else field(30, field(1, "API_TOKEN") + field(2, secret)),
            b"" if new else cuda,
        ]  # fmt: skip
        uuid = one.get("PROFILING_SESSION_UUID")
        return b"".join((
            field(1, "Local (CLI)"), field(2, b"".join(field(1, number) for number in types)),
            field(4, 2), field(5, 3), field(8, 3),
            field(9, planted.get("2.9") or one.get("DEVICE_DISPLAY_NAME", b"")),
            field(12, b"".join(osrt)) if osrt else b"", field(26, b"".join(launched)),
            field(32, _value(one.get("RUN_DURATION_MS", b"0"))), b"" if uuid is None else field(77, uuid),
            field(92, cuda) if new else b"",
        ))  # fmt: skip

    def _cuda_options(self, one: Mapping[str, bytes], generation: int) -> bytes:
        found: dict[int, bytes] = {}
        for name, (old, new, default) in fields.CUDA_OPTIONS.items():
            number = (old, new)[generation]
            otherwise = int(bool(self._export.first(default))) if isinstance(default, str) else default
            found[number] = field(number, _value(one[name]) if name in one else otherwise)
        kernels = self._export.rows("CUPTI_ACTIVITY_KIND_KERNEL")
        by_node = int(any(row.get("graphNodeId") is not None for row in kernels))
        defaults = dict(zip(fields.GRAPH_OPTIONS, (by_node, 1), strict=True))
        graphs = [field(number, _value(one[name]) if name in one else default)
                  for number, (name, default) in enumerate(defaults.items(), 1)]  # fmt: skip
        number = fields.GRAPH_OPTION[generation]
        found[number] = field(number, b"".join(graphs))
        if generation:
            found[10] = field(10, field(1, _value(one.get("CUDA_TRACE_SCOPE", b"ProcessTree"))))
        return b"".join(found[number] for number in sorted(found))

    # -- clocks

    def _times(self) -> tuple[int, int] | None:
        start = self._export.first("ANALYSIS_DETAILS").get("startTime")
        utc = self._export.first("TARGET_INFO_SESSION_START_TIME").get("utcEpochNs")
        return (start, utc) if isinstance(start, int) and isinstance(utc, int) else None

    def _clocks(self) -> bytes:
        """Return offsets between clocks; UTC is reached by way of a third clock."""
        if (times := self._times()) is None:
            return b""
        start, utc = times
        third = -37_000_000_000
        here = str(self._vid)
        # Only the offset of the session's clock is written with a sign.
        offsets = (
            (9, 10, here, here, 0), (7, 1, "", "", -start), (3, 11, here, here, 0),
            (3, 9, here, here, start - third - utc & MASK), (3, 4, here, here, 4_000_000),
            (1, 3, "", here, third & MASK),
        )  # fmt: skip
        spec = fields.numbered(1, "one other of to offset unit")
        return b"".join(
            field(1, fill(spec, {"one": one, "other": other, "of": of.encode(), "to": to.encode(),
                                 "offset": str(offset).encode(), "unit": b"Offset"}))
            for one, other, of, to, offset in offsets
        )  # fmt: skip

    def _conversions(self) -> bytes:
        """Return pairs of clocks with the same moment on both."""
        if (times := self._times()) is None:
            return b""
        start, utc = times
        pairs = ((15, 14, start, 0), (11, 7, utc - _EARLY, start - _EARLY), (7, 15, 0, 0),
                 (12, 11, utc - _EARLY + 3_600_000_000_000, utc - _EARLY))  # fmt: skip
        ids = {kind: bytes([kind]) * 16 for kind in (1, 7, 11, 12, 14, 15)}
        clocks = [field(1, field(1, name) + field(2, kind)) for kind, name in ids.items()]
        both = []
        for one, other, here, there in pairs:
            segment = field(1, _moments(here, there)) + field(2, 1.0)
            both.append(field(1, field(1, ids[one]) + field(2, ids[other]) + field(3, segment)))
        return field(1, b"".join(clocks)) + field(2, b"".join(both))


def _moments(here: int, there: int) -> bytes:
    # One of the few places where 0 is left out.
    return b"".join(field(number, time) for number, time in ((1, here), (2, there)) if time)


def _value(text: bytes) -> int:
    word = text.decode()
    return fields.VALUES[word] if word in fields.VALUES else int(word)


def main() -> None:
    """Write the report, and print what has no place in it."""
    parser = argparse.ArgumentParser(description="write an export of Nsight Systems as a report")
    parser.add_argument("export", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--build", default="2024.5.1.113", help="of which nsys; default: %(default)s")
    asked = parser.parse_args()
    for line in write_report(asked.export, asked.report, build=asked.build):
        print(line)


if __name__ == "__main__":
    main()
