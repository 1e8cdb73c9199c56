"""Constructs of OpenACC and OpenMP: what they are called, and the id of each name.

A row has its kind, the file and line of its directive and the kernel or variable that it is about, each
in a column of its own, in databases of nvprof and exports of Nsight Systems alike; nvprof prints them as
one name, `acc_enqueue_launch@solve.c:85 (solve_85_gpu)`. A program has few such names however often it
runs them: the survey collects them, each gets an id, and rows look theirs up in a list that the statement
itself holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from nsysconv.facts import Fact
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import Expression, SourceColumns, count_rows, values_table
from nsysconv.notes import Note, Severity

OPENACC_DATA = "CUPTI_ACTIVITY_KIND_OPENACC_DATA"
OPENACC_LAUNCH = "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"
OPENACC_OTHER = "CUPTI_ACTIVITY_KIND_OPENACC_OTHER"
OPENMP = "CUPTI_ACTIVITY_KIND_OPENMP"
OPENACC_SOURCES = (OPENACC_DATA, OPENACC_LAUNCH, OPENACC_OTHER)
SOURCES = (*OPENACC_SOURCES, OPENMP)

IDENTIFYING = {
    OPENACC_DATA: ("eventKind", "srcFile", "lineNo", "varName"),
    OPENACC_LAUNCH: ("eventKind", "srcFile", "lineNo", "kernelName"),
    OPENACC_OTHER: ("eventKind", "srcFile", "lineNo"),
    OPENMP: ("eventKind",),
}
"""The columns that name a row of each table: kind, file, line, subject, as far as it has them."""

ALIAS = "construct"
"""The name of a source table in a select from `join_names`."""
_KNOWN = "known"

MAX_CONSTRUCTS = 50_000
"""More names of one table are damage, and each statement has to hold their list."""

# Numbered from 1.
_OPENACC_KINDS = (
    "acc_device_init", "acc_device_shutdown", "acc_runtime_shutdown", "acc_enqueue_launch",
    "acc_enqueue_upload", "acc_enqueue_download", "acc_wait", "acc_implicit_wait",
    "acc_compute_construct", "acc_update", "acc_enter_data", "acc_exit_data", "acc_create",
    "acc_delete", "acc_alloc", "acc_free",
)  # fmt: skip
_OPENMP_KINDS = ("OMP_PARALLEL", "OMP_TASK", "OMP_THREAD", "OMP_IDLE", "OMP_WAIT_BARRIER",
                 "OMP_WAIT_TASKWAIT")  # fmt: skip
_CREATE, _FREE = 13, 16
MOMENTS = f"typeof(eventKind) = 'integer' AND eventKind BETWEEN {_CREATE} AND {_FREE}"
"""The rows that are of a moment and have no length, whatever their end says; as SQL."""
_FACTS = frozenset({Fact.DIRECTIVES})


class Construct(NamedTuple):
    """The properties that rows of one name share; 0: no file, line, or kernel or variable."""

    source: str
    kind: int
    file: int
    line: int
    subject: int


ConstructIds = Mapping[Construct, int]
"""The name id of each construct."""


def construct_of(source: str, row: Mapping[str, Any]) -> Construct | None:
    """Return the construct of a surveyed row, or None if the row has no kind."""
    kind, *others = [row.get(name) for name in IDENTIFYING[source]]
    if kind is None:
        return None
    return Construct(source, kind, *([value or 0 for value in others] + [0] * 3)[:3])


def kind_name(source: str, kind: int) -> str | None:
    """Return what a kind is called, or None if it is not known."""
    kinds = _OPENMP_KINDS if source == OPENMP else _OPENACC_KINDS
    return kinds[kind - 1] if 1 <= kind <= len(kinds) else None


def assign_ids(constructs: Iterable[Construct], name_id: Callable[[int], int]) -> ConstructIds:
    """Give each construct the name id that belongs to its place among all."""
    return {construct: name_id(place) for place, construct in enumerate(sorted(constructs))}


def text_ids(ids: ConstructIds) -> set[int]:
    """Return the ids of the texts that names of constructs are made of."""
    return {i for construct in ids for i in (construct.file, construct.subject) if i}


def name_rows(ids: ConstructIds, texts: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return rows of `name`; `texts` are those of the file's string table, by `text_ids`."""
    return [
        {"id": name_id, "text": _name(construct, texts), "plain": None}
        for construct, name_id in ids.items()
    ]


def _name(construct: Construct, texts: Mapping[int, str]) -> str:
    model = "OpenMP" if construct.source == OPENMP else "OpenACC"
    name = kind_name(construct.source, construct.kind) or f"[{model} event {construct.kind}]"
    if construct.file:
        # Where on the machine it lay is nobody's business.
        name += "@" + re.split(r"[/\\]", _text(construct.file, texts))[-1]
        if construct.line:
            name += f":{construct.line}"
    if construct.subject:
        name += f" ({_text(construct.subject, texts)})"
    return name


def _text(text_id: int, texts: Mapping[int, str]) -> str:
    return texts.get(text_id, f"[name {text_id}]")


def is_moment(c: SourceColumns) -> Expression:
    """Return the condition `MOMENTS` on these columns."""
    kind = c["eventKind"]
    return (sa.func.typeof(kind) == "integer") & kind.between(_CREATE, _FREE)


def name_id_column(c: SourceColumns, ids: ConstructIds) -> Expression:
    """Return the name id of each row, in a select from `join_names`."""
    if not _ids_of_source(c, ids):
        return sa.null()
    return sa.literal_column(f"{_KNOWN}.number", sa.BigInteger)


def join_names(c: SourceColumns, ids: ConstructIds) -> sa.FromClause:
    """Return the rows of a table joined with the list of its names."""
    rows = _ids_of_source(c, ids)
    if not rows:
        for name in IDENTIFYING[c.source.name]:
            c[name]  # marks it as used, so that damaged cells are noted all the same
        return c.table
    fields = (*Construct._fields[1:], "number")
    known = values_table(_KNOWN, fields, rows)
    kind, *others = IDENTIFYING[c.source.name]
    same = [known.c.kind == c[kind]]
    same += [
        known.c[ours] == sa.func.coalesce(c[theirs], 0)
        for ours, theirs in zip(fields[1:], others, strict=False)
    ]
    return sa.outerjoin(c.table, known, sa.and_(*same))


def _ids_of_source(c: SourceColumns, ids: ConstructIds) -> list[tuple[int, ...]]:
    source = c.source.name
    return [(*construct[1:], i) for construct, i in ids.items() if construct.source == source]


def construct_notes(
    probe: Probe,
    sources: Iterable[str],
    constructs: Collection[Construct],
    overfull: Collection[str],
) -> Iterator[Note]:
    """Yield notes on kinds that are not known and on the `overfull` tables of these sources."""
    for source in sources:
        kinds = {construct.kind for construct in constructs if construct.source == source}
        unknown = sorted(kind for kind in kinds if kind_name(source, kind) is None)
        if unknown:
            numbers = ", ".join(map(str, unknown))
            count, first = count_rows(probe, source, f"eventKind IN ({numbers})")
            text = f"{source}: unknown kinds {numbers}; shown by number"
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, _FACTS)
        if source in overfull:
            text = f"{source} has more names than possible; some of its rows have none"
            yield Note("nameless-id", Severity.APPROXIMATED, text, where=source, facts=_FACTS)
