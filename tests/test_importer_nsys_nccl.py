"""Payloads of NCCL's ranges: what calls and kernels exchange; damage. See scripts/scenario_nccl.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NSYS, REAL, Row, Shelf, event_rows, examples, few, profile_in_place, real
from hypothesis import given
from hypothesis import strategies as st
from importing import changed_copy
from nsys_rows import nccl_blob
from scenario_nccl import KIB, MIB, A, B
from workload import NcclPayload

from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import nccl
from nsysconv.notes import Severity
from nsysconv.report import Report
from nsysconv.store import read
from nsysconv.store.read import Profile

FILES = [NSYS / f"nccl-{age}.sqlite" for age in ("3.25.0", "3.28.1")]
GROUP_A, GROUP_B = "0x00c0ffee000000a1", "0xf00d0000000000b2"
ALL_REDUCE_KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
UNKNOWN = (ALL_REDUCE_KERNEL, None, None, None, None)
# Correlation id: what, bytes given and gotten, communicator and its ranks.
KERNELS = {
    801: ("allreduce", 4 * MIB, 4 * MIB, GROUP_A, 2),
    802: ("allreduce", KIB, KIB, GROUP_A, 2),
    803: ("allgather", MIB, None, GROUP_B, 4),
    804: ("reduce_scatter", None, 512 * KIB, GROUP_B, 4),
    805: ("sendrecv", 3000, 5000, GROUP_A, 2),
    806: ("allreduce", 2 * MIB, 2 * MIB, GROUP_A, 2),
    807: UNKNOWN,
    808: UNKNOWN,
    809: UNKNOWN,
}
DESCRIBED = ("name", "in_bytes", "out_bytes", "group", "group_size")


def described(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in DESCRIBED)


def kernels(profile: Profile, pid: int = 4600) -> dict[int, tuple[object, ...]]:
    rows = event_rows(profile, "collective")
    return {
        row["correlation_id"]: described(row)
        for row in rows
        if row["kind"] == "kernel" and row["pid"] == pid
    }


def notes(profile: Profile) -> dict[str, int]:
    return {note.slug: note.count for note in profile.notes}


def answer(path: Path) -> Report:
    (report,) = api.report_on(path, ["collectives"], limit=0)
    return report


# -- copies that are changed

Change = Callable[[str], Profile]


@pytest.fixture
def changed(tmp_path: Path, shelf: Shelf) -> Change:
    """Imports a copy that SQL has changed."""
    return lambda sql: shelf.profile(changed_copy(FILES[0], tmp_path, sql))


# -- rows


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.stem)
def test_each_kernel_has_the_message_of_the_calls_behind_it(shelf: Shelf, source: Path) -> None:
    profile = shelf.profile(source)
    assert kernels(profile, 4600) == kernels(profile, 4601) == KERNELS
    assert Fact.COLLECTIVES in profile.facts


def test_a_kernel_is_where_it_ran_and_a_call_where_it_was_made(shelf: Shelf) -> None:
    rows = [row for row in event_rows(shelf.profile(FILES[0]), "collective") if row["pid"] == 4601]
    names = ("kind", "start_ns", "dur_ns", "device_id", "context_id", "stream_id", "tid")
    found = [tuple(row[name] for name in names) for row in rows]
    assert ("kernel", 21_000, 39_000, 1, 1, 16, None) in found
    assert ("call", 11_000, 2_000, None, None, None, 4601) in found


def test_calls_have_what_they_say_each_and_whom_they_are_with(shelf: Shelf) -> None:
    rows = [row for row in event_rows(shelf.profile(FILES[0]), "collective")
            if row["pid"] == 4600 and row["kind"] == "call"]  # fmt: skip
    assert [(*described(row), row["src_rank"], row["dst_rank"]) for row in rows] == [
        ("allreduce", 4 * MIB, 4 * MIB, GROUP_A, 2, None, None),
        ("allreduce", KIB, KIB, GROUP_A, 2, None, None),
        ("allgather", MIB, None, GROUP_B, 4, None, None),
        ("reduce_scatter", None, 512 * KIB, GROUP_B, 4, None, None),
        ("send", 3000, None, GROUP_A, 2, None, 1),
        ("recv", None, 5000, GROUP_A, 2, 1, None),
        ("allreduce", MIB, MIB, GROUP_A, 2, None, None),
        ("allreduce", MIB, MIB, GROUP_A, 2, None, None),
        ("allreduce", 64, 64, GROUP_A, 2, None, None),
        ("broadcast", 64, 64, GROUP_A, 2, 1, None),
        ("allreduce", 256, 256, GROUP_A, 2, None, None),
        ("allreduce", 256, 256, GROUP_B, 4, None, None),
    ]


# A send to rank 0 beside that to rank 1.
SENT = nccl_blob(NcclPayload("peer", (A, 9, 0)), 1).hex()
PEERS = {
    "one peer": ("", (1, 1)),
    "two peers": (
        "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId, binaryData) "
        f"SELECT start + 100, end, 59, globalTid, textId, domainId, x'{SENT}' FROM NVTX_EVENTS "
        "WHERE start = 31000",
        (1, None),
    ),
}


@pytest.mark.parametrize("peers", PEERS)
def test_a_kernel_has_the_peers_of_its_calls_where_they_are_one(changed: Change, peers: str) -> None:
    sql, wanted = PEERS[peers]
    rows = event_rows(changed(sql), "collective")
    (row,) = (row for row in rows if row["correlation_id"] == 805 and row["pid"] == 4600)
    assert (row["src_rank"], row["dst_rank"]) == wanted


def test_a_file_read_in_place_has_the_rows_of_its_store(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where several connections read a part each."""
    monkeypatch.setattr(read, "ROWS_PER_THREAD", 5)
    with profile_in_place(FILES[0]) as here:
        found = [row for batch in here.batches("collective", 7) for row in batch.to_pylist()]
        columns = here.columns("collective", ("start_ns", "in_bytes"))
    assert len(found) == 2 * (12 + 9) == len(columns["start_ns"])
    assert columns["start_ns"].tolist() == [row["start_ns"] for row in found]
    stored = shelf.profile(FILES[0]).batches("collective", 1000)
    assert found == [row for batch in stored for row in batch.to_pylist()]


