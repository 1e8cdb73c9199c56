"""What is copied inside SQLite: kernels, copies and API calls, as mappings to our columns.

Every event table has rows of `rocpd_event` beside it, which hold the category and the number that links
a call with what it launched. From schema 4.1 on, process, thread, agent, queue and stream are in
`rocpd_track`. All joins are by row number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers import sqlite_mapping
from nsysconv.importers.sqlite_columns import Expression, SourceColumns
from nsysconv.store.recording import SOURCE

_INTEGER_TYPE: Expression = sa.literal_column("'integer'")
MAX_SYMBOL = 1 << 31
"""Numbers of kernel symbols from here on are damage."""


@dataclass(frozen=True)
class SymbolIds:
    """The name ids of kernel symbols: a symbol's number plus `names` or `mangled`.

    `same`: symbols with the name of another one -> that one's number.
    """

    names: int
    mangled: int
    same: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class RocpdContext(sqlite_mapping.MappingContext):
    """Decisions of the reader for the mappings.

    `suffix` ends all names of tables. `pids`: numbers of processes by the file's ids, `tids` of threads
    likewise; None: they are the same. `only_gpu`: the GPU of copies that name none. `layers`: the layer
    of API calls by category. `directions`: the code of a direction by the id of its name. `stream`: the
    column that is shown as stream. `joins`: the columns that the file has of event, track and symbol.
    """

    suffix: str
    layers: Mapping[int, int]
    pids: Mapping[int, int] | None
    tids: Mapping[int, int] | None
    gpus: frozenset[int]
    only_gpu: int | None
    symbols: SymbolIds
    directions: Mapping[int, int]
    stream: str
    joins: Mapping[str, frozenset[str]]


RocpdMapping = sqlite_mapping.TableMapping[RocpdContext]
_Columns = dict[str, Expression]


def _of(context: RocpdContext, alias: str, name: str) -> Expression:
    # A column of a table that is joined under this name; NULL if the file lacks it.
    if name not in context.joins.get(alias, ()):
        return sa.null()
    return sa.literal_column(f"{alias}.{name}", sa.BigInteger)


def _placed(c: SourceColumns, context: RocpdContext, name: str) -> Expression:
    return c[name] if name in c or "track_id" not in c else _of(context, "track", name)


def _mapped(number: Expression, to: Mapping[int, int] | None) -> Expression:
    if to is None:
        return number
    return sa.case(to, value=number) if to else sa.null()


def _joined(c: SourceColumns, context: RocpdContext) -> sa.FromClause:
    both: sa.FromClause = c.table
    for name in ("event", "track"):
        if name in context.joins and f"{name}_id" in c:
            table = sa.table(f"rocpd_{name}{context.suffix}", sa.column("id"), schema=SOURCE)
            joined = table.alias(name)
            both = both.outerjoin(joined, joined.c.id == c[f"{name}_id"])
    if "symbol" in context.joins and "kernel_id" in c:
        symbol = sa.table(
            f"rocpd_info_kernel_symbol{context.suffix}", sa.column("id"), schema=SOURCE
        )
        joined = symbol.alias("symbol")
        both = both.outerjoin(joined, joined.c.id == c["kernel_id"])
    return both


def _common(c: SourceColumns, context: RocpdContext) -> _Columns:
    if "timestamp" in c:
        start, dur = c["timestamp"] - context.zero, sa.literal_column("0", sa.BigInteger)
        time: _Columns = {"start_ns": start, "dur_ns": dur}
    else:
        time = sqlite_mapping.interval(c, c["start"] - context.zero, context)
    stack = _of(context, "event", "stack_id")
    return {
        **time,
        "pid": sa.func.nullif(_mapped(_placed(c, context, "pid"), context.pids), 0),
        "correlation_id": sa.case(
            (sa.func.typeof(stack) == _INTEGER_TYPE, sa.func.nullif(stack, 0))
        ),
    }


def _kernel(c: SourceColumns, context: RocpdContext) -> _Columns:
    values: _Columns = {
        **_common(c, context),
        "device_id": _placed(c, context, "agent_id"),
        "stream_id": _placed(c, context, context.stream),
        "local_bytes_per_thread": c["private_segment_size"],
        "graph_node_id": sa.func.nullif(c["graph_node_id"], 0),
    }
    for axis in "xyz":
        # The grid is in work-items.
        items, block = c[f"grid_size_{axis}"], c[f"workgroup_size_{axis}"]
        values[f"grid_{axis}"] = sa.case((block > 0, (items + block - 1) // block))
        values[f"block_{axis}"] = block
    if "symbol" not in context.joins:
        return values
    number, ids = _of(context, "symbol", "id"), context.symbols
    is_known = number.between(0, MAX_SYMBOL)
    name = sa.case(dict(ids.same), value=number, else_=number) if ids.same else number
    static, vector = (_size(context, n) for n in ("group_segment_size", "arch_vgpr_count"))
    more, shared = _size(context, "accum_vgpr_count"), c["group_segment_size"]
    return {
        **values,
        "name_id": sa.case((is_known, name + ids.names)),
        "mangled_name_id": sa.case((is_known, number + ids.mangled)),
        "registers_per_thread": vector + sa.func.coalesce(more, 0),
        "static_shared_bytes": static,
        "dynamic_shared_bytes": sa.case((shared >= static, shared - static)),
    }


def _size(context: RocpdContext, name: str) -> Expression:
    # A size that a kernel symbol has; NULL if the file lacks it.
    size = _of(context, "symbol", name)
    is_number = sa.func.typeof(size) == sa.literal_column("'integer'")
    return sa.case((is_number & (size >= 0), size))


_DEVICE_MEMORY = codes.MEMORY_KINDS.index("Device")
_DTOD, _PTOP = (codes.DIRECTIONS.index(word) for word in ("DtoD", "PtoP"))


def _memcpy(c: SourceColumns, context: RocpdContext) -> _Columns:
    source, target = c["src_agent_id"], c["dst_agent_id"]
    from_gpu, to_gpu = (end.in_(sorted(context.gpus)) for end in (source, target))
    is_peer = from_gpu & to_gpu & (source != target)
    direction = sa.func.coalesce(_mapped(c["name_id"], context.directions), 0)
    return {
        **_common(c, context),
        "device_id": sa.case((to_gpu, target), (from_gpu, source), else_=context.only_gpu),
        "stream_id": _placed(c, context, context.stream),
        "bytes": c["size"],
        "direction": sa.case((is_peer & (direction == _DTOD), _PTOP), else_=direction),
        # Whether memory of the host was pinned is not recorded.
        "src_kind": sa.case((from_gpu, _DEVICE_MEMORY)),
        "dst_kind": sa.case((to_gpu, _DEVICE_MEMORY)),
        "peer_device_id": sa.case((is_peer, source)),
        "graph_node_id": sa.func.nullif(c["graph_node_id"], 0),
    }


def _call(c: SourceColumns, context: RocpdContext) -> _Columns:
    return {
        **_common(c, context),
        "tid": _mapped(_placed(c, context, "tid"), context.tids),
        "layer": _mapped(_of(context, "event", "category_id"), context.layers),
        "name_id": _placed(c, context, "name_id"),
    }


def _is_call(c: SourceColumns, context: RocpdContext) -> Expression:
    return _of(context, "event", "category_id").in_(sorted(context.layers))


def mappings(suffix: str) -> tuple[RocpdMapping, ...]:
    """Return the mappings of the tables whose names end in this suffix."""
    timed = frozenset({"start", "end", "event_id"})
    kernels = RocpdMapping(
        "kernel", f"rocpd_kernel_dispatch{suffix}", _kernel, timed, join=_joined, alias="row"
    )
    copies = replace(kernels, target="memcpy", source=f"rocpd_memory_copy{suffix}", columns=_memcpy)
    calls = replace(
        kernels, target="api_call", source=f"rocpd_region{suffix}", columns=_call, where=_is_call
    )
    # A call that began and ended at one moment is a sample.
    moments = replace(
        calls,
        source=f"rocpd_sample{suffix}",
        needs=frozenset({"timestamp", "event_id", "track_id"}),
        start="timestamp",
        end="timestamp",
    )
    return kernels, copies, calls, moments


CHECKS = sqlite_mapping.CellChecks(
    required=frozenset({"start", "end", "timestamp", "pid", "tid", "event_id", "track_id"})
)
