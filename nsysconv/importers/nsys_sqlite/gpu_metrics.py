"""Samples of GPU metrics.

A row of `GPU_METRICS` names its GPU in the lowest eight bits of `typeId`, by the number that the
profiler's own library gives the GPU, and its metric by a number of that type; `TARGET_INFO_GPU_METRICS`
has the metrics' names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from collections.abc import Mapping as Dictionary
from dataclasses import astuple, fields
from typing import Any

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers.nsys_sqlite.mapping import Context, Mapping, Sampled, code, moment
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import Columns, Expression, has, listed

SAMPLES = "GPU_METRICS"
_NAMES = "TARGET_INFO_GPU_METRICS"

_SAMPLE = "sample"
_KNOWN = "known"
_GPU_BITS = 0xFF
_PERCENT = re.compile(r"\[[^\[\]%]*%[^\[\]]*\]\s*$")
_CLOCK = re.compile(r"\[MHz\]\s*$")
_HERTZ = 1_000_000


def gpu_of(type_id: int) -> int:
    """The number of the GPU that a type of samples is of."""
    return type_id & _GPU_BITS


def names(probe: Probe, found: Collection[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """The name of each (typeId, metricId) of these that has one."""
    if not has(probe, _NAMES, "typeId", "metricId", "metricName"):
        return {}
    rows = probe.select(f"SELECT typeId, metricId, metricName FROM {_NAMES}")
    return {
        (type_id, metric_id): name
        for type_id, metric_id, name in rows
        if (type_id, metric_id) in found and isinstance(name, str)
    }


def sampled(
    texts: Dictionary[tuple[int, int], str],
    found: Collection[tuple[int, int]],
    devices: Dictionary[int, int],
    name_id: Callable[[int], int],
) -> tuple[Sampled, ...]:
    """What the samples of each (typeId, metricId) become; a metric has one name on all GPUs.

    `devices`: our number of each GPU. `name_id`: the id of the name at a place.
    """
    known = {pair: texts.get(pair) or f"[metric {pair[1]}]" for pair in sorted(found)}
    places = {text: place for place, text in enumerate(sorted(set(known.values())))}
    return tuple(
        Sampled(
            *pair,
            name_id=name_id(places[text]),
            device_id=devices.get(gpu_of(pair[0])),
            unit=codes.METRIC_UNITS.index("%" if _PERCENT.search(text) else "number"),
            is_clock=bool(_CLOCK.search(text)),
        )
        for pair, text in known.items()
    )


def name_rows(
    metrics: Collection[Sampled], texts: Dictionary[tuple[int, int], str]
) -> list[dict[str, Any]]:
    """Rows of names, each once."""
    known = {
        m.name_id: texts.get((m.type_id, m.metric_id)) or f"[metric {m.metric_id}]" for m in metrics
    }
    return [{"id": name_id, "text": text, "plain": None} for name_id, text in known.items()]


def _sample(c: Columns, context: Context) -> dict[str, Expression]:
    told = {
        name: sa.literal_column(f"{_KNOWN}.{name}", sa.BigInteger) if context.metrics else sa.null()
        for name in ("device_id", "name_id", "unit", "is_clock")
    }
    # Numbers of one type, so that readers of a view need not change their mind half way.
    number = c["value"]
    value: Expression = sa.case(
        (sa.func.typeof(number) == "integer", number.op("*")(sa.literal_column("1.0"))),
        else_=sa.case((sa.func.typeof(number) == "real", number)) if context.careful else number,
    )
    # Clocks are called MHz and stored as Hz: no clock has so many MHz.
    is_hertz = (told.pop("is_clock") == 1) & (number >= _HERTZ)
    return {
        "start_ns": moment(c["timestamp"], context),
        **told,
        "kind": code(codes.METRIC_KINDS, "metric"),
        "value_avg": sa.case(
            (is_hertz, number.op("/")(sa.literal_column(f"{_HERTZ}.0"))), else_=value
        ),
    }


def _with_metrics(c: Columns, context: Context) -> sa.FromClause:
    if not context.metrics:
        return c.table
    rows = [
        [int(cell) if cell is not None else None for cell in astuple(m)] for m in context.metrics
    ]
    known = listed(_KNOWN, [field.name for field in fields(Sampled)], rows)
    same = (known.c.type_id == c["typeId"]) & (known.c.metric_id == c["metricId"])
    return sa.outerjoin(c.table, known, same)


MAPPINGS = (
    Mapping(
        "metric_sample",
        SAMPLES,
        _sample,
        needs=frozenset({"timestamp", "typeId", "metricId", "value"}),
        rows=_with_metrics,
        alias=_SAMPLE,
        time="timestamp",
    ),
)
