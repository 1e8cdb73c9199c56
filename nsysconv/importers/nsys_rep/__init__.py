"""Reports of Nsight Systems (`.nsys-rep`, `.qdrep`) as the tables of nsys' own export.

What the tables mean is written once, in `nsys_sqlite`. docs/formats/nsys-rep.md describes the format.
"""

from __future__ import annotations

HEADER = b"NVIDIA Tegra Profiler Report "


def is_report(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a report."""
    return head.startswith(HEADER)
