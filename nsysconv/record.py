"""The record of one rank: what `nsysconv profile` (or its shell twin) did, as JSON beside the report.

It is written when the profiler is started and completed when it has ended; a killed rank leaves the
first version. It holds its fields and nothing else: no argument of the program, nothing of the
environment. A record may come from anywhere: a value without the declared type and shape reads as None.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nsysconv.partials import building

VERSION = 1
SUFFIX = ".nsysconv.json"

_ROOM = 4096
"""The size of a record from the start, so that it can be completed on a full disk."""
_MAX_BYTES = 64 * 1024
_MAX_PROBLEMS = 100
_MAX_TEXT = 1000
_HOST = re.compile(r"[\w.:-]{1,253}", re.ASCII)
_JOB = re.compile(r"\w{1,16} [\w.\[\]:-]{1,64}", re.ASCII)
_PROFILER = re.compile(r"[a-z]{1,32}")
_MAX_NUMBER = 2**31
_MAX_NS = 2**63


@dataclass(frozen=True)
class Record:
    """The record of one rank; None means unknown. `report` and `store` are names of files beside it."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    job: str | None = None
    profiler: str | None = None
    report: str | None = None
    store: str | None = None
    exit_status: int | None = None
    """None as long as no end is known."""
    signal: int | None = None
    """The signal that ended the program, as far as its exit status says."""
    start_utc_ns: int | None = None
    end_utc_ns: int | None = None
    problems: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the record atomically, so that a reader sees all of it or none. May raise OSError."""
        document = {"nsysconv_record": VERSION, **asdict(self)}
        data = json.dumps(document, indent=1).encode().ljust(_ROOM - 1) + b"\n"
        try:
            with building(path) as partial:
                with partial.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
        except OSError:
            # A full disk has no room for a second file: overwrite the record that is there.
            if not _overwritten(path, data):
                raise


def _overwritten(path: Path, data: bytes) -> bool:
    try:
        with path.open("r+b", buffering=0) as file:
            if len(data) > _ROOM or os.fstat(file.fileno()).st_size != _ROOM:
                return False
            written = file.write(data)
            os.fsync(file.fileno())
    except OSError:
        return False
    return written == len(data)


def record_path(path: Path) -> Path:
    """Return the path of the record of a report, its export or store: another last suffix."""
    return path.with_name(path.stem + SUFFIX)


def is_record(path: Path) -> bool:
    """Return whether a file is named as a record is."""
    return path.name.endswith(SUFFIX)


def read(path: Path) -> Record | None:
    """Return the record in a file; None if there is no file, or it holds no record."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
        document = json.loads(text) if len(text) <= _MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or _number(document, "nsysconv_record") != VERSION:
        return None
    return Record(
        rank=_number(document, "rank"),
        local_rank=_number(document, "local_rank"),
        world_size=_number(document, "world_size", least=1),
        host=_matching(document, "host", _HOST),
        job=_matching(document, "job", _JOB),
        profiler=_matching(document, "profiler", _PROFILER),
        report=_file_name(document, "report"),
        store=_file_name(document, "store"),
        exit_status=_number(document, "exit_status", most=256),
        signal=_number(document, "signal", least=1, most=129),
        start_utc_ns=_number(document, "start_utc_ns", most=_MAX_NS),
        end_utc_ns=_number(document, "end_utc_ns", most=_MAX_NS),
        problems=_texts(document, "problems"),
    )


def _number(
    document: Mapping[str, Any], key: str, least: int = 0, most: int = _MAX_NUMBER
) -> int | None:
    value = document.get(key)
    return value if type(value) is int and least <= value < most else None


def _matching(document: Mapping[str, Any], key: str, shape: re.Pattern[str]) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) and shape.fullmatch(value) else None


def _file_name(document: Mapping[str, Any], key: str) -> str | None:
    # A plain name only: it must not lead out of the folder of the record.
    value = document.get(key)
    if not isinstance(value, str) or not value.isprintable() or len(value) > 255:
        return None
    return None if "/" in value or value in ("", ".", "..") else value


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = document.get(key)
    if not isinstance(values, list):
        return ()
    return tuple(
        value
        for value in values[:_MAX_PROBLEMS]
        if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _MAX_TEXT
    )
