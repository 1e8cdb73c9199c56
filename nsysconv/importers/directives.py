"""Constructs of OpenACC and OpenMP: what they are called, and the number of each name.

A row tells its kind, the file and line of its directive and the kernel or variable that it is about, each
in a column of its own, in databases of nvprof and exports of Nsight Systems alike; nvprof prints them as
one name, `acc_enqueue_launch@solve.c:85 (solve_85_gpu)`. A program has few such names however often it
runs them: the survey collects them, each gets a number, and rows look theirs up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from nsysconv.importers.sqlite_columns import Columns, Expression, listed

OPENACC_DATA = "CUPTI_ACTIVITY_KIND_OPENACC_DATA"
OPENACC_LAUNCH = "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"
OPENACC_OTHER = "CUPTI_ACTIVITY_KIND_OPENACC_OTHER"
OPENMP = "CUPTI_ACTIVITY_KIND_OPENMP"
OPENACC_SOURCES = (OPENACC_DATA, OPENACC_LAUNCH, OPENACC_OTHER)
SOURCES = (*OPENACC_SOURCES, OPENMP)

ALIAS = "construct"
_KNOWN = "known"
MOST = 50_000
"""So many names of one table at most: more are damage, and a list that each statement has to hold."""
_SUBJECTS = {OPENACC_DATA: "varName", OPENACC_LAUNCH: "kernelName"}
_OPENACC = dict(
    enumerate(
        (
            "acc_device_init",
            "acc_device_shutdown",
            "acc_runtime_shutdown",
            "acc_enqueue_launch",
            "acc_enqueue_upload",
            "acc_enqueue_download",
            "acc_wait",
            "acc_implicit_wait",
            "acc_compute_construct",
            "acc_update",
            "acc_enter_data",
            "acc_exit_data",
            "acc_create",
            "acc_delete",
            "acc_alloc",
            "acc_free",
        ),
        1,
    )
)
_CREATE, _FREE = 13, 16
MOMENTS = f"typeof(eventKind) = 'integer' AND eventKind BETWEEN {_CREATE} AND {_FREE}"
"""The rows that are of a moment and have no length, whatever their end says; as SQL."""
_OPENMP = {
    1: "OMP_PARALLEL",
    2: "OMP_TASK",
    3: "OMP_THREAD",
    4: "OMP_IDLE",
    5: "OMP_WAIT_BARRIER",
    6: "OMP_WAIT_TASKWAIT",
}


class Construct(NamedTuple):
    """What rows of one name have in common; 0: no file, line, or kernel or variable."""

    source: str
    kind: int
    file: int
    line: int
    subject: int


Numbers = Mapping[Construct, int]


def identifying(source: str) -> tuple[str, ...]:
    """The columns that name a row of the table: kind, file, line, subject, as far as it has them."""
    if source == OPENMP:
        return ("eventKind",)
    return ("eventKind", "srcFile", "lineNo", *filter(None, [_SUBJECTS.get(source)]))


def construct(source: str, row: Mapping[str, Any]) -> Construct | None:
    """The construct of a surveyed row; None where its kind is not told."""
    values = [row.get(name) for name in identifying(source)]
    if values[0] is None:
        return None
    return Construct(source, *([value or 0 for value in values] + [0] * 3)[:4])


def word(source: str, kind: int) -> str | None:
    """What a kind is called; None for one that is not known."""
    return (_OPENMP if source == OPENMP else _OPENACC).get(kind)


def numbered(constructs: Iterable[Construct], name_id: Callable[[int], int]) -> Numbers:
    """A number for each, by its place among all."""
    return {each: name_id(place) for place, each in enumerate(sorted(constructs))}


def names(numbers: Numbers, texts: Mapping[int, str]) -> list[dict[str, Any]]:
    """Rows of names; `texts` are those of the file's string table that constructs refer to."""
    return [
        {"id": number, "text": _name(each, texts), "plain": None}
        for each, number in numbers.items()
    ]


def text_ids(numbers: Numbers) -> set[int]:
    """The texts that names are made of."""
    return {i for each in numbers for i in (each.file, each.subject) if i}


def _name(each: Construct, texts: Mapping[int, str]) -> str:
    model = "OpenMP" if each.source == OPENMP else "OpenACC"
    name = word(each.source, each.kind) or f"[{model} event {each.kind}]"
    if each.file:
        # Where on the machine it lay is nobody's business.
        name += "@" + re.split(r"[/\\]", _text(each.file, texts))[-1]
        if each.line:
            name += f":{each.line}"
    if each.subject:
        name += f" ({_text(each.subject, texts)})"
    return name


def _text(text_id: int, texts: Mapping[int, str]) -> str:
    return texts.get(text_id, f"[name {text_id}]")


def is_moment(c: Columns) -> Expression:
    """`MOMENTS` of these columns."""
    kind = c["eventKind"]
    return (sa.func.typeof(kind) == "integer") & kind.between(_CREATE, _FREE)


def name_id(c: Columns, numbers: Numbers) -> Expression:
    """The number of each row's name, in a select from `joined`."""
    return (
        sa.literal_column(f"{_KNOWN}.number", sa.BigInteger)
        if _of_source(c, numbers)
        else sa.null()
    )


def joined(c: Columns, numbers: Numbers) -> sa.FromClause:
    """The rows of a table beside the list of its names."""
    rows = _of_source(c, numbers)
    if not rows:
        for name in identifying(c.source.name):
            c[name]  # used, though nothing comes of it: so that damaged cells are told of
        return c.table
    fields = (*Construct._fields[1:], "number")
    known = listed(_KNOWN, fields, rows)
    kind, *others = identifying(c.source.name)
    same = [known.c.kind == c[kind]]
    same += [
        known.c[ours] == sa.func.coalesce(c[theirs], 0)
        for ours, theirs in zip(fields[1:], others, strict=False)
    ]
    return sa.outerjoin(c.table, known, sa.and_(*same))


def _of_source(c: Columns, numbers: Numbers) -> list[tuple[int, ...]]:
    source = c.source.name
    return [(*each[1:], number) for each, number in numbers.items() if each.source == source]
