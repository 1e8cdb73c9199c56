"""Parquet: a folder with a file per table, for DuckDB, Polars, pandas, Spark and R."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from nsysconv.export import tables
from nsysconv.export.contract import Options, Written
from nsysconv.timeline.timeline import Timeline

TITLE = "Parquet files in a folder, one per table"
SUFFIXES: tuple[str, ...] = ()


def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
    """Write the tables of these profiles into the new folder `path`, compressed with zstd."""
    open_file = partial(pq.ParquetWriter, compression="zstd")
    return tables.write(timelines, path, options, ".parquet", open_file)
