"""Importers: one module per source format. Nothing outside this folder knows a source's name.

Nothing heavy is imported here: importers' worker processes come through.
"""

IMPORTERS = ("nsys_sqlite", "kineto", "nvprof_database", "nvprof_log", "nsys_stats", "nvidia_smi")
"""Modules of this folder that read a format. A new source is one more word here."""
