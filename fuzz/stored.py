"""Checks of the store made of a damaged file: sound rows, and none lost without a note."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import accounts
from cases import Case
from findings import Looked
from seeds import GZIP, SQLITE

from nsysconv import schema
from nsysconv.importers.detection import all_importers
from nsysconv.notes import Severity

SECRET = "SECRET-"
_LOSSES = frozenset({
    "backtrace-rows", "category-unknown", "rows-not-read", "unknown-code", "python-functions-left-out",
    "json-repaired", "metadata-unreadable", "duplicate-peer-copies",
})  # fmt: skip
_GPU_TABLES = ("kernel", "memcpy", "memset", "graph_launch", "unified_memory_event")


def includable(importer: str) -> tuple[str, ...]:
    """Return the words for rows that an importer leaves out by default."""
    return tuple(
        word for module in all_importers() if importer == module.NAME for word in module.INCLUDABLE
    )


class Stored:
    """The store of one file; `included` are words of `includable`."""

    def __init__(
        self, case: Case, source: Path, looked: Looked, included: Sequence[str] = ()
    ) -> None:
        """Take the store and its source."""
        self._included = bool(included)
        self._case = case
        self._source = source
        self._looked = looked

    def look(self, store: Path) -> int:
        """Check everything; return how many profiles are in the store."""
        content = store.read_bytes()
        if not self._case.moved and any(SECRET.encode(c) in content for c in ("utf-8", "utf-16-le")):
            self._looked.wrong("a store without secrets", str(self._case.done), "secret store")
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as sql:
            (whole,) = sql.execute("PRAGMA integrity_check").fetchone()
            if whole != "ok":
                self._looked.wrong("a whole store", whole)
            for name in schema.EVENT_TABLES:
                self.sound_rows(sql, name)
            notes = sql.execute("SELECT slug, severity, count, place, text FROM note").fetchall()
            for note in notes:
                if note[2] < 1:
                    self._looked.wrong("a note counts something", str(note))
            self._references(sql, notes)
            for truth in self._case.truths:
                truth.look(sql, notes, self._looked)
            counts = {
                name: sql.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                for name in schema.EVENT_TABLES
            }
            (profiles,) = sql.execute("SELECT count(*) FROM profile").fetchone()
        self._account(counts, notes)
        return int(profiles)

    def sound_rows(self, sql: sqlite3.Connection, name: str) -> None:
        """Check that the rows of a table are as the schema has them."""
        table = schema.metadata.tables[name]
        wrong = []
        for column in table.columns:
            kind = {int: "'integer'", float: "'real', 'integer'", str: "'text'"}[
                column.type.python_type
            ]
            wrong.append(f"typeof({column.name}) NOT IN ({kind}, 'null')")
        wrong += [f"NOT ({one.sqltext})" for one in table.constraints if hasattr(one, "sqltext")]
        found = sql.execute(f"SELECT * FROM {name} WHERE {' OR '.join(wrong)} LIMIT 1").fetchone()
        if found is not None:
            self._looked.wrong("rows fulfil the schema", f"{name}: {found}", f"schema {name}")
        if "start_ns" in table.c and "dur_ns" in table.c:
            found = sql.execute(
                f"SELECT id FROM {name} WHERE start_ns IS NULL AND dur_ns IS NOT NULL LIMIT 1"
            ).fetchone()
            if found is not None:
                self._looked.wrong(
                    "a duration has a beginning", f"{name}: {found}", f"start {name}"
                )

    def _references(self, sql: sqlite3.Connection, notes: Sequence[tuple[Any, ...]]) -> None:
        slugs = {note[0] for note in notes}
        for name in schema.EVENT_TABLES:
            columns = schema.metadata.tables[name].columns
            for column, table, key in (
                ("device_id", "device", "device_id"), ("pid", "process", "pid"),
                ("name_id", "name", "id"),
            ):  # fmt: skip
                if column not in columns or (column == "name_id" and "nameless-id" in slugs):
                    continue
                if column == "device_id" and name not in _GPU_TABLES:
                    continue  # only devices at work are described
                found = sql.execute(
                    f"SELECT {column} FROM {name} e WHERE {column} IS NOT NULL AND NOT EXISTS (SELECT 1 "
                    f"FROM {table} t WHERE t.profile_id = e.profile_id AND t.{key} = e.{column}) LIMIT 1"
                ).fetchone()
                if found is not None:
                    self._looked.wrong("rows refer to what is there", f"{name}.{column} {found}",
                                       f"reference {name}.{column}")  # fmt: skip

    def _account(self, counts: Mapping[str, int], notes: Sequence[tuple[Any, ...]]) -> None:
        importer = self._case.importer
        content = self._case.content
        lossy = [note for note in notes if note[1] == Severity.DROPPED.value or note[0] in _LOSSES]
        if content.startswith(SQLITE):
            if any(self._case.beside.values()):
                return
            for account in self._databases(importer):
                lost = account.rows - sum(counts[name] for name in account.ours)
                noted = sum(
                    note[2] if note[0] != "not-a-table" else account.rows
                    for note in lossy
                    if any(source in f"{note[3]} {note[4]}" for source in account.sources)
                    or note[0] == "backtrace-rows"
                )
                if lost > noted:
                    self._looked.wrong(
                        "nothing is lost without a word",
                        f"{sorted(account.sources)}: {account.rows} rows, {lost} lost, {noted} noted "
                        f"in {[note for note in notes if note[1] != 'info']}",
                        f"lost {sorted(account.sources)}",
                    )
                if lost < 0:
                    self._looked.wrong(
                        "no row is made up", f"{account} {counts}", f"made up {account.ours}"
                    )
        elif importer == "kineto":
            rows = accounts.of_trace(_inflated(content), included=self._included)
            lost = 0 if rows is None else rows - sum(counts.values())
            noted = sum(note[2] for note in lossy)
            if lost > noted:
                detail = f"{rows} events, {lost} of them lost, {noted} noted: {notes}"
                self._looked.wrong("nothing is lost without a word", detail, "lost events")

    def _databases(self, importer: str) -> list[accounts.Account]:
        return accounts.of_database(importer, self._source, included=self._included) or []


def _inflated(content: bytes) -> bytes:
    if not content.startswith(GZIP):
        return content
    with suppress(zlib.error):
        one = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = one.decompress(content)
        return text if one.eof and not one.unused_data else b""
    return b""
