"""Checks that hold for any file: an error in words and nothing left, or rows that are accounted for."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import threading
import traceback
import warnings
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import one_place
import whole
from bounds import GROWN_BYTES, SECONDS, TooSlow, peak, peak_reset
from cases import MAKERS, Case
from findings import Looked, Step, shape_of
from replies import Replies, Steps, words
from same import Document, compare
from seeds import SQLITE, is_printed
from stored import Stored, includable

from nsysconv import api, export, queries
from nsysconv.api.open_profile import open_all
from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers.contract import Yes
from nsysconv.importers.detection import DefectError, all_importers
from nsysconv.importers.probe import Probe

_MOST_PROFILES = 3
_ANSWERED_EVERY = 10
# Reports in place do not read every page, nor every cell.
_BAD_PAGES = ("the file is damaged", "SQLite cannot read it")
WAYS = ("page", *(name for name in export.FORMATS if name != "perfetto" or find_spec("perfetto")))
"""Outputs of a profile besides reports."""
_EXPORTED = ("kernel", "memcpy", "memset")


def turn(number: int) -> tuple[str, str]:
    """Return what is made of the file of this number, and from which: its store, or the file in place."""
    # Each of them for both numbers that follow each other: for the first, all rows are asked for.
    return WAYS[number // 4 % len(WAYS)], ("store", "file")[number // 2 % 2]


def look(
    case: Case, *, everything: bool = False, seconds: int = SECONDS, memory: int = GROWN_BYTES
) -> Looked:
    """Try one file in every way; anything that must not be is in the result, and nothing is raised.

    `everything`: all reports, not only the core ones, and a page or an export, which take turns.
    `seconds` of the processor for each step, `memory` more than before for all.
    """
    looked = Looked()
    unraised: list[str] = []
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda found: unraised.append(f"{found.exc_value!r} in {found.object!r}")
    threading.excepthook = lambda found: unraised.append(f"{found.exc_value!r} in a thread")
    before = peak_reset()
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            Lab(case, Path(folder), looked, seconds, everything=everything).look()
    except TooSlow:
        slow = looked.steps[-1].kind if looked.steps else "a step"
        detail = f"{slow}: more than {seconds} s\n{traceback.format_exc()}"
        looked.wrong("ends in time", detail, f"too slow: {slow}")
    except MemoryError:
        looked.wrong("bounded memory", traceback.format_exc(), "memory")
    finally:
        sys.unraisablehook, threading.excepthook = hooks
    for text in unraised:
        looked.wrong("raises nothing in the background", text)
    grown = peak() - before
    looked.steps.append(Step("all of them", False, 0, max(grown, 0)))
    if grown > memory:
        looked.wrong("bounded memory", f"{grown >> 20} MiB", "memory")
    return looked


class Lab:
    """One file in a folder of its own, and what is done with it."""

    def __init__(
        self, case: Case, folder: Path, looked: Looked, seconds: int, *, everything: bool
    ) -> None:
        """Take the case and its folder."""
        self._case = case
        self._mixed = False
        self._looked = looked
        self._steps = Steps(looked, seconds)
        self._everything = everything
        self._names = queries.REPORTS if everything else queries.CORE
        self._replies = Replies(self._names, case.key, looked, self._steps)
        self._one_place = case.kind in one_place.HOW
        more = case.number % 2 and not self._one_place
        self._include = includable(case.importer) if more else ()
        self._folder = folder
        self._scratch = folder / "temporary"
        self._scratch.mkdir()
        self._place = folder / "source"
        self._place.mkdir()
        self._stores = folder / "stores"
        self._stores.mkdir()
        self._source = self._place / case.name
        self._source.write_bytes(case.content)
        for ending, content in case.beside.items():
            Path(f"{self._source}{ending}").write_bytes(content)
        self._untouched = self._lying()

    def look(self) -> None:
        """Try all commands on the file and check what must hold."""
        before, tempfile.tempdir = tempfile.tempdir, str(self._scratch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._detection()
                self._import()
                if self._one_place and self._case.content.startswith(SQLITE):
                    whole.compare_in_place(self._case, self._source, self._looked)
        finally:
            tempfile.tempdir = before
        if self._lying() != self._untouched:
            self._looked.wrong(
                "the source stays as it is", f"{list(self._untouched)} -> {list(self._lying())}"
            )
        left = [path.name for path in self._scratch.iterdir()]
        if left:
            self._looked.wrong("nothing stays in the temporary folder", str(left))

    def _lying(self) -> dict[str, str]:
        return {
            path.name: f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
            for path in sorted(self._place.iterdir())
        }

    # -- detection

    def _detection(self) -> None:
        claims, alone = [], False
        for importer in all_importers():
            with (
                self._steps.step("sniff", "sniffing raises nothing"),
                Probe(self._source, threads=1) as probe,
            ):
                answer = importer.sniff(probe)
                if isinstance(answer, Yes):
                    claims.append(importer.NAME)
                    alone |= answer.alone
                else:
                    words("a refusal", f"{answer.reason}\n{answer.hint}", self._looked)
        # One file can hold what several tools printed; it is refused then, unless one is sure of it.
        printed = all(map(is_printed, claims))
        self._mixed = len(claims) > 1 and printed and not alone
        if len(claims) > 1 and not printed:
            self._looked.wrong("one importer at most says yes", ", ".join(claims))

    # -- import

    def _import(self) -> None:
        store = self._stores / "store.db"
        with self._steps.step("import", "importing raises nothing"):
            (file,) = api.import_files([self._source], store, include=self._include).files
            if file.error is not None:
                self._refused(file.error, store)
                return
            self._looked.outcome = "imported"
        if self._looked.outcome != "imported":
            return
        if self._mixed:
            self._looked.wrong("one importer at most says yes", "imported all the same")
        lying = [path.name for path in self._stores.iterdir()]
        if lying != [store.name]:
            self._looked.wrong("nothing beside the store", str(lying))
        Stored(self._case, self._source, self._looked, self._include).look(store)
        if self._one_place:
            whole.compare(self._case, store, self._looked)
        # Reports of such files say nothing that those of others do not.
        if not self._one_place or self._case.number % _ANSWERED_EVERY == 0:
            self._both_ways(store)

    def _refused(self, error: NsysconvError, store: Path) -> None:
        self._looked.outcome = "refused"
        if self._case.kind in MAKERS:
            self._looked.wrong("what is whole is read", str(error), "refused")
        if isinstance(error, DefectError):
            self._looked.wrong("importing raises nothing", str(error))
            return
        if not isinstance(error, InputError):
            self._looked.wrong("a refusal is an InputError", repr(error), f"refusal {type(error)}")
        text = str(error)
        words("an error", text, self._looked)
        bad_page = any(said in error.what for said in _BAD_PAGES)
        if str(self._source) not in text:
            self._looked.wrong("an error names the file", text)
        left = [path.name for path in self._stores.iterdir()]
        if left:
            self._looked.wrong("a refusal leaves no store", str(left))
        if self._case.seed.is_sqlite and not bad_page:
            try:
                with api.open(self._source):
                    pass
            except InputError as again:
                words("an error", str(again), self._looked)
            else:
                self._looked.wrong("refused on both ways", text)

    # -- reports

    def _both_ways(self, store: Path) -> None:
        with ExitStack() as stack:
            profiles = open_all(store, None, stack)
            rows = {
                table: sum(opened.timeline.profile.row_count(table) for opened in profiles)
                for table in _EXPORTED
            }
            found = [self._replies.of(one, "store") for one in profiles[:_MOST_PROFILES]]
        in_place = len(profiles) == 1 and self._in_place(found[0])
        if not self._everything:
            return
        way, where = turn(self._case.number)
        if not in_place:
            where = "store"
        target = self._source if where == "file" else store
        if way == "page":
            self._replies.page(target, where)
        else:
            self._replies.export(target, where, way, self._folder / "exported", rows)

    def _in_place(self, imported: dict[str, Document]) -> bool:
        if not self._case.content.startswith(SQLITE):
            return True
        try:
            with api.open(self._source, include=self._include) as opened:
                again = self._replies.of(opened, "file")
        except InputError as error:
            if (
                "the store has schema version" not in error.what
            ):  # the mark of a store in its header
                self._looked.wrong(
                    "imported, so readable in place", str(error), f"in place {shape_of(error.what)}"
                )
            return False
        compare(imported, again, self._looked)
        return True
