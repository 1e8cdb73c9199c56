"""Marks nsysconv's own phases as NVTX ranges (domain `nsysconv`), so that nsys can profile it.

Without a profiler that listens, a mark costs about a microsecond; where the nvtx package has no wheel
(macOS) the marks do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    import nvtx
except ImportError:  # pragma: no cover - no nvtx wheel on this platform
    nvtx = None


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark the block as an NVTX range of this name: `import`, `read`, `compute`, `render`, …"""
    if nvtx is None:  # pragma: no cover - no nvtx wheel on this platform
        yield
        return
    with nvtx.annotate(name, domain="nsysconv"):
        yield
