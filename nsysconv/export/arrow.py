"""Arrow: a folder with a file per table, in Arrow's own format (Feather, version 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from nsysconv.export import tables
from nsysconv.export.contract import Options, Written
from nsysconv.timeline.timeline import Timeline

TITLE = "Arrow files in a folder, one per table"
SUFFIXES: tuple[str, ...] = ()


def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
    """Write the tables of these profiles into the new folder `path`, compressed with LZ4."""
    # LZ4 is Feather's default, and is decompressed faster than a disk reads.
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    return tables.write(timelines, path, options, ".arrow", partial(pa.ipc.new_file, options=lz4))
