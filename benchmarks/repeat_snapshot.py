"""Write a large memory snapshot: a given one, whose events are repeated.

What it promises: the fewest whole copies whose pickle, by the size of the given one, has so many bytes;
from copy to copy, times are later by the extent of the events; each event has a list of frames of its
own, whose frames are shared, as in snapshots that programs write; all else is there once.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from nsysconv.importers.pytorch_snapshot.plain_pickle import load


def generate(path: Path, source: Path, size: int) -> int:
    """Write the snapshot and return its number of events."""
    found = load(source, str(source))
    copies = -(-size // source.stat().st_size)
    traces = []
    for trace in found["device_traces"]:
        times = [event.get("time_us", 0) for event in trace] or [0]
        step = max(times) - min(times) + 1
        traces.append([_later(event, n * step) for n in range(copies) for event in trace])
    path.write_bytes(pickle.dumps({**found, "device_traces": traces}, protocol=4))
    return sum(map(len, traces))


def _later(event: dict[str, Any], by_us: int) -> dict[str, Any]:
    later = {**event, "frames": [*event.get("frames", ())]}
    if "time_us" in event:
        later["time_us"] += by_us
    return later


if __name__ == "__main__":
    given, written, megabytes = sys.argv[1:]
    count = generate(Path(written), Path(given), int(megabytes) * 1_000_000)
    print(f"{count:,} events, {Path(written).stat().st_size:,} bytes")
