"""What a report says of the recording, by allow-list: clocks, versions, options, devices, streams.

The head and the sections beside the events hold whole environments, command lines and folders. Nothing is
decoded but the fields that are named here and in options.toml; all others are passed over by length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nsysconv.importers.nsys_rep.schema import read, tables
from nsysconv.importers.wire import fields, messages, numbers, text

Row = dict[str, Any]

THREAD_NAMES = "ThreadNames"
_INSTALLED_IN = 170
# The head numbers the texts on the system; these numbers have the names that follow.
_SYSTEM = {_INSTALLED_IN: "TargetInstallDir", 205: "NvDriverVersion", 611: "CudaDriverVersion",
           619: "Hostname"}  # fmt: skip
_TRACED = {12: "NvtxEvents", 123: "Cuda", 124: "Graphics", 127: "OSRuntime"}
# These steps lead from the session's clock to UTC, over the machine's raw and its monotonic clock. The
# kinds are those of clocks in newer builds.
_TO_UTC = ((7, 1), (1, 3), (3, 9))
_KIND_RAW, _KIND_UTC = 7, 11
_BUILD = re.compile(r"nsight-?systems(?:-cli)?[/-](\d{4}\.\d+(?:\.\d+)*)", re.IGNORECASE)


def target_rows(message: bytes) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of the targets message by table: GPUs, contexts, streams."""
    for name, table in tables("targets").items():
        if table.path and name != THREAD_NAMES:
            yield name, rows_of(name, message)


def rows_of(name: str, message: bytes) -> list[Row]:
    """Return the rows of a small table that a message holds."""
    rows = []
    table = tables("targets")[name]
    first, *path = table.path
    for outer in messages(message, first):
        for found in messages(outer, *path):
            held = numbers(found) | {0: numbers(outer).get(1)}  # without a field: of what is around
            rows.append({
                each.name: text(found, each.paths[0][0]) if each.kind == "text"
                else held.get(each.paths[0][0] if each.paths else 0)
                for each in table.columns
            })  # fmt: skip
    return rows


class Head:
    """The head of a report."""

    def __init__(self, message: bytes, clocks: bytes) -> None:
        """Take the message, and the section with the clocks where there is one."""
        self._message, self._clocks = message, clocks
        self._numbers = numbers(message)
        # The texts on the system have numbers for names.
        self._system = dict(self._texts())
        match = _BUILD.search(self._system.get(_INSTALLED_IN, ""))
        self.build = match.group(1) if match else ""
        """The build that made the report, by the folder that it was in; "" where that does not say."""

    def _texts(self) -> Iterator[tuple[int, str]]:
        for entry in messages(self._message, 1, 2, 1):
            key = numbers(entry).get(1)
            if key in _SYSTEM and (value := text(entry, 2)) is not None:
                yield key, value

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the rows of the tables on the recording as a whole."""
        vid = next((numbers(machine).get(3) for machine in messages(self._message, 1)), None)
        begin, end = self._numbers.get(17), self._numbers.get(18)
        if begin is not None and end is not None:
            details = {"globalVid": vid or 0, "duration": end - begin}
            yield "ANALYSIS_DETAILS", [{**details, "startTime": begin, "stopTime": end}]
        if (utc := self._utc_of_start()) is not None:
            yield "TARGET_INFO_SESSION_START_TIME", [{"utcEpochNs": utc, "systemClockNs": begin}]
        of_machine = {"globalVid": vid, "devStateName": ""}
        system = self._system.items()
        named = [{**of_machine, "name": _SYSTEM[n], "nameEnum": n, "value": v} for n, v in system]
        yield "TARGET_INFO_SYSTEM_ENV", named
        yield "META_DATA_CAPTURE", [{"name": name, "value": v} for name, v in self._options()]

    def _utc_of_start(self) -> int | None:
        offsets: dict[tuple[int, int], int] = {}
        for entry in messages(self._message, 16, 1):
            clocks, digits = numbers(entry), text(entry, 5) or ""
            if len(digits) <= 20 and digits.removeprefix("-").isdecimal():
                offset = int(digits)
                offset -= (offset >= 1 << 63) << 64
                offsets[clocks.get(1, 0), clocks.get(2, 0)] = offset
        if all(step in offsets for step in _TO_UTC):
            return -sum(offsets[step] for step in _TO_UTC)
        start = self._numbers.get(17)
        kinds = {text(clock, 1): numbers(clock).get(2) for clock in messages(self._clocks, 1, 1)}
        for conversion in messages(self._clocks, 2, 1):
            both = [kinds.get(text(conversion, number)) for number in (1, 2)]
            for point in messages(conversion, 3, 1) if both == [_KIND_UTC, _KIND_RAW] else ():
                if start is not None:
                    return numbers(point).get(1, 0) + start - numbers(point).get(2, 0)
        return None

    def _options(self) -> Iterator[tuple[str, str]]:
        for traced in messages(self._message, 2, 2):
            for number, value in fields(traced):
                if number == 1 and isinstance(value, int) and value in _TRACED:
                    yield "CAPTURE_EVENT_TYPE", _TRACED[value]
        for group in read("options")["options"]:
            if "until" in group and messages(self._message, *group["until"]):
                continue
            default = 0 if group.get("default") else None
            for options in messages(self._message, *group["path"]):
                held = numbers(options)
                for words in group["fields"].split():
                    number, _, name = words.partition("=")
                    found = held.get(int(number), default)
                    if found is not None and (said := _said(name, found)):
                        yield group.get("prefix", "") + name.partition(":")[0].rstrip("?"), said


def _said(name: str, value: int) -> str:
    if name.endswith("?"):
        return "true" if value else "false"
    choices = name.partition(":")[2].split(",")
    if len(choices) == 1:
        return str(value)
    return choices[value] if 0 <= value < len(choices) else ""
