"""How long after its launch does a kernel start, by the function that launched it? With DuckDB.

python examples/launches_duckdb.py report1.sqlite
"""

import sys

import duckdb

import nsysconv

KEY = ["pid", "correlation_id"]

with nsysconv.open(sys.argv[1]) as profile:
    kernels = profile.events("kernel", [*KEY, "start_ns"])
    calls = profile.events("api_call", [*KEY, "start_ns", "name"])

# DuckDB reads Arrow tables by the names of their variables. A correlation id is unique in its process
# only, 0 means none, and a call of the runtime may share its id with one of the driver inside it: the
# outer one counts.
answer = duckdb.sql("""
    WITH launch AS (
        SELECT pid, correlation_id, min(start_ns) AS start_ns, arg_min(name, start_ns) AS name
        FROM calls WHERE correlation_id <> 0 GROUP BY ALL
    )
    SELECT launch.name, count(*) AS kernels,
           median(kernels.start_ns - launch.start_ns)::BIGINT AS median_ns,
           max(kernels.start_ns - launch.start_ns) AS max_ns
    FROM kernels JOIN launch USING (pid, correlation_id)
    GROUP BY launch.name ORDER BY kernels DESC, launch.name
""")
for row in answer.fetchall():
    print(*row)