# -- the report


@pytest.mark.parametrize("where", ["in place", "stored"])
def test_collectives_have_sizes_transfer_and_bandwidth(shelf: Shelf, where: str) -> None:
    """Rank 1 comes 1 us after rank 0 and both end together: of 801 39 us on each are transfer."""
    report = answer(FILES[0] if where == "in place" else shelf.store(FILES[0]))
    rows = {(row["operation"], row["group"], row["bytes"]): row for row in report.rows()}
    assert rows.keys() == {
        ("allreduce", GROUP_A, 4 * MIB), ("allreduce", GROUP_A, KIB), ("allreduce", GROUP_A, 2 * MIB),
        ("allgather", GROUP_B, 4 * MIB), ("reduce_scatter", GROUP_B, 2 * MIB),
        ("point_to_point", GROUP_A, 5000), ("allreduce", None, None),
    }  # fmt: skip
    reduce = rows["allreduce", GROUP_A, 4 * MIB]
    assert (reduce["group_size"], reduce["dtype"], reduce["kernel_count"]) == (2, None, 2)
    assert (reduce["transfer_sum_ns"], reduce["wait_sum_ns"]) == (78_000, 1_000)
    assert reduce["algorithm_bytes_per_s"] == pytest.approx(2 * 4 * MIB / 78e-6)
    assert reduce["bus_bytes_per_s"] == pytest.approx(2 * 4 * MIB / 78e-6 * 2 * 1 / 2)
    gather = rows["allgather", GROUP_B, 4 * MIB]
    assert gather["bus_bytes_per_s"] == pytest.approx(2 * 4 * MIB / 78e-6 * 3 / 4)
    unknown = rows["allreduce", None, None]
    assert (unknown["kernel_count"], unknown["collective_count"]) == (6, 3)
    assert unknown["transfer_sum_ns"] == 3 * 2 * 9_000, "matched by order, as without payloads"
    assert {note.slug: note.count for note in report.notes}["collectives-unlinked"] == 6


