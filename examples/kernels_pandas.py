"""Which kernels take how long, and how much does that vary? With pandas.

python examples/kernels_pandas.py report1.sqlite
"""

import sys

import pandas as pd
import pyarrow as pa

import nsysconv

with nsysconv.open(sys.argv[1]) as profile:
    events = profile.events("kernel", ["name", "dur_ns"])

# Without the types, integers with nulls would become floats: some sources have kernels without a time.
# Names become categories.
kernels = events.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
by_name = kernels.dropna().groupby("name", observed=True)["dur_ns"]
table = by_name.agg(times="count", total="sum", median="median", longest="max")
table["share"] = table["total"] / table["total"].sum()
for row in table.nlargest(10, "total").itertuples():
    print(f"{row.share:.1%} {row.times} x {row.median:.0f} ns, at most {row.longest}: {row.Index}")
