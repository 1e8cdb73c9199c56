"""How fast are copies, by direction and by the kinds of memory? With Polars.

python examples/copies_polars.py report1.sqlite
"""

import sys

import polars as pl

import nsysconv

KINDS = ["direction_name", "src_kind_name", "dst_kind_name"]

with nsysconv.open(sys.argv[1]) as profile:
    copies = pl.from_arrow(profile.events("memcpy", [*KINDS, "bytes", "dur_ns"]))

answer = (
    copies.group_by(KINDS)
    .agg(pl.len().alias("copies"), pl.col("bytes").sum(), pl.col("dur_ns").sum())
    .with_columns((pl.col("bytes") / pl.col("dur_ns")).round(2).alias("GB/s"))
    .sort("dur_ns", descending=True)
)
for row in answer.iter_rows():
    print(*row)