# -- links that are in doubt

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
OF_RANK_0 = "(globalTid >> 24 & 0xFFFFFF) = 4600"
AT, CALL = (f"{OF_RANK_0} AND {column} =" for column in ("start", "correlationId"))
# Of process 4600: which kernels lose their message.
DOUBTS = {
    "two kernels at a group's end": (
        f"UPDATE {RUNTIME} SET start = 34500, end = 34600 WHERE {CALL} 809", {805}),
    "launched by another thread": (
        f"UPDATE {RUNTIME} SET globalTid = globalTid + 1 WHERE {CALL} 801", {801}),
    "launched after the call": (
        f"UPDATE {RUNTIME} SET start = 12001, end = 12500 WHERE {CALL} 801", {801}),
    "a group whose start is not recorded": (
        f"DELETE FROM NVTX_EVENTS WHERE {AT} 18000", {803}),
    "a function that is not known": (
        "INSERT INTO StringIds VALUES (9999, 'ncclFutureReduce');"
        f"UPDATE NVTX_EVENTS SET textId = 9999 WHERE {AT} 39000", {806}),
    "no payload in one call of a group": (
        f"UPDATE NVTX_EVENTS SET binaryData = NULL WHERE {AT} 40000", {806}),
    "another process's launch of that number": (
        f"DELETE FROM {RUNTIME} WHERE {CALL} 801", {801}),
}  # fmt: skip


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_kernel_of_a_doubtful_call_has_no_message(changed: Change, doubt: str) -> None:
    sql, lost = DOUBTS[doubt]
    profile = changed(sql)
    found = kernels(profile)
    assert {number for number in KERNELS if found[number] != KERNELS[number]} == lost
    assert all(found[number][1:] == UNKNOWN[1:] for number in lost)
    assert kernels(profile, 4601) == KERNELS
    assert notes(profile) == {"collectives-unlinked": 6 + len(lost)}


def test_the_ranks_of_a_communicator_are_not_known_where_two_say_unlike(changed: Change) -> None:
    blob = nccl_blob(NcclPayload("init", (A, 3, 0, 0)), 1).hex()
    profile = changed(f"UPDATE NVTX_EVENTS SET binaryData = x'{blob}' WHERE {AT} 1000")
    assert kernels(profile)[801] == ("allreduce", 4 * MIB, 4 * MIB, GROUP_A, None)
    assert kernels(profile)[804][-1] == 4


def test_an_all_gather_of_unknown_ranks_has_no_size(changed: Change) -> None:
    profile = changed("UPDATE NVTX_EVENTS SET binaryData = NULL WHERE start IN (3000, 4000)")
    assert kernels(profile)[803] == ("allgather", MIB, None, GROUP_B, None)


def test_nccl_s_all_to_all_gives_its_size_to_each_rank(changed: Change) -> None:
    profile = changed(
        "INSERT INTO StringIds VALUES (9999, 'ncclAlltoAll');"
        "UPDATE NVTX_EVENTS SET textId = 9999 WHERE start IN (20000, 21000)"
    )
    assert kernels(profile)[803] == ("alltoall", 4 * MIB, 4 * MIB, GROUP_B, 4)


def test_sums_of_sizes_that_cannot_be_are_not_recorded(changed: Change) -> None:
    """Each is possible alone; as all-to-all of four ranks, and twice in a group, there are too many."""
    half = 1 << 52
    gather = nccl_blob(NcclPayload("message", (B, half)), 1).hex()
    reduce = nccl_blob(NcclPayload("reduction", (A, half, 0)), 1).hex()
    profile = changed(
        "INSERT INTO StringIds VALUES (9999, 'ncclAlltoAll');"
        f"UPDATE NVTX_EVENTS SET textId = 9999, binaryData = x'{gather}' WHERE {AT} 20000;"
        f"UPDATE NVTX_EVENTS SET binaryData = x'{reduce}' WHERE {OF_RANK_0} AND start IN (39000, 40000)"
    )
    assert kernels(profile)[803] == ("alltoall", None, None, GROUP_B, 4)
    assert kernels(profile)[806] == ("allreduce", None, None, GROUP_A, 2)


