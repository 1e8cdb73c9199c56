"""Memory snapshots: the table of scripts/fixtures_pytorch_snapshot.py, real ones, damage, and attacks."""

from __future__ import annotations

import mmap
import os
import pickle
import pickletools
import struct
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import (
    FIXTURES,
    NO_REAL,
    REAL,
    claimed_by,
    examples,
    few,
    profile_in_place,
    small_rows,
)
from fixtures_pytorch_snapshot import (
    FIRST,
    OTHER,
    SECOND,
    T0_US,
    THIRD,
    A,
    B,
    C,
    block,
    event,
    segment,
    training,
)
from hypothesis import given
from hypothesis import strategies as st
from importing import pickled as written
from importing import places as notes

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.pickles import Unpickler
from nsysconv.importers.pytorch_snapshot import reader
from nsysconv.importers.pytorch_snapshot.plain_pickle import OpcodeScan, load

FOLDER = FIXTURES / "pytorch_snapshot"
TRAINING, OLD, TEXT = (FOLDER / f"{name}.pickle" for name in ("training", "old", "text"))
WITHOUT_HISTORY, SEGMENTS = FOLDER / "without_history.pickle", FOLDER / "segments_only.pickle"
ALL = (TRAINING, OLD, TEXT, WITHOUT_HISTORY, SEGMENTS)
SNAPSHOTS = REAL / "pytorch_snapshots"
Row = dict[str, Any]


def report(path: Path, spec: str) -> list[Row]:
    with api.open(path) as profile:
        return profile.report(spec).rows()


