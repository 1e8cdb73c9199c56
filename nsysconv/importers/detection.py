"""Which importer reads a file, and what to say where none does."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from nsysconv.errors import InputError, UsageError
from nsysconv.importers import IMPORTERS, foreign, nsys_report
from nsysconv.importers.contract import Importer, No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.names import escaped
from nsysconv.store.filesystem import private_folder
from nsysconv.store.location import is_store


def all_importers() -> list[Importer]:
    """The importers, in the order of IMPORTERS."""
    return [
        cast(Importer, importlib.import_module(f"nsysconv.importers.{name}")) for name in IMPORTERS
    ]


def check(options: Options) -> None:
    """Raises UsageError where an importer's words are asked for that none has."""
    known = {
        word: what for importer in all_importers() for word, what in importer.INCLUDABLE.items()
    }
    unknown = sorted(options.include - known.keys())
    if unknown:
        there = "; ".join(f"{word}: {what}" for word, what in known.items()) or "none"
        raise UsageError(f"nothing to include is called {unknown[0]!r}", hint=f"There are: {there}")


@contextmanager
def opened(
    path: Path, say: Callable[[str], None], *, threads: int | None = None
) -> Iterator[Probe]:
    """A probe of the file; of its export, where it is a report that its own tool has to export first.

    `say` gets a line before such a tool runs; `threads` is the probe's. Raises InputError where the
    file cannot be read.
    """
    with ExitStack() as stack:
        probe = stack.enter_context(Probe(path, threads=threads))
        if nsys_report.is_report(probe):
            folder = stack.enter_context(private_folder())
            exported = nsys_report.export(path, folder, say)
            probe = stack.enter_context(Probe(exported, path, threads=threads))
        yield probe


def label(path: Path) -> str:
    """What a profile is called: the file's name without the endings that formats give it."""
    name = path.name
    for ending in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return Path(name).stem if name == path.name else name or path.name


def detect(probe: Probe) -> Importer:
    """The one importer that recognises the content.

    Raises InputError where none does, with every importer's reason where none knows what it is; and
    where several do: what tools print may stand in one file, but whose rows are meant nobody can say.
    """
    answers: list[tuple[Importer, Yes | No]] = []
    for importer in all_importers():
        answer = importer.sniff(probe)
        if isinstance(answer, Yes) and answer.alone:
            return importer
        answers.append((importer, answer))
    claims = [importer for importer, answer in answers if isinstance(answer, Yes)]
    if len(claims) == 1:
        return claims[0]
    if claims:
        names = ", ".join(importer.TITLE for importer in claims)
        raise InputError(
            f"recognised as more than one format: {names}",
            where=str(probe.origin),
            hint="Where one file holds what several tools printed, cut it into a file for each of them.",
        )
    refusals = [(importer, answer) for importer, answer in answers if isinstance(answer, No)]
    close = [(refusal.reason, refusal.hint) for _, refusal in refusals if refusal.close]
    known = _known_but_unreadable(probe) or foreign.kind_of(probe) or next(iter(close), None)
    if known is not None:
        what, hint = known
        raise InputError(what, where=str(probe.origin), hint=hint)
    what, hint = _foreign_database(probe) or ("not a profile that nsysconv reads", "")
    reasons = "\n".join(
        f"  not {importer.TITLE}: {refusal.reason}" for importer, refusal in refusals
    )
    raise InputError(what, where=str(probe.origin), hint=f"{hint}\n{reasons}".strip("\n"))


def _known_but_unreadable(probe: Probe) -> tuple[str, str] | None:
    """What is wrong, and what to do, for contents that are no profile but whose kind is plain."""
    if probe.size == 0:
        return "the file is empty", "The export or copy did not finish; make it again."
    if probe.head.startswith(b"version https://git-lfs.github.com/spec/"):
        return (
            "a Git LFS pointer, not the file itself",
            "Fetch the content first: git lfs pull --include '" + probe.path.name + "'",
        )
    if is_store(probe.path):
        return (
            "an nsysconv store: its profiles are imported already",
            f"Report on it: nsysconv report {probe.path}",
        )
    if probe.damage:
        return probe.damage, "Export or copy it again; nothing was imported."
    return None


def _foreign_database(probe: Probe) -> tuple[str, str] | None:
    """The same for a SQLite database that nobody knows."""
    if probe.is_sqlite:
        names = sorted(map(escaped, probe.tables))
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        return (
            "a SQLite database of another program" if names else "a SQLite database without tables",
            f"Its tables: {shown}" if names else "The export did not finish; make it again.",
        )
    return None
