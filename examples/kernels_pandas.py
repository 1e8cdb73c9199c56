"""Which kernels take how long, and how much does that vary? With pandas.

python examples/kernels_pandas.py report1.sqlite
"""

import sys

import pandas as pd
import pyarrow as pa

import nsysconv

with nsysconv.open(sys.argv[1]) as profile:
    events = profile.events("kernel", ["name", "dur_ns"])

# Without this, integers with nulls would become floats. Names become categories.
kernels = events.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
by_name = kernels.groupby("name", observed=True)["dur_ns"]
table = by_name.agg(["count", "sum", "median", "max"]).sort_values("sum", ascending=False)
table["share"] = table["sum"] / table["sum"].sum()
print(table.head(10).to_string(float_format="{:.3f}".format))
