"""A process that imports and is killed: used by tests/test_store_atomic.py.

    python crash_worker.py            then, on stdin, one JSON object per line:
    {"source": …, "store": …, "identity": …, "die": …}

For each line it forks a child that imports, prints the child's pid, waits for it, and prints how it
ended: 0, or minus the signal. So a kill hits an import and not the start of an interpreter. `die`
names a place where the child kills itself; null: nowhere.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.store import write
from nsysconv.store.location import writing
from nsysconv.store.sqlite import writer as sqlite_writer
from nsysconv.store.write import Origin


def _die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_after(work: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        work(*arguments, **options)
        _die()

    return wrapped


def arrange_death(place: str | None) -> None:
    """Makes this process kill itself at a place in the import."""
    if place == "schema":  # a new store's tables are half made
        sqlite_writer.create_schema = _dying_after(sqlite_writer.create_schema)
    elif place == "extents":
        write.add_extents = _dying_after(write.add_extents)
    elif place == "profile":  # all is written, nothing committed
        write.add_profile = _dying_after(write.add_profile)  # type: ignore[attr-defined]
    elif place == "publish":  # complete and closed, still under its own name
        sqlite_writer.publish = _die
    elif place == "link":  # has its name, and the old one, too
        os.link = _dying_after(os.link)


def run(job: dict[str, Any]) -> None:
    """One import."""
    source, store = Path(job["source"]), Path(job["store"])
    arrange_death(job["die"])
    with Probe(source) as probe:
        importer = detect(probe)
        (recording,) = importer.read([probe], Options())
        origin = Origin(source.name, importer.NAME, str(source), probe.sha256(), job["identity"])
        with writing(store) as writer:
            writer.add([recording], origin, lambda table, rows: None)


def main() -> None:
    """Forks a child for each line."""
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 0
            try:
                run(job)
            except BaseException:
                traceback.print_exc()
                status = 1
            os._exit(status)
        print(child, flush=True)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


if __name__ == "__main__":
    main()
