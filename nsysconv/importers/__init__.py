"""Importers: one module or folder per source format. Nothing outside this folder knows a source's name.

Nothing heavy is imported here: importers' worker processes come through.
"""

IMPORTERS = (
    "nsys_sqlite",
    "kineto",
    "nvprof_database",
    "rocpd",
    "nvprof_log",
    "nsys_stats",
    "nvidia_smi",
    "rocprofv3_csv",
    "xplane",
    "proton",
    "ncu",
    "rpd",
    "rocprof",
    "pytorch_snapshot",
    "line_profiler",
    "scalene",
)
"""The modules that read a format, in the order in which they are asked. A new source is one more line."""
