"""Profiling for a job script: run a profiler's line, and import the report that it leaves."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypedDict, Unpack

from nsysconv.api.targets import Say, StrPath, Words, several, silent
from nsysconv.capture.session import capture
from nsysconv.capture.stage_out import KEEPS, Captured, CaptureOptions, ImportFailed
from nsysconv.errors import CaptureError, InUseError, NsysconvError, UsageError
from nsysconv.facts import Fact
from nsysconv.processes import ProcessDiedError, Processes
from nsysconv.store.location import Location, check_no_secret, local_path, parse_location


class CaptureKeywords(TypedDict, total=False):
    """Keywords of a capture.

    Where this process is not among `ranks` (such as `0,8,16-31` or `local0`; None: all) it *becomes* the
    program, and there is no return. Reports are made and imported in a folder of their own in `scratch`
    (default: TMPDIR, else /tmp) and then moved to where the line says. A signal to end is passed on to
    the program, which has `grace_s` seconds to end (default: 10); export and import have `timeout_s`
    seconds each (default: 1800). `program` is the argument where the program's command
    starts, for lines with unknown options.
    """

    ranks: str | None
    scratch: StrPath | None
    grace_s: float
    timeout_s: float
    program: str | None


def profile(
    command: Sequence[str],
    *,
    keep: Words | None = None,
    stores: Words = (),
    run: str | None = None,
    environment: Mapping[str, str] | None = None,
    say: Say = silent,
    **options: Unpack[CaptureKeywords],
) -> Captured:
    """Run a profiler's line, `nsys profile … PROGRAM`, and put its report into a store.

    Nothing of the line is changed but its output. `keep` names what is left where it says (of report,
    export and store; default: report and store, without the store where `stores` are named), `stores`
    are places to import into as well, `run` is what the run is called there, where no batch system's
    number says which ranks are one. `environment` is the program's (default: this process's). To be
    called in the main thread: it handles signals.

    Raises CaptureError if the program cannot be started. What goes wrong afterwards is in the records
    beside the reports, and said through `say`.
    """
    if isinstance(command, str):
        raise CaptureError("the line is a text", hint="Give its words: shlex.split(line).")
    stores = several(stores)
    default = {"report"} if stores else {"report", "store"}
    keeps = frozenset(default if keep is None else several(keep))
    for word in keeps - set(KEEPS):
        raise CaptureError(f"nothing to keep is called {word!r}", hint=f"There are: {KEEPS}")
    if not keeps and not stores:
        raise CaptureError("nothing is to be kept", hint=f"Keep one of {KEEPS}, or name a store.")
    try:
        check_no_secret(run or "", "the name of a run")
        wanted = CaptureOptions(keep=keeps, stores=tuple(map(parse_location, stores)), **options)
        if wanted.scratch is not None:
            wanted = replace(wanted, scratch=local_path(wanted.scratch).absolute())
    except UsageError as error:  # nothing was started
        raise CaptureError(error.what, where=error.where, hint=error.hint) from None

    def importing(source: Path, store: Location | None, made: Path | None) -> int | None:
        return _imported((source, store or made, run), wanted.timeout_s)

    environment = os.environ if environment is None else environment
    return capture(command, wanted, environment, importing, say)


_Item = tuple[Path, Location | None, str | None]
"""A file, the store to import it into, and the name of its run."""


def _imported(item: _Item, timeout_s: float) -> int | None:
    # The import runs in its own process, which can be ended at any time. The result is the number of
    # kernels.
    try:
        with _limited(timeout_s), Processes[_Item, int | str | None](1, _importer) as one:
            (result,) = one.map([item])
    except TimeoutError:
        raise ImportFailed(f"it was not imported within {timeout_s:g} s") from None
    except ProcessDiedError:
        raise ImportFailed("the import was killed, or ran out of memory") from None
    if isinstance(result, str):
        raise ImportFailed(result)
    return result


@contextmanager
def _limited(seconds: float) -> Iterator[None]:

    def up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _importer() -> Callable[[_Item], int | str | None]:
    # Runs in the process that imports. Its work returns the number of kernels, or what went wrong.
    from nsysconv.api.importing import import_files

    def work(item: _Item) -> int | str | None:
        source, store, run = item
        # Temporary files lie beside the report, because its folder is removed even if this process is
        # killed.
        tempfile.tempdir = str(source.parent)
        while True:
            try:
                result = import_files([source], store, run=run, workers=1)
            except InUseError:
                # Other ranks write to the store, too. The parent limits how long this may take.
                time.sleep(random.uniform(0.1, 1.0))
                continue
            except NsysconvError as error:
                return str(error)
            break
        if result.errors:
            return str(result.errors[0])
        imported = [one for file in result.files for one in file.imported]
        if not imported:
            return "nothing in it could be imported"
        if all(Fact.KERNELS in one.missing for one in imported):
            return None
        return sum(one.row_counts.get("kernel", 0) for one in imported)

    return work
