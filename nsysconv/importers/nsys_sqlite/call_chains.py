"""Which function of the program made an API call, by the call chains of an export (`--cudabacktrace`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    SourceColumns,
    as_whole_number,
    has_columns,
)
from nsysconv.store.recording import SOURCE

CHAINS = "CUDA_CALLCHAINS"
_COLUMNS = ("id", "symbol", "module", "unresolved", "stackDepth")
_TRIED = 1000
_CALL = ("globalTid", "correlationId")
_OF_CALL = (*_CALL, "nameId", "callchainId")
# Frames of CUDA, of the profiler, and of wrappers that the compiler makes for a launch are not the
# program's. Without debug information a frame is an address, or the name of its file.
_OF_OTHERS = re.compile(
    r"(?:^|/)lib(?:cuda|cudart|cupti|nvidia|nvperf|ToolsInjection|InterceptorInjection|nsys)[^/]*$",
    re.I,
)
_NO_CALLER = re.compile(
    r"0x[0-9a-f]+|(?:cudaError(?:_enum)?(?:_t)? )?_*(?:cuda|cu[A-Z]|__device_stub_)\w*\b.*"
    r"|\[.*\]|.*\.so(?:\.\d+)*!.*",
    re.DOTALL,
)


@dataclass(frozen=True)
class Callers:
    """The functions of the program that made API calls: `names`, the ids of theirs, and of which call."""

    names: frozenset[int]
    _sql: str

    def join(self, c: SourceColumns) -> sa.FromClause:
        """Return API calls with the innermost function of the program in the chain of each."""
        columns = (sa.column(name, sa.BigInteger) for name in (*_CALL, "symbol"))
        found = sa.text(self._sql.format(f"{SOURCE}.")).columns(*columns).subquery("caller")
        same = (found.c[name] == c[name] for name in _CALL)
        return sa.outerjoin(c.table, found, sa.and_(*same))

    @property
    def columns(self) -> dict[str, Expression]:
        """Return the column of `api_call` that names the caller, of what `join` gives."""
        return {"caller_name_id": sa.literal_column("caller.symbol", sa.BigInteger)}


def find_callers(probe: Probe, calls: str, strings: str) -> Callers | None:
    """Return who made the API calls of a file; None if it has no call chains.

    `calls`: the table of API calls; `strings`: that of texts, with columns id and value.
    """
    needed = ((CHAINS, _COLUMNS), (calls, _OF_CALL), (strings, ("id", "value")))
    if not all(has_columns(probe, table, *columns) for table, columns in needed):
        return None
    others: dict[str, str] = {}
    for column, is_other in (("symbol", _NO_CALLER.fullmatch), ("module", _OF_OTHERS.search)):
        rows = probe.iterate(
            f"SELECT DISTINCT frame.{column}, name.value FROM {CHAINS} AS frame "
            f"JOIN {strings} AS name ON name.id = frame.{column}"
        )
        ids = {as_whole_number(cell) for cell, name in rows if is_other(str(name))} - {None}
        others[column] = ", ".join(map(str, ids)) or "NULL"
    # SQLite gives the other columns of the row with the minimum, too. A chain belongs to the
    # call, or to a row around it with the same numbers.
    sql = (
        f"SELECT {', '.join(_CALL)}, symbol FROM {{0}}{calls} JOIN ("
        f"SELECT id, min(stackDepth) AS depth, symbol FROM {{0}}{CHAINS} "
        "WHERE coalesce(unresolved, 0) = 0 AND typeof(symbol) = 'integer' "
        f"AND coalesce(symbol NOT IN ({others['symbol']}), 1) "
        f"AND coalesce(module NOT IN ({others['module']}), 1) GROUP BY id"
        f") AS caller ON caller.id = callchainId + {_offset(probe, calls, strings)} "
        f"GROUP BY {', '.join(_CALL)}"
    )
    found = probe.iterate(f"SELECT DISTINCT symbol FROM ({sql.format('')})")
    names = (as_whole_number(cell) for (cell,) in found)
    return Callers(frozenset(name for name in names if name is not None), sql)


def _offset(probe: Probe, calls: str, strings: str) -> int:
    # In a real export of 2022.2 the numbers of calls begin at 0, and those of their chains at 1: where
    # more chains have the name of the call so, it is that way.
    name = "substr(own.value, 1, coalesce(nullif(instr(own.value, '_v'), 0), 1 << 30) - 1)"
    fitting = [
        probe.select(
            f"SELECT count(DISTINCT call.callchainId) FROM (SELECT * FROM {calls} "
            f"WHERE callchainId IS NOT NULL LIMIT {_TRIED}) AS call "
            f"JOIN {strings} AS own ON own.id = call.nameId "
            f"JOIN {CHAINS} AS frame ON frame.id = call.callchainId + {offset} "
            f"JOIN {strings} AS other ON other.id = frame.symbol "
            f"WHERE instr(other.value, {name})"
        )[0][0]
        for offset in (0, 1)
    ]
    return int(fitting[1] > fitting[0])
