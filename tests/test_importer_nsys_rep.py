"""Reports of Nsight Systems: their wire format, what is not known in them, and what is damaged."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import NSYS, examples
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from write_nsys_rep import write_report

import nsysconv
from nsysconv.errors import InputError
from nsysconv.importers import wire
from nsysconv.importers.nsys_rep import schema
from nsysconv.importers.nsys_rep.events import Events, texts
from nsysconv.importers.nsys_rep.report import write_tables
from nsysconv.importers.wire import PADDING, Buffer, Spans, WireError

BASIC = NSYS / "basic-3.16.1.sqlite"

# -- writing, the plain way


def varint(value: int) -> bytes:
    """Return a number as its varint; negative ones have 64 bits."""
    value &= (1 << 64) - 1
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """Return a message of numbers, texts and messages."""
    return b"".join(
        varint(number << 3) + varint(value) if isinstance(value, int)
        else varint(number << 3 | 2) + varint(len(value)) + value
        for number, value in fields
    )  # fmt: skip


def block(*payloads: tuple[int, bytes]) -> bytes:
    """Return a block of events, unpacked."""
    events = [(1, message((1, payload), (payload, content))) for payload, content in payloads]
    return message(*events) + PADDING


def rows_in(events: Events, *blocks: bytes) -> list[tuple[str, pa.Table]]:
    """Return the rows of blocks, which are all that there are."""
    count = sum(len(Buffer(each).repeated(1)) for each in blocks)
    return list(events.rows(iter(blocks), count))


fields = st.lists(
    st.tuples(st.integers(1, 200), st.integers(-(1 << 63), (1 << 63) - 1) | st.binary(max_size=20)),
    max_size=6,
).map(lambda each: sorted(each, key=lambda field: field[0]))


# -- the wire format


@given(fields)
@examples(200)
def test_one_message_is_read_as_it_was_written(written: list[tuple[int, int | bytes]]) -> None:
    read = [(n, v if isinstance(v, int) else bytes(v)) for n, v in wire.fields(message(*written))]
    assert read == written


@given(st.lists(fields, min_size=1, max_size=30))
@examples(200)
def test_many_messages_are_read_as_one_by_one(written: list[list[tuple[int, int | bytes]]]) -> None:
    """Against the plain reader: each field of each message, in its order."""
    content = message(*((1, message(*each)) for each in written))
    buffer = Buffer(content + PADDING)
    spans = buffer.repeated(1)
    found: list[list[tuple[int, int | bytes]]] = [[] for _ in range(len(spans))]
    for column in buffer.fields(spans):
        value = column.value
        for place, which in enumerate(column.which.tolist()):
            read = (content[value.start[place] : value.end[place]] if isinstance(value, Spans)
                    else int(value[place]))  # fmt: skip
            found[which].append((column.number, read))
    assert found == written


def test_fields_of_four_and_eight_bytes_are_passed_over() -> None:
    content = b"\x09" + bytes(range(8)) + b"\x15wxyz" + b"\x18\x07"
    assert [number for number, _ in wire.fields(content)] == [1, 2, 3]
    buffer = Buffer(message((1, content), (1, content)) + PADDING)
    eight, four, last = buffer.fields(buffer.repeated(1))
    for column, wanted in ((eight, bytes(range(8))), (four, b"wxyz")):
        spans = column.value
        assert isinstance(spans, Spans)
        found = [buffer.data[a:b] for a, b in zip(spans.start, spans.end, strict=True)]
        assert found == [wanted, wanted]
    assert np.array_equal(last.value, [7, 7])


piece = st.binary(max_size=20) | st.just(b"\n" + b"\xe4\xb8\xad" * 5) | st.just(b"\n\x02")


@given(st.lists(st.lists(piece, max_size=4).map(b"".join), max_size=50), st.binary(max_size=30))
@examples(300)
def test_borders_are_found_whatever_lies_between_them(texts: list[bytes], rest: bytes) -> None:
    """Texts may hold the tag itself, before numbers without end; another field follows the last one."""
    whole = message(*((1, text) for text in texts)) + b"\x12" + rest
    spans = Buffer(whole + PADDING).repeated(1)
    read = [whole[a:b] for a, b in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
    assert read == texts


def test_a_last_message_that_is_not_whole_is_damage() -> None:
    with pytest.raises(WireError):
        Buffer(message((1, b"ab"))[:-1] + PADDING).repeated(1)


def test_a_varint_without_end_is_damage() -> None:
    with pytest.raises(WireError):
        wire.varint(b"\xff" * 20, 0)
    buffer = Buffer(message((1, b"\x08" + b"\xff" * 11)) + PADDING)
    with pytest.raises(WireError):
        list(buffer.fields(buffer.repeated(1)))


@pytest.mark.parametrize("content", [
    b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\x0f", b"\x09abc", b"\x0b", b"\x0f",
])  # fmt: skip
def test_what_reaches_beyond_its_message_is_damage(content: bytes) -> None:
    with pytest.raises(WireError):
        list(wire.fields(content))
    buffer = Buffer(message((1, content)) + PADDING)
    with pytest.raises(WireError):
        list(buffer.fields(buffer.repeated(1)))


# -- events


def test_a_kernel_and_a_call_become_rows() -> None:
    launch = message((1, 3), (2, 2), (10, 4), (11, 1), (12, 1), (27, 1 << 33))
    kernel = message((1, 100), (2, 250), (3, 7), (4, 0), (5, 1), (6, 13), (8, 99 << 24), (101, launch))
    call = message((1, 90), (2, 95), (3, 7), (6, 0), (7, 5), (8, 0), (13, 99 << 24 | 99))
    events = Events()
    rows = dict(rows_in(events, block((107, kernel), (108, call))))
    (made,) = rows["CUPTI_ACTIVITY_KIND_KERNEL"].to_pylist()
    assert made == {
        "start": 100, "end": 250, "deviceId": 0, "contextId": 1, "streamId": 13, "correlationId": 7,
        "globalPid": 99 << 24, "demangledName": 3, "shortName": 2, "gridX": 4, "gridY": 1, "gridZ": 1,
        "graphNodeId": 1 << 33,
    }  # fmt: skip
    assert rows["CUPTI_ACTIVITY_KIND_RUNTIME"].to_pylist() == [
        {"start": 90, "end": 95, "eventClass": 0, "globalTid": 99 << 24 | 99, "correlationId": 7,
         "nameId": 5, "returnValue": 0},
    ]  # fmt: skip
    assert events.used == {2, 3, 5}
    assert events.doubts == {"report-inferred": {"CUPTI_ACTIVITY_KIND_KERNEL.graphNodeId": 1}}


def test_blocks_are_read_together_and_no_more_of_them_than_there_are() -> None:
    def of(*starts: int) -> bytes:
        return block(*((106, message((1, start), (3, 0))) for start in starts))

    events = Events()
    blocks = iter([of(5, 4), of(300), of(7)])
    ((_, rows),) = events.rows(blocks, 3)
    assert rows.column("start").to_pylist() == [5, 4, 300]
    assert events.count == 3
    assert next(blocks) == of(7)


def test_absent_fields_are_null_and_zeros_are_not() -> None:
    ranges = (message((1, 59), (2, -5), (7, b"a\xff"), (10, 0), (13, 0)), message((1, 59), (2, 1)))
    ((table, rows),) = rows_in(Events(), block(*((102, each) for each in ranges)))
    assert table == "NVTX_EVENTS"
    assert rows.to_pylist() == [
        {"start": -5, "end": 0, "eventType": 59, "text": "a\ufffd", "domainId": 0},
        {"start": 1, "end": None, "eventType": 59, "text": None, "domainId": None},
    ]


def test_a_number_that_is_the_stores_sign_for_null_is_null() -> None:
    kernels = (message((1, 5), (2, 9), (4, -(1 << 63)), (101, message((1, 3)))),
               message((1, 6), (2, 9), (4, 2), (101, message((1, 3)))))  # fmt: skip
    ((_, rows),) = rows_in(Events(), block(*((107, each) for each in kernels)))
    assert rows.column("deviceId").to_pylist() == [None, 2]


def test_the_type_of_a_synchronisation_is_the_newer_field_or_the_older_one() -> None:
    of = [message((1, 0), (8, 1 << 24), (105, message((1, 0), *fields))) for fields in
          (((2, 3),), ((2, 3), (4, 1)), ((4, 0),))]  # fmt: skip
    ((_, rows),) = rows_in(Events(), block(*((107, each) for each in of)))
    assert rows.column("syncType").to_pylist() == [3, 1, 0]


def test_of_a_program_only_its_files_name_is_taken() -> None:
    of = [message((2, 7 << 24), *fields) for fields in (
        ((5, b"/home/me/run --token SECRET/x"), (6, b"run")), ((5, b"/opt/a b/c"),),
        ((5, b"./train"),), ((7, b"/no/name"),),
    )]  # fmt: skip
    ((_, rows),) = rows_in(Events(), block(*((113, each) for each in of)))
    assert rows.column("name").to_pylist() == ["run", "a", "train"]
    assert rows.column("pid").to_pylist() == [7, 7, 7]
    assert rows_in(Events(), block((113, message((6, b"run"))))) == []


def test_what_is_not_known_is_counted_by_its_number() -> None:
    events = Events()
    call = message((1, 0), (6, 99), (7, 0))
    graph = message((1, 0), (6, 95), (7, 0))
    marker = message((1, 0), (6, 10), (7, 0))
    rows = rows_in(events, block(
        (140, b""), (140, b""), (107, message((1, 0), (119, b""))), (108, call), (108, graph),
        (108, marker),
        (109, message((1, 0))), (106, message((1, 0), (3, 1), (77, 1))),
    ))  # fmt: skip
    assert [name for name, _ in rows] == ["SCHED_EVENTS"]
    assert events.doubts == {
        "report-unknown": {"payload 140": 2, "activity 119": 1, "class 99": 1},
        "report-not-read": {"creation of graphs": 1},
    }
    assert events.used == set()


def test_an_event_without_a_payload_is_counted_once() -> None:
    events = Events()
    assert rows_in(events, message((1, message((1, 5), (140, 7)))) + PADDING) == []
    assert events.doubts == {"report-unknown": {"events without a payload": 1}}


def test_each_column_is_of_one_table_and_in_order() -> None:
    for name, columns in schema.table_columns().items():
        assert columns, name
    assert list(schema.table_columns()["CUPTI_ACTIVITY_KIND_RUNTIME"]) == [
        "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
        "callchainId",
    ]  # fmt: skip


# -- whole reports


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    write_report(BASIC, path)
    return path


def rows_of(path: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


def test_a_report_of_any_name_is_one(report: Path, tmp_path: Path) -> None:
    other = tmp_path / "noname"
    report.rename(other)
    with nsysconv.open(other) as profile:
        assert profile.report("kernels").rows()


def test_cut_anywhere_it_is_refused(report: Path) -> None:
    content = report.read_bytes()
    places = [0, 1, 40, *random.Random(1).sample(range(41, len(content) - 1), 40), len(content) - 1]
    for place in places:
        report.write_bytes(content[:place])
        with pytest.raises(InputError) as raised:
            nsysconv.open(report)
        assert str(report) in str(raised.value) or raised.value.where == str(report)


def test_a_name_that_no_string_has_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export, path = tmp_path / "a.sqlite", tmp_path / "a.nsys-rep"
    export.write_bytes(BASIC.read_bytes())
    with closing(sqlite3.connect(export)) as connection, connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 1000000 WHERE rowid = 1")
    write_report(export, path)
    with pytest.raises(InputError, match="names that no string has"):
        write_tables(path, tmp_path / "out.sqlite")


@pytest.mark.parametrize(("build", "slugs"), [("2026.2.1.5", set()), ("2027.1.1.5", {"report-newer"})])
def test_a_newer_build_is_noted(build: str, slugs: set[str], tmp_path: Path) -> None:
    write_report(BASIC, tmp_path / "a.nsys-rep", build=build)
    _, notes = write_tables(tmp_path / "a.nsys-rep", tmp_path / "out.sqlite")
    assert {note.slug for note in notes} - {"report-inferred"} == slugs


def test_what_is_written_says_who_wrote_it(report: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made = nsysconv.export_profiles(report, "nsys-sqlite", tmp_path / "made" / "run.sqlite")
    said = dict(rows_of(made.path, "META_DATA_EXPORT"))
    assert said["EXPORT_PRODUCT_NAME"] == "nsysconv"
    assert said["EXPORT_PRODUCT_VERSION"] == "2024.5.1.113"
    assert "ENUM_*" in str(said["NSYSCONV_TABLES_NOT_HELD"])
    with nsysconv.open(report) as ours, nsysconv.open(made.path) as theirs:
        assert ours.report("kernels").rows() == theirs.report("kernels").rows()


def test_texts_of_an_arrow_table_are_those_of_the_buffer() -> None:
    buffer = Buffer("aäß".encode() + PADDING)
    spans = Spans(np.array([0, 1, 5]), np.array([1, 5, 5]))
    there = np.array([True, True, True])
    assert texts(buffer, spans, there).to_pylist() == ["a", "äß", ""]
    assert texts(buffer, spans, np.array([True, False, False])).to_pylist() == ["a", None, None]
    assert texts(buffer, spans, ~there) is None


@pytest.mark.parametrize(("words", "said"), [
    (["report", "run.nsys-rep"], "run.nsys-rep: its tables are written into a temporary file"),
    (["export", "run.nsys-rep", "--to", "nsys-sqlite", "-o", "out.sqlite"], "out.sqlite: a limit"),
])  # fmt: skip
def test_tables_that_cannot_be_written_are_no_fault_of_the_report(
    words: list[str], said: str, report: Path
) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (51_200, before[1]))
    try:
        done = run(*words, cwd=report.parent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.status not in (0, 70)
    assert said in done.err
    assert "a limit on file size" in done.err
    assert {path.name for path in report.parent.iterdir()} == {"run.nsys-rep"}
