"""The writer of nsys reports: bytes worked out by hand, and what it writes of every fixture."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, name_of, oldest_and_newest
from nsys_rep_wire import Block, Report, field, numbers, read_fields, varint
from write_nsys_rep import SECRETS, write_report

EXPORTS = sorted(NSYS.glob("*.sqlite"))
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
CALL = "start, end, eventClass, globalTid, correlationId, nameId, returnValue"


def _export(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in ("CREATE TABLE StringIds (id, value)", *statements):
            database.execute(statement)
    return path


def _written(export: Path, tmp_path: Path, **options: Any) -> bytes:
    write_report(export, tmp_path / "out.nsys-rep", **options)
    return (tmp_path / "out.nsys-rep").read_bytes()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ff" * 9 + "01")],
)
def test_numbers_take_seven_bits_a_byte(value: int, expected: str) -> None:
    assert varint(value).hex() == expected


def test_fields_have_their_number_and_their_type_in_front() -> None:
    assert field(1, 5).hex() == "0805"
    assert field(13, "ab").hex() == "6a026162"
    assert field(2, 1.0).hex() == "11000000000000f03f"


def test_a_call_is_the_message_worked_out_by_hand(tmp_path: Path) -> None:
    export = _export(
        tmp_path / "a.sqlite", "INSERT INTO StringIds VALUES (1, 'cudaFree')",
        f"CREATE TABLE {CALLS} ({CALL})", f"INSERT INTO {CALLS} VALUES (-1, 300, 1, 5, 7, 1, 0)",
    )  # fmt: skip
    samples = Report.read(_written(export, tmp_path)).samples()
    call = "08" + "ff" * 9 + "01" + "10ac02" + "1807" + "3001" + "3801" + "4000" + "6805"
    (event,) = samples.events[0].fields(1)
    assert event.hex() == "0830" + "e206" + f"{len(call) // 2:02x}" + call  # kind 48, field 108
    assert samples.strings[0].fields(1) == [b"", b"cudaFree"]  # of id 0 there is none
    assert numbers(samples.counts) | {10: 1} == {1: 1, 3: 2, 5: 0, 10: 1, 12: 1, 15: 0}


def test_the_file_ends_with_its_table_of_contents(tmp_path: Path) -> None:
    content = _written(EXPORTS[0], tmp_path, build="2025.6.1.190")
    assert content.startswith(b"NVIDIA Tegra Profiler Report 2025@6@1@190-")
    (at,) = struct.unpack("<Q", content[-16:-8])
    assert content[-8:] == b"U3w[END]"
    entries = [{n: v for n, _, v in read_fields(e)} for _, _, e in read_fields(content[at:-16])]
    assert [entry[1].decode() for entry in entries] == [
        "Analysis Options Data", "Raw Sampling Data", "Sampling Data Offsets", "Agent activity list",
        "Profiling Preset Data", "Time Conversion Data", "UI Data", "Telemetry",
    ]  # fmt: skip
    for entry, following in zip(entries, [*entries[1:], {2: at}], strict=True):
        assert entry[2] + entry[3] == following[2]
    samples, offsets = entries[1], entries[2]
    (strings_at,) = numbers(content[offsets[2] :][: offsets[3]]).values()
    strings, _ = Block.read(content, samples[2] + 8 + strings_at)
    assert strings.fields(1)[0] == b"[Unknown]"


@pytest.mark.parametrize("export", oldest_and_newest(EXPORTS), ids=name_of)
def test_every_fixture_can_be_a_report(export: Path, tmp_path: Path) -> None:
    once = _written(export, tmp_path)
    assert once == _written(export, tmp_path)
    samples = Report.read(once).samples()
    with closing(sqlite3.connect(export)) as database:
        strings = [text for (text,) in database.execute("SELECT value FROM StringIds ORDER BY id")]
        (threads,) = database.execute("SELECT count(*) FROM ThreadNames").fetchone()
    assert [text.decode() for text in samples.strings[0].fields(1)] == strings
    assert numbers(samples.counts)[5] == threads == len([*read_fields(samples.threads)])


def test_events_are_in_blocks_of_so_many(tmp_path: Path) -> None:
    export = NSYS / "basic-3.16.1.sqlite"
    samples = Report.read(_written(export, tmp_path, block_events=10)).samples()
    sizes = [len(block.fields(1)) for block in samples.events]
    assert set(sizes[:-1]) == {10}
    assert sum(sizes) == numbers(samples.counts)[1]


def test_what_has_no_place_is_named(tmp_path: Path) -> None:
    lines = write_report(NSYS / "cpu_side-3.28.1.sqlite", tmp_path / "out.nsys-rep")
    assert "MPI_P2P_EVENTS: 2 rows" in lines
    assert "OSRT_API.callchainId: 5 cells" in lines
    assert not any(line.startswith("CUPTI_ACTIVITY_KIND_RUNTIME") for line in lines)


# -- clocks

BASIC = NSYS / "basic-3.28.1.sqlite"


def _zero(export: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(export)) as database:
        (utc,) = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
        (start,) = database.execute("SELECT startTime FROM ANALYSIS_DETAILS").fetchone()
    return utc, start


def test_offsets_between_clocks_lead_to_utc(tmp_path: Path) -> None:
    head = Report.read(_written(BASIC, tmp_path)).samples().head
    (clocks,) = [value for number, _, value in read_fields(head) if number == 16]
    offsets = {}
    for _, _, pair in read_fields(clocks):
        found = {number: value for number, _, value in read_fields(pair)}
        offset = int(found[5])
        offsets[found[1], found[2]] = offset - (1 << 64) if offset >= 1 << 63 else offset
    utc, start = _zero(BASIC)
    assert offsets[7, 1] == -start
    assert start - offsets[1, 3] - offsets[3, 9] == utc


def test_pairs_of_moments_lead_to_utc(tmp_path: Path) -> None:
    report = Report.read(_written(BASIC, tmp_path, build="2026.1.1.204"))
    conversions = [value for number, _, value in read_fields(report.sections["Time Conversion Data"])]
    kinds = {}
    for _, _, clock in read_fields(conversions[0]):
        name, kind = (value for _, _, value in read_fields(clock))
        kinds[name] = kind
    moments = {}
    for _, _, pair in read_fields(conversions[1]):
        one, other, segment = (value for _, _, value in read_fields(pair))
        moments[kinds[one], kinds[other]] = numbers(next(read_fields(segment))[2])
    utc, start = _zero(BASIC)
    assert moments[11, 7][1] + start - moments[11, 7][2] == utc
    assert 16 not in {number for number, _, _ in read_fields(report.samples().head)}


# -- secrets


def _unpacked(content: bytes) -> bytes:
    report = Report.read(content)
    samples = report.samples()
    blocks = [block.raw for block in (*samples.events, *samples.strings)]
    sections = [content for name, content in report.sections.items() if not name.startswith("Raw")]
    return b"\n".join((samples.head, samples.targets, samples.threads, *blocks, *sections))


@pytest.mark.parametrize("age", ["2020", "2.9.1", "3.28.1"])
@pytest.mark.parametrize("place", SECRETS)
def test_a_secret_is_planted_in_its_place_only(place: str, age: str, tmp_path: Path) -> None:
    export = NSYS / f"basic-{age}.sqlite"
    found = _unpacked(_written(export, tmp_path, secrets={place: "CANARY-é"}))
    # The program's and somebody else's process.
    assert found.count("CANARY-é".encode()) == (2 if place.startswith("113") else 1)
    assert b"CANARY" not in _unpacked(_written(export, tmp_path))


def test_a_place_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head-1"):
        write_report(BASIC, tmp_path / "out.nsys-rep", secrets={"head-1": "x"})
