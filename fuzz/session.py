"""A user's session with a file, by commands: import, all reports both ways, pages, exports."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import MAKERS, Case
from commands import run
from findings import Looked
from oracle import WAYS
from same import compare
from stored import Stored, includable

from nsysconv import queries

_ANSWERED = (0, 4)


def look(case: Case, looked: Looked, turn: int | None = None) -> None:
    """Import the file, ask for reports from store and file, and, in turns, for the page and the exports.

    Without a turn, all of these. Rows that are left out by default are asked for.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        Session(case, Path(folder), looked, turn).look()


class Session:
    """Commands on one file, in a folder of its own."""

    def __init__(self, case: Case, folder: Path, looked: Looked, turn: int | None) -> None:
        """Take the case and its folder."""
        self._turn = turn
        self._case = case
        self._folder = folder
        self._looked = looked
        self._source = folder / case.name
        self._source.write_bytes(case.content)
        for ending, content in case.beside.items():
            Path(f"{self._source}{ending}").write_bytes(content)

    def look(self) -> None:
        """Run all commands on the file."""
        store = self._folder / "store.db"
        words = includable(self._case.importer)
        include = [word for name in words for word in ("--include", name)]
        if self._run("import", "import", str(self._source), "-o", str(store), *include):
            self._looked.outcome = "refused"
            if self._case.kind in MAKERS:
                self._looked.wrong("what is whole is read", "it was refused", "refused")
            self._run("report (file)", "report", str(self._source))
            return
        self._looked.outcome = "imported"
        profiles = Stored(self._case, self._source, self._looked, words).look(store)
        # One of several has to be named.
        if profiles == 1:
            imported = self._reports("report (store)", store)
            compare(imported, self._reports("report (file)", self._source, include), self._looked)
        targets = [self._source, store] if profiles == 1 else [store]
        for number, way in enumerate(WAYS):
            if self._turn is None or self._turn % len(WAYS) == number:
                target = str(targets[(number if self._turn is None else self._turn) % len(targets)])
                if way == "page":
                    self._run("page", "report", target, "-o", "page.html")
                else:
                    self._run(f"export {way}", "export", target, "--to", way, "-o", f"out.{way}")
        self._read_back()

    def _reports(self, kind: str, target: Path, more: Sequence[str] = ()) -> dict[str, Any]:
        out = self._folder / "reports.json"
        out.unlink(missing_ok=True)
        status = self._run(
            kind, "report", str(target), *queries.REPORTS, "-f", "json", "-o", str(out), *more
        )
        if status not in _ANSWERED or not out.exists():
            if kind == "report (store)":
                self._looked.wrong("every report answers", f"status {status}", "no reports")
            return {}
        return {one["report"]: one for one in json.loads(out.read_text())["reports"]}

    def _read_back(self) -> None:
        trace = self._folder / "out.chrome"
        if trace.exists():
            try:
                json.loads(trace.read_text())
            except ValueError as error:
                self._looked.wrong("exports can be read", repr(error), "chrome is no JSON")

    def _run(self, kind: str, *words: str) -> int:
        return run(kind, words, self._folder, self._looked)