def figures(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# -- by hand


def test_events_in_their_order() -> None:
    names = ("start_ns", "address", "bytes", "allocated_bytes", "reserved_bytes")
    with profile_in_place(TRAINING) as profile:
        columns = profile.columns("memory_event", (*names, "free_bytes"))
        rows = list(zip(*(columns[name].tolist() for name in names), strict=True))
        free = columns["free_bytes"].tolist()
    assert [row for row in rows if row[1] > 0] == [
        (0, A, 500, 1800, 5120), (10_000, SECOND, 2048, 1800, 7168), (20_000, B, 2000, 3800, 7168),
        (50_000, B, -2000, 1800, 7168), (60_000, OTHER, -300, 1500, 7168),
        (70_000, THIRD, -1024, 1500, 6144), (80_000, C, 64, 1564, 6144), (90_000, C, -64, 1500, 6144),
    ]  # fmt: skip
    assert rows[3][0::2] == (30_000, 4000, 7168)
    assert rows[3][3] == 3800
    assert free[3] == 100


def test_blocks_at_the_end() -> None:
    with profile_in_place(TRAINING) as profile:
        rows = small_rows(profile, "memory_block")
    names = ("device_id", "segment_address", "address", "bytes", "requested_bytes", "state")
    assert figures(rows, *names) == [
        (0, FIRST, FIRST, 1024, 1000, 0), (0, FIRST, A, 512, 500, 0),
        (0, FIRST, FIRST + 1536, 2560, None, 2), (0, SECOND, SECOND, 2048, None, 2),
        (1, FIRST, FIRST, 256, 200, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("path", [TRAINING, OLD, TEXT], ids=lambda path: path.stem)
def test_the_peak_and_what_was_held_at_the_end(path: Path) -> None:
    """3,800 of 7,168 at the peak; 1,500 of 6,144 at the end, where 2,560 + 2,048 are inactive."""
    first, second = report(path, "memory")
    assert figures([first], "peak_bytes", "reserved_at_peak_bytes", "before_bytes", "end_bytes") == [
        (3800, 7168, 1300, 1500)]  # fmt: skip
    assert first["fragmented_pct"] == pytest.approx(100 * (7168 - 3800) / 7168)
    assert figures([first], "end_reserved_bytes", "inactive_bytes", "largest_inactive_bytes",
                   "rounding_bytes", "oom_count") == [(6144, 4608, 2560, 24 + 12, 1)]  # fmt: skip
    assert figures([first], "allocation_count", "allocation_bytes", "open_bytes") == [
        (3, 2564, 500)
    ]
    assert figures([second], "device_id", "peak_bytes", "end_bytes", "rounding_bytes") == [
        (1, None, 200, 56)]  # fmt: skip
    assert first["peak_start_ns"] == (None if path == OLD else 20_000)


@pytest.mark.parametrize("path", [TRAINING, OLD, TEXT], ids=lambda path: path.stem)
def test_who_held_the_peak(path: Path) -> None:
    """2,000 + 1,000 + 500 + 300 = 3,800; einsum is PyTorch's own, and its caller is named."""
    rows = [row for row in report(path, "memory_holders") if row["device_id"] == 0]
    assert figures(rows, "name", "live_at_peak_bytes", "live_at_oom_bytes", "end_bytes",
                   "allocation_count") == [
        ("model.py(30): attention", 2000, 2000, 0, 1), ("model.py(10): __init__", 1000, 1000, 1000, 0),
        ("model.py(20): forward", 500, 500, 500, 1), ("[before the recording]", 300, 300, 0, 0),
        ("BmmBackward0 [no Python frame]", 0, 0, 0, 1),
    ]  # fmt: skip
    assert rows[0]["stack"] == (
        "torch/functional.py(407): einsum < model.py(30): attention < train.py(5): <module>")  # fmt: skip


@pytest.mark.parametrize(("file", "function", "expected"), [
    ("/home/u/Projects (old)/train.py", "step", "train.py(7): step"),
    ("C:\\Users\\A (work)\\net.py", "step", "net.py(7): step"),
    ("/data/a;b/net.py", "step", "net.py(7): step"),
    ("/home/u/fit.py", "Trainer.fit.<locals>.closure", "fit.py(7): Trainer.fit.<locals>.closure"),
    ("<ipython-input-3-0a1b2c>", "<module>", "<ipython-input-3-0a1b2c>(7): <module>"),
    ("<string>", "<module>", "<string>(7): <module>"),
    ("/home/u/fast.pyx", "fill", "fast.pyx(7): fill"),
    ("<eval_with_key>.12", "forward", "outer.py(1): main"),
    ("<SECRET>", "f", "outer.py(1): main"),
    ("/home/u/a;b.py", "f", "outer.py(1): main"),
])  # fmt: skip
def test_who_holds_memory_by_the_names_of_files(
    file: str, function: str, expected: str, tmp_path: Path
) -> None:
    """Folders may have any name; code without a file has the names that Python and torch.fx give it."""
    frames = [{"filename": file, "line": 7, "name": function},
              {"filename": "/x/outer.py", "line": 1, "name": "main"}]  # fmt: skip
    held = {"device_traces": [[event(0, "alloc", A, 512, frames)]],
            "segments": [segment(0, A, block(A, 512, 512, frames=frames))]}  # fmt: skip
    (row,) = report(written(tmp_path, held), "memory_holders")
    assert (row["name"], row["end_bytes"]) == (expected, 512)


def test_allocations_that_failed() -> None:
    (row,) = report(TRAINING, "memory:by=oom")
    assert figures([row], "start_ns", "name", "bytes", "in_use_bytes", "reserved_bytes", "unused_bytes",
                   "free_bytes") == [
        (30_000, "model.py(30): attention", 4000, 3800, 7168, 3368, 100)]  # fmt: skip


def test_a_block_lasts_until_another_stream_is_done_with_it() -> None:
    """A free is asked for at 50 us and complete at 60."""
    rows = report(TRAINING, "memory:by=block")
    (attention,) = (row for row in rows if row["name"] == "model.py(30): attention")
    assert (attention["start_ns"], attention["dur_ns"], attention["state"]) == (
        20_000,
        30_000,
        "freed",
    )
    assert figures(rows[:2], "bytes", "state") == [(2000, "freed"), (1000, "before")]


def test_without_history_what_is_held_is_known_and_nothing_else() -> None:
    (row,) = report(WITHOUT_HISTORY, "memory")
    assert figures([row], "peak_bytes", "end_bytes", "oom_count", "end_reserved_bytes") == [
        (None, 3000, None, 3072)]  # fmt: skip
    with profile_in_place(WITHOUT_HISTORY) as profile:
        assert set(profile.facts) == {Fact.MEMORY_BLOCKS}
        assert "_record_memory_history" in profile.advice[Fact.MEMORY_EVENTS]


def test_a_list_of_segments_has_holders_at_the_end() -> None:
    rows = report(SEGMENTS, "memory_holders")
    assert figures(rows, "name", "end_bytes", "live_at_peak_bytes", "allocation_count") == [
        ("model.py(10): __init__", 1000, None, None), ("model.py(20): forward", 500, None, None),
        ("[no Python frame]", 200, None, None),
    ]  # fmt: skip


def test_facts_and_the_zero() -> None:
    with profile_in_place(TRAINING) as profile:
        assert set(profile.facts) == {Fact.MEMORY_EVENTS, Fact.MEMORY_BLOCKS, Fact.STACKS, Fact.UTC}
        assert profile.attributes["zero_utc_ns"] == (T0_US + 10) * 1000
        assert profile.attributes["recording_ns"] == 90_000
    with profile_in_place(OLD) as profile:
        assert set(profile.facts) == {Fact.MEMORY_EVENTS, Fact.MEMORY_BLOCKS, Fact.STACKS}


def test_a_block_taken_where_one_is_held_ends_that(tmp_path: Path) -> None:
    """The free of 500 was not recorded: 700 are in use, not 1,200."""
    events = [event(1, "alloc", FIRST, 500), event(2, "alloc", FIRST, 700)]
    content = {"segments": [segment(0, FIRST, block(FIRST, 1024, 700))], "device_traces": [events]}
    path = written(tmp_path, content)
    (row,) = report(path, "memory")
    assert figures([row], "before_bytes", "peak_bytes", "end_bytes") == [(0, 700, 700)]


def test_a_clock_that_goes_back_keeps_the_order(tmp_path: Path) -> None:
    events = [event(5, "alloc", FIRST, 500), event(3, "free_completed", FIRST, 500),
              event(9, "alloc", FIRST, 100)]  # fmt: skip
    content = {"segments": [segment(0, FIRST, block(FIRST, 512, 100))], "device_traces": [events]}
    path = written(tmp_path, content)
    assert notes(path)["memory-times-unordered"][0] == 1
    assert figures(report(path, "memory"), "peak_bytes", "end_bytes") == [(500, 100)]


# -- damage


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read_alike(protocol: int, tmp_path: Path) -> None:
    path = written(tmp_path, pickle.dumps(training(), protocol=protocol))
    assert claimed_by(path) == ["pytorch_snapshot"]
    assert report(path, "memory_holders")[0]["live_at_peak_bytes"] == 2000


@pytest.mark.parametrize("path", [TRAINING, OLD, TEXT], ids=lambda path: path.stem)
def test_a_file_without_its_end_is_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    for size in range(len(content) // 2, len(content) - 1, 293):
        with pytest.raises(InputError) as caught:
            api.open(written(tmp_path, content[:size]))
        assert "cut off" in caught.value.what, size
        assert "_dump_snapshot" in caught.value.hint


@pytest.mark.parametrize("content", [
    {"segments": 3, "blocks": 1}, {"device_traces": [], "total_size": 0},
    [{"total_size": 1}, "blocks", 1],
    {"segments": [{"blocks": [{"size": -1, "state": 3}]}, {"device": "total_size", "blocks": []}, 7]},
    {"segments": [], "device_traces": [[{"action": "alloc", "addr": "x", "size": None}, 3, {}]]},
    {"segments": [{"device": 0, "address": 1 << 70, "blocks": [{}, None]}], "device_traces": {}},
])  # fmt: skip
def test_odd_content_is_refused_or_noted(content: Any, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    try:
        assert notes(path)
    except InputError as error:
        assert error.hint


def test_events_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    content = training()
    content["device_traces"][0][1:1] = [event(11, "alloc", A, -5), event(12, "teleport", A, 5)]
    found = notes(written(tmp_path, content))
    assert found["cell-unreadable"] == (1, "device 0, event 1")
    assert found["unknown-code"] == (1, "device 0, event 2")
    assert report(tmp_path / "unnamed", "memory")[0]["peak_bytes"] == 3800


def test_notes_are_below_the_reports_on_memory(tmp_path: Path) -> None:
    content = training()
    content["device_traces"][0][1:1] = [event(11, "alloc", A, -5)]
    with api.open(written(tmp_path, content)) as profile:
        for name in ("memory", "memory_holders"):
            assert "cell-unreadable" in {note.slug for note in profile.report(name).notes}


def test_blocks_listed_again_and_again_are_refused(tmp_path: Path) -> None:
    """A list that is referred to 4,000 times has 4,000 times its blocks, and no more bytes."""
    one = segment(0, FIRST, *(block(FIRST + i, 1, 1) for i in range(1000)))
    with pytest.raises(InputError, match="more blocks and events than it has bytes"):
        api.open(written(tmp_path, {"segments": [one] * 4000, "device_traces": []}))
    events = [event(0, "free_requested", A, 1)] * 1000
    with pytest.raises(InputError, match="more blocks and events than it has bytes"):
        api.open(written(tmp_path, {"segments": [], "device_traces": [events] * 4000}))


@pytest.mark.parametrize("content", [
    {"segments": [segment(0, (1 << 63) - 2, block((1 << 63) - 2, 1 << 62, 1))], "device_traces": []},
    {"segments": [], "device_traces": [[event(0, "alloc", A, 1 << 61), event(1, "alloc", B, 1 << 62)]]},
])  # fmt: skip
def test_sizes_that_cannot_be_are_refused(content: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more memory than there can be"):
        api.open(written(tmp_path, content))


# -- what reaches the unpickler


class Counting(list[Any]):
    """A list that the reader makes, and how many items came at a time."""

    times: list[int]

    def extend(self, items: Any) -> None:
        self.times = [*getattr(self, "times", ()), len(items)]
        super().extend(items)


# 0x94 is the opcode that memoizes: as a number, in a text, as the number of something remembered.
NUMBERS = st.sampled_from([0, 0x94, 0x9494, 0x94949494, -0x94, 1 << 40, 0x94 << 40, (1 << 63) - 1])
TEXTS = st.sampled_from(["", "a", "N/A", "\x94", "]\x94(}", "”" * 200, "x" * 70_000])
CELLS = NUMBERS | TEXTS | st.none() | st.booleans() | st.tuples(NUMBERS, NUMBERS) | st.tuples(NUMBERS)
PLAIN = st.recursive(
    CELLS, lambda inner: st.lists(inner, max_size=7) | st.dictionaries(TEXTS, inner, max_size=4)
)


@examples(60)
@given(content=PLAIN, count=st.integers(1, 300), protocol=st.integers(0, 5))
def test_what_is_loaded_is_what_a_pickle_holds(content: Any, count: int, protocol: int) -> None:
    """The parts that come again, too: each is one object, as in the pickle."""
    shared = [{"name": "f", "line": 0x94, "content": content} for _ in range(count)]
    whole = [shared, [*shared, {"frames": shared}], [{"frames": [*shared]} for _ in range(5)], content]
    with TemporaryDirectory() as folder:
        path = written(Path(folder), pickle.dumps(whole, protocol=protocol))
        found = load(path, "x", Counting)
    assert found == whole
    assert found[1][-1]["frames"] is found[0]
    assert all(one is other for one, other in zip(found[2][3]["frames"], found[0], strict=True))


def test_items_of_a_list_come_by_thousands(tmp_path: Path) -> None:
    (found,) = load(written(tmp_path, pickle.dumps([[{"a": n} for n in range(2500)]])), "x", Counting)
    assert found.times == [1000, 1000, 500]


def test_what_is_never_fetched_is_not_kept(tmp_path: Path) -> None:
    """The frames that all events share, and the first 256 objects, which are not looked for."""
    frames = [{"name": "f", "filename": "a.py", "line": n} for n in range(3)]
    events = [{"action": f"alloc {n}", "frames": [*frames]} for n in range(1000)]
    events += [{"action": "", "frames": [{"late": 1}] * 2}]
    path = written(tmp_path, pickle.dumps(events, protocol=4))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        rewritten = b"".join(OpcodeScan(buffer, "x").parts())
    names = Counter(opcode.name for opcode, _, _ in pickletools.genops(rewritten))
    assert names["MEMOIZE"] == 0
    # And the late frame; one or two others have a number that an argument happens to have.
    assert 257 <= names["LONG_BINPUT"] <= 259


@pytest.mark.parametrize("place", range(4))
def test_a_tuple_may_be_in_two_frames(place: int, tmp_path: Path) -> None:
    """As a pickler leaves it that begins a new frame after 64 KiB."""
    opcodes = [b"K\x01", b"K\x94", b"\x86"]
    texts = b"".join(opcodes[:place]), b"".join(opcodes[place:])
    framed = [b"\x95" + struct.pack("<Q", len(text)) + text for text in texts if text]
    assert load(written(tmp_path, b"\x80\x04" + b"".join(framed) + b"."), "x") == (1, 0x94)


@pytest.mark.parametrize("opcodes", [b"K\x94N", b"NK\x94", b"K\x94]"])
def test_a_frame_hides_no_tuple_of_something_else(opcodes: bytes, tmp_path: Path) -> None:
    frames = [b"\x95" + struct.pack("<Q", len(text)) + text for text in (opcodes, b"\x86")]
    with pytest.raises(InputError, match="TUPLE2 makes a tuple"):
        load(written(tmp_path, b"\x80\x04" + b"".join(frames) + b"."), "x")


def test_frames_of_each_event_alone_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than so many such stacks are kept, and later frames take the place of others in memory."""
    monkeypatch.setattr(reader, "MOST_STACKS", 1 << 10)
    events = [
        event(n, "alloc", A + n, 1 + n % 7) | {"frames": [
            {"name": f"f{n % 7}", "filename": "/x/model.py", "line": n % 7}]}
        for n in range(8_000)
    ]  # fmt: skip
    path = written(tmp_path, {"segments": [], "device_traces": [[], events]})
    rows = report(path, "memory_holders")
    assert {row["name"]: row["allocation_count"] for row in rows} == {
        f"model.py({n}): f{n}": 8_000 // 7 + (n < 8_000 % 7) for n in range(7)}  # fmt: skip


def test_traces_of_several_devices_and_one_for_two(tmp_path: Path) -> None:
    first = [event(n, "alloc", A + n, 10) for n in range(1500)]
    other = [event(n, "alloc", A + n, 20) for n in range(3)]
    content = {"segments": [], "device_traces": [first, other, first, [], [event(0, "alloc", A, 7)]]}
    rows = report(written(tmp_path, content), "memory")
    assert {row["device_id"]: row["peak_bytes"] for row in rows} == {0: 15_000, 1: 60, 2: 15_000, 4: 7}


# -- hostile ones: each is refused by name and offset, and none of it runs


class Runs:
    """Makes a folder when it is unpickled, and is a snapshot in other respects."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


class Persistent(pickle.Pickler):
    def persistent_id(self, found: Any) -> Any:
        return "7" if isinstance(found, Runs) else None


SNAPSHOT = b"\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94"
END = b"u."
AT = f"byte {len(SNAPSHOT):,}"


@pytest.mark.parametrize("protocol", range(6))
def test_a_call_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    content = training() | {"external_annotations": Runs(made)}
    with pytest.raises(InputError) as caught:
        api.open(written(tmp_path, pickle.dumps(content, protocol=protocol)))
    assert ("STACK_GLOBAL" if protocol > 3 else "GLOBAL 'posix mkdir'") in caught.value.what
    assert "byte " in caught.value.where
    assert "Nothing in the file was run" in caught.value.hint
    assert not made.exists()


@pytest.mark.parametrize("protocol", [0, 4])
def test_a_persistent_id_is_refused(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "made.pickle"
    with path.open("wb") as file:
        Persistent(file, protocol).dump(training() | {"external_annotations": Runs(tmp_path)})
    with pytest.raises(InputError, match=r"PERSID.* could run code"):
        api.open(path)


HOSTILE = {
    "REDUCE": (b"\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R", "TUPLE|STACK_GLOBAL"),
    "GLOBAL": (b"cos\nsystem\n(S'id'\ntR", "GLOBAL 'os"),
    "INST": (b"(S'id'\nios\nsystem\n", "STRING"),
    "INST alone": (b"(ios\nsystem\n", "INST 'os"),
    "OBJ": (b"(o", "OBJ"),
    "NEWOBJ": (b"N)\x81", "NEWOBJ"),
    "NEWOBJ_EX": (b"N)}\x92", "NEWOBJ_EX"),
    "BUILD": (b"}}b", "BUILD"),
    "EXT1": (b"\x82\x01", "EXT1"),
    "EXT4": (b"\x84\x01\x00\x00\x00", "EXT4"),
    "BINPERSID": (b"NQ", "BINPERSID"),
    "NEXT_BUFFER": (b"\x97", "NEXT_BUFFER"),
    "BYTEARRAY8": (b"\x96" + struct.pack("<Q", 1 << 60), "BYTEARRAY8"),
    "no opcode": (b"\xff", "opcode 0xff"),
    "a second protocol": (b"\x80\x04N", "PROTO"),
    "huge text": (b"\x8d" + struct.pack("<Q", 1 << 50), "cut off"),
    "huge frame": (b"\x95" + struct.pack("<Q", 1 << 40) + b"N", "cut off"),
    "a frame that ends early": (b"\x95" + struct.pack("<Q", 3) + b"j\0\0\0\0N", "LONG_BINGET crosses"),
    "memo bomb": (b"Nr\xff\xff\xff\x7f", "LONG_BINPUT has memo number 2,147,483,647"),
    "memo bomb in text": (b"Np2147483647\n", "PUT has memo number 2,147,483,647"),
    "huge number": (b"\x8b" + struct.pack("<i", 1 << 30), "LONG4"),
    "long number": (b"\x8a\xff" + b"\1" * 255, "LONG1 has a number of more than 64 bits"),
    "endless digits": (b"I" + b"9" * 5000 + b"\n", "INT has an argument"),
    "containers": (b"(" + b"]" * 200_000 + b"l", "lists and dictionaries"),
    "nested tuples": (b"(K\x01\x85" + b"\x85" * 50_000 + b"t", "TUPLE1 makes a tuple"),
    "puts and memo": (b"Nq\x00N\x94", "BINPUT is used beside MEMOIZE"),
    "nested tuples of marks": (b"((K\x01tt", "TUPLE makes a tuple"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_plain_data_does_not_need_is_refused(name: str, tmp_path: Path) -> None:
    opcodes, pattern = HOSTILE[name]
    with pytest.raises(InputError, match=pattern) as caught:
        api.open(written(tmp_path, SNAPSHOT + opcodes + END))
    assert len(str(caught.value)) < 600


def test_the_place_of_an_opcode_is_given(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        api.open(written(tmp_path, SNAPSHOT + b"NQ" + END))
    assert caught.value.where.endswith(f"byte {len(SNAPSHOT) + 1:,}")


def test_deeply_nested_lists_are_no_harm(tmp_path: Path) -> None:
    deep = b"]" * 60_000 + b"a" * 59_999
    with api.open(written(tmp_path, SNAPSHOT + deep + END)) as profile:
        assert profile.report("memory").rows() == []


def test_the_unpickler_itself_refuses_classes(tmp_path: Path) -> None:
    """Where the look at the opcodes has missed something."""
    path = written(tmp_path, pickle.dumps(Runs(tmp_path / "made")))
    with path.open("rb") as file, pytest.raises(pickle.UnpicklingError):
        Unpickler(file, allowed={}).load()
    assert not (tmp_path / "made").exists()


# -- real ones


def expected() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    table = SNAPSHOTS / "expected.tsv"
    for line in table.read_text().splitlines()[1:] if table.exists() else ():
        file, _, what, value = line.split("\t")
        found.setdefault(file, {})[what] = value
    return found


EXPECTED = expected()


@pytest.mark.skipif(not EXPECTED, reason=NO_REAL)
@pytest.mark.parametrize("name", few(EXPECTED, 2))
def test_counts_and_sums_of_real_ones(name: str) -> None:
    wanted, path = EXPECTED[name], SNAPSHOTS / name
    number = {what: int(value) for what, value in wanted.items() if value.isdigit()}
    with profile_in_place(path) as profile:
        blocks = small_rows(profile, "memory_block")
        columns = profile.columns("memory_event", ("kind", "bytes"))
        kinds = list(zip(columns["kind"].tolist(), (columns["bytes"] > 0).tolist(), strict=True))
    used = [row for row in blocks if row["state"] != 2]
    assert len({row["segment_address"] for row in blocks}) == number["segments"]
    assert sum(row["bytes"] for row in blocks) == number["reserved"]
    assert sum(row["bytes"] for row in blocks if row["state"] == 0) == number["allocated"]
    assert sum(row["state"] == 0 for row in blocks) == number["allocated blocks"]
    assert sum(row["requested_bytes"] for row in used) == number["requested"]
    assert sum(row["bytes"] for row in used if row["state"] == 1) == number["awaiting free"]
    (row,) = report(path, "memory")
    assert row["largest_inactive_bytes"] == number["largest inactive block"]
    for what, kind in (
        ("alloc", (0, True)),
        ("free_completed", (0, False)),
        ("segment_alloc", (1, True)),
    ):
        assert kinds.count(kind) == number.get(f"events {what}", 0)
    if "peak" in number:
        assert figures([row], "before_bytes", "peak_bytes", "end_bytes") == [
            (number["before the first event"], number["peak"], number["at the end"])]  # fmt: skip


@pytest.mark.skipif(not EXPECTED, reason=NO_REAL)
@pytest.mark.parametrize("name", [name for name, wanted in EXPECTED.items() if "peak" in wanted])
def test_who_held_the_peak_of_real_ones(name: str) -> None:
    """The table names a file without its folders; what has no Python frame is one row there."""
    found: dict[str, tuple[int, int]] = {}
    for row in report(SNAPSHOTS / name, "memory_holders"):
        held = row["name"]
        if held.endswith("[no Python frame]"):
            held = "[no Python frame]"
        elif not held.startswith("["):
            file, _, function = held.partition(": ")
            held = f"{file.rpartition('/')[2].replace('(', ':').rstrip(')')} {function}"
        size, count = found.get(held, (0, 0))
        found[held] = size + row["live_at_peak_bytes"], count + row["live_at_peak_count"]
    head = "held at the peak by "
    wanted = {
        what.removeprefix(head): value for what, value in EXPECTED[name].items() if head in what
    }
    assert {what: " ".join(map(str, found.get(what, ()))) for what in wanted} == wanted