# -- payloads that are not as described

SOUND = nccl_blob(NcclPayload("reduction", (A, 4 * MIB, 0)), 1)
HUGE = nccl_blob(NcclPayload("reduction", (A, 1 << 60, 0)), 1)


def with_bytes(at: int, content: bytes) -> bytes:
    return SOUND[:at] + content + SOUND[at + len(content) :]


DAMAGED = {
    "no bytes": b"",
    "shorter than its head": SOUND[:31],
    "cut": SOUND[:-1],
    "longer than it says": SOUND + b"\0",
    "a foreign domain": with_bytes(0, b"\x09"),
    "a schema that is not there": with_bytes(8, b"\x63"),
    "a schema of another size": with_bytes(8, (16777220).to_bytes(4, "little")),
    "another size of the payload": with_bytes(16, b"\x10"),
    "another size of all": with_bytes(24, b"\x39"),
    "more than its schema has": with_bytes(24, b"\x39") + b"\0",
    "a size beyond all messages": HUGE,
    "very long": SOUND * 100,
}


@pytest.mark.parametrize("what", few(DAMAGED, 6))
def test_a_damaged_payload_is_left_out_and_counted(changed: Change, what: str) -> None:
    blob = DAMAGED[what].hex()
    profile = changed(f"UPDATE NVTX_EVENTS SET binaryData = x'{blob}' WHERE {AT} 10000")
    assert kernels(profile) == {**KERNELS, 801: UNKNOWN}
    assert notes(profile) == {"payload-unread": 1, "collectives-unlinked": 7}


def test_a_rank_below_zero_is_left_out_and_counted(changed: Change) -> None:
    blob = nccl_blob(NcclPayload("peer", (A, 3000, -1)), 1).hex()
    profile = changed(f"UPDATE NVTX_EVENTS SET binaryData = x'{blob}' WHERE {AT} 31000")
    assert kernels(profile)[805][1:] == UNKNOWN[1:]
    assert notes(profile) == {"payload-unread": 1, "collectives-unlinked": 7}


def test_a_text_in_place_of_a_payload_is_left_out_and_counted(changed: Change) -> None:
    profile = changed(f"UPDATE NVTX_EVENTS SET binaryData = '4096' WHERE {AT} 10000")
    assert kernels(profile) == {**KERNELS, 801: UNKNOWN}
    (unread,) = (note for note in profile.notes if note.slug == "payload-unread")
    assert (unread.count, unread.severity, unread.facts) == (1, Severity.DROPPED, {Fact.COLLECTIVES})
    assert unread.where.startswith("NVTX_EVENTS row ")


ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
OF_SIZE = "WHERE schemaId = 16777223 AND idx = 1"
SCHEMAS = {
    "two schemas of one number":
        f"INSERT INTO {ENTRIES} SELECT domainId, schemaId, idx, flags, type, name, description, "
        f"arrayOrUnionDetail, 0 FROM {ENTRIES} {OF_SIZE}",
    "a type that is not known": f"UPDATE {ENTRIES} SET type = 99 {OF_SIZE}",
    "a field beyond the payload": f"UPDATE {ENTRIES} SET offset = 17 {OF_SIZE}",
    "an offset that is not a number": f"UPDATE {ENTRIES} SET offset = 'x' {OF_SIZE}",
    "two sizes of one schema":
        "INSERT INTO NVTX_PAYLOAD_SCHEMAS (domainId, schemaId, payloadSize) "
        "VALUES (1, 16777223, 32), (3, 16777223, 32)",
    "a size that is not a number":
        "UPDATE NVTX_PAYLOAD_SCHEMAS SET payloadSize = 'x' WHERE schemaId = 16777223",
}  # fmt: skip


@pytest.mark.parametrize("what", SCHEMAS)
def test_payloads_of_a_doubtful_schema_are_left_out_and_counted(changed: Change, what: str) -> None:
    profile = changed(SCHEMAS[what])
    lost = dict.fromkeys((801, 802, 806), UNKNOWN)
    lost[804] = ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", None, None, None, None)
    assert kernels(profile) == KERNELS | lost
    assert notes(profile) == {"payload-unread": 2 * 8, "collectives-unlinked": 2 * 7}


