"""The record of a rank: written whole, and read with suspicion."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv import record
from nsysconv.record import Record

FULL = Record(
    rank=3, local_rank=1, world_size=8, host="node1", job="slurm 1234_5.0", profiler="nsys",
    report="train.3.nsys-rep", store="train.3.db", exit_status=137, signal=9,
    start_utc_ns=1_700_000_000_000_000_001, end_utc_ns=1_700_000_000_000_000_002,
    problems=("no report: nsys was killed (signal 9)",),
)  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def written(path: Path, **changes: Any) -> Path:
    FULL.write(path)
    document = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("told", [FULL, Record()], ids=["full", "empty"])
def test_what_is_written_is_read(tmp_path: Path, told: Record) -> None:
    path = tmp_path / "a.nsysconv.json"
    told.write(path)
    assert record.read(path) == told
    assert [p.name for p in tmp_path.iterdir()] == ["a.nsysconv.json"]


def test_the_document_holds_the_declared_fields_only(tmp_path: Path) -> None:
    path = tmp_path / "a.nsysconv.json"
    FULL.write(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert set(document) == {"nsysconv_record", *(field.name for field in fields(Record))}


@pytest.mark.parametrize("name", ["train.3.nsys-rep", "train.3.sqlite", "train.3.db"])
def test_the_record_stands_beside_all_files_of_a_report(name: str) -> None:
    assert record.record_path(Path("out") / name) == Path("out/train.3.nsysconv.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", True), ("rank", -1), ("rank", 3.0), ("rank", "3"), ("rank", 2**31),
        ("world_size", 0), ("exit_status", 256), ("signal", 0), ("end_utc_ns", 2**63),
        ("host", "a b"), ("host", "\x1b[2J"), ("host", ""), ("job", "slurm"), ("job", "slurm a/b"),
        ("profiler", "a b"), ("report", "../train.nsys-rep"), ("report", "a\nb"), ("report", ".."),
        ("store", "/etc/passwd"), ("store", "x" * 256),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_unknown(tmp_path: Path, field: str, value: object) -> None:
    found = record.read(written(tmp_path / "a.nsysconv.json", **{field: value}))
    assert found == Record(**{**vars(FULL), field: None})


def test_problems_that_would_steer_a_terminal_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.nsysconv.json", problems=["good", "\x1b[2J", 7, "", "x" * 1001])
    found = record.read(path)
    assert found is not None
    assert found.problems == ("good",)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "{}", '{"nsysconv_record": 2}', '{"nsysconv_record": true}', "[" * 100_000,
     '{"nsysconv_record": 1, "rank": 1' + " " * 70_000 + "}"],
)  # fmt: skip
def test_what_is_no_record_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.nsysconv.json"
    path.write_text(text, encoding="utf-8")
    assert record.read(path) is None


def test_a_record_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert record.read(tmp_path / "a.nsysconv.json") is None
    assert record.read(tmp_path) is None


@given(st.dictionaries(st.sampled_from([field.name for field in fields(Record)]), json_values))
def test_whatever_is_read_can_be_written_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("record") / "a.nsysconv.json"
    path.write_text(json.dumps({"nsysconv_record": 1, **document}), encoding="utf-8")
    found = record.read(path)
    assert found is not None
    found.write(path)
    assert record.read(path) == found


def test_a_record_is_completed_where_there_is_no_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.nsysconv.json"
    Record(rank=3).write(path)
    size = path.stat().st_size

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    FULL.write(path)
    assert record.read(path) == FULL
    assert path.stat().st_size == size
    with pytest.raises(OSError, match="No space left"):  # nothing else is written over
        Record(problems=("x" * 900,) * 9).write(path)
    assert record.read(path) == FULL
    assert [p.name for p in tmp_path.iterdir()] == ["a.nsysconv.json"]


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        FULL.write(tmp_path / "missing" / "a.nsysconv.json")
    (tmp_path / "a.nsysconv.json").mkdir()
    with pytest.raises(OSError):
        FULL.write(tmp_path / "a.nsysconv.json")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nsysconv.json"]
