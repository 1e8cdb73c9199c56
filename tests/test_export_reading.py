"""How traces are read and written: which columns, how many rows at a time, and by whom."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, NSYS, all_columns, by_turns, import_file, name_of, profile_in_place
from hypothesis import given
from hypothesis import strategies as st
from traces import document, exported

from nsysconv import schema
from nsysconv.export import columns, lanes, layout
from nsysconv.export.event_args import NameLookup
from nsysconv.export.tracing import in_background
from nsysconv.export.tracks import ON_DEVICES, ON_THREADS, OPS, EventKind
from nsysconv.report import MISSING, values_of
from nsysconv.store.location import reading
from nsysconv.store.read import Profile
from nsysconv.timeline import arrays

BASIC = NSYS / "basic-3.28.1.sqlite"
TWO_GPUS = NSYS / "two_processes_two_gpus-3.24.7.sqlite"
TRACE = FIXTURES / "kineto" / "basic-2.13.json"
KINDS = (*OPS, *ON_THREADS, *ON_DEVICES)


class Asked(dict[str, Any]):
    """Columns without rows, and which of them were asked for."""

    def __init__(self, table: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        for column in schema.metadata.tables[table].c:
            nothing = np.empty(0, np.int64)
            is_text = column.name == "text"
            self[column.name] = columns.Coded(nothing, []) if is_text else nothing
        self["row"] = np.empty(0, np.int64)

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.what}-{kind.args.make.__name__}")
def test_a_kind_reads_the_columns_that_it_says(kind: EventKind) -> None:
    """No more, or they would be missing; no fewer, or they would be read for nothing."""
    rows = Asked(kind.table)
    with profile_in_place(BASIC) as profile:
        kind.args.make(rows, NameLookup(profile))
    assert rows.names - {"row"} == set(kind.args.columns)
    assert set(kind.args.columns) <= set(kind.columns)


def some_columns(profile: Profile, table: str, names: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {name: [] for name in names}
    for batch in profile.batches(table, 3, names):
        assert batch.schema.names == names
        for name in names:
            found[name] += values_of(batch.column(name), MISSING).tolist()
    return found


@pytest.mark.parametrize("table", ["kernel", "api_call"])
def test_batches_of_some_columns(table: str, tmp_path: Path) -> None:
    """In the order asked for, of a store as of a file in place."""
    names = ["correlation_id", "start_ns"]
    import_file(BASIC, tmp_path / "store.db")
    with profile_in_place(BASIC) as ours, reading(tmp_path / "store.db") as store:
        (imported,) = store.profiles()
        for profile in (ours, imported):
            whole = all_columns(profile, table)
            wanted = {name: whole[name].tolist() for name in names}
            assert some_columns(profile, table, names) == wanted
            assert len(wanted["start_ns"]) > 3


def test_constants_are_what_the_columns_hold(tmp_path: Path) -> None:
    """A profile of one process and one device, of a store as of a file in place."""
    import_file(BASIC, tmp_path / "store.db")
    with profile_in_place(BASIC) as ours, reading(tmp_path / "store.db") as store:
        (imported,) = store.profiles()
        for profile in (ours, imported):
            known = profile.constants("kernel")
            assert {"pid", "device_id"} <= set(known)
            # A source without a column never has a value of it.
            assert ("shared_bytes" in known) is (profile is ours)
            for name, values in some_columns(profile, "kernel", list(known)).items():
                assert set(values) == {known[name]}


@pytest.mark.parametrize(
    ("source", "few_groups"), by_turns([BASIC, TWO_GPUS, TRACE], [0, 16], 4), ids=name_of
)
def test_number_of_rows_at_a_time_changes_no_event(
    source: Path, few_groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where arrows stand: behind the rows that are written together."""

    def events(folder: str) -> list[str]:
        (tmp_path / folder).mkdir()
        made = exported(source, tmp_path / folder)
        assert made is not None
        return [str(event) for event in document(made.path)["traceEvents"]]

    at_once = events("whole")
    monkeypatch.setattr(columns, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(lanes, "PIECE", 2)
    monkeypatch.setattr(arrays, "BLOCK", 2)
    monkeypatch.setattr(layout, "FEW_GROUPS", few_groups)
    by_threes = events("pieces")
    assert sorted(by_threes) == sorted(at_once)
    assert by_threes != at_once


@given(st.lists(st.sampled_from((MISSING, -1, 0, 7, 2**62))))
def test_firsts_are_the_first_rows_of_distinct_values(values: list[int]) -> None:
    first, numbers = columns.firsts(np.array(values, np.int64))
    assert [values[i] for i in first[numbers].tolist()] == values
    assert first.tolist() == [values.index(value) for value in dict.fromkeys(values)]


# -- work behind


def test_background_tasks_run_in_order_in_one_thread() -> None:
    done: list[tuple[int, int]] = []
    with in_background() as submit:
        for number in range(7):
            submit(lambda number=number: done.append((number, threading.get_ident())))  # type: ignore[misc]
    assert [number for number, _ in done] == list(range(7))
    assert len({thread for _, thread in done}) == 1
    assert done[0][1] != threading.get_ident()


def test_error_of_background_task_ends_the_others() -> None:
    """Not at once, but soon."""
    done = []

    def fails() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"), in_background() as submit:
        submit(fails)
        for number in range(9):
            submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert len(done) < 9


def test_last_background_task_is_awaited() -> None:
    def fails() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"), in_background() as submit:
        submit(fails)