# -- nothing to read


@pytest.mark.parametrize("sql", [
    "UPDATE NVTX_EVENTS SET text = 'NCCL2' WHERE eventType = 75",
    "DELETE FROM NVTX_EVENTS WHERE eventType = 75",
    "UPDATE NVTX_EVENTS SET binaryData = NULL",
    "DROP TABLE NVTX_PAYLOAD_SCHEMAS",
], ids=["another domain", "no domain", "no payloads", "no schemas"])  # fmt: skip
def test_without_payloads_of_nccl_sizes_are_not_recorded(changed: Change, sql: str) -> None:
    profile = changed(sql)
    assert Fact.COLLECTIVES in profile.missing
    assert profile.row_count("collective") == 0
    assert notes(profile) == {}


@real
@pytest.mark.parametrize("name", ["h100_2gpu_1s", "mfu_2gpu_after", "mfu_2gpu_before"])
def test_real_exports_of_schemas_without_payloads_record_no_sizes(shelf: Shelf, name: str) -> None:
    profile = shelf.profile(REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__{name}.sqlite")
    assert Fact.COLLECTIVES in profile.missing
    assert "payload-unread" not in notes(profile)


@real
def test_in_a_real_export_one_kernel_is_launched_at_the_end_of_each_group() -> None:
    """Which is what links stand on; payloads it has none."""
    path = REAL / "nsys_sqlite" / "GindaChen+nsys-ai__mfu_2gpu_after.sqlite"
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    rows = connection.execute(
        "SELECT coalesce(text, value), globalTid, start, end FROM NVTX_EVENTS "
        "LEFT JOIN StringIds ON id = textId WHERE domainId = 1 ORDER BY globalTid, start"
    ).fetchall()
    launches = connection.execute(
        "SELECT r.globalTid, r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s "
        "ON s.id = shortName "
        f"JOIN {RUNTIME} r USING (correlationId) "
        "WHERE value GLOB 'nccl*' AND r.globalTid >> 24 = k.globalPid >> 24"
    ).fetchall()
    connection.close()
    units = nccl.launch_units(nccl.NcclRange(*row) for row in rows)
    found = [nccl.launching_unit(units, launch) for launch in launches]
    assert len(found) == len({id(unit) for unit in found}) == 60
    assert {unit and [call.name for call in unit.calls or ()] == ["ncclSend", "ncclRecv"] * 2
            for unit in found} == {True}  # fmt: skip


# -- groups, against a slow and obvious version

STEPS = {"s": "ncclGroupStart", "e": "ncclGroupEnd", "c": "ncclAllReduce", "o": "ncclCommCount"}


@examples(300)
@given(st.text("secco", max_size=12), st.integers(0, 130))
def test_calls_behind_a_launch_are_those_since_the_outermost_start(steps: str, launch: int) -> None:
    """Each range is from 10 n to 10 n + 5; depth is counted anew for every launch."""
    ranges = [nccl.NcclRange(STEPS[step], 1, 10 * n, 10 * n + 5) for n, step in enumerate(steps)]
    unit = nccl.launching_unit(nccl.launch_units(ranges), (1, launch))
    at, within = divmod(launch, 10)
    if at >= len(steps) or within > 5 or steps[at] not in "ec":
        assert unit is None
        return
    depth, begun = 0, 0
    for n, step in enumerate(steps[:at]):
        if step == "s":
            begun = n if depth == 0 else begun
            depth += 1
        elif step == "e":
            depth = max(depth - 1, 0)
    if steps[at] == "c":
        wanted = None if depth else [at]
    elif depth == 0:
        wanted = "unknown"
    else:
        wanted = [n for n in range(begun, at) if steps[n] == "c"] if depth == 1 else None
    if wanted is None:
        assert unit is None
    elif wanted == "unknown":
        assert unit is not None and unit.calls is None
    else:
        assert unit is not None and unit.calls is not None
        assert [call.start // 10 for call in unit.calls] == wanted
