"""Detection of the importer that reads a file, and the error for a file that none reads."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from nsysconv.errors import InputError, NoProfileError, NsysconvError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import IMPORTERS, foreign
from nsysconv.importers.contract import Group, Importer, No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.names import cut_off, escaped
from nsysconv.notes import Note, Severity
from nsysconv.refusals import is_out_of_memory
from nsysconv.store.filesystem import private_folder
from nsysconv.store.location import is_store


def all_importers() -> list[Importer]:
    """Return the importers, in the order of IMPORTERS."""
    return list(iter_importers())


def iter_importers() -> Iterator[Importer]:
    """Yield the importers, in the order of IMPORTERS, each loaded when it is its turn."""
    for name in IMPORTERS:
        yield cast(Importer, importlib.import_module(f"nsysconv.importers.{name}"))


def check_included(options: Options) -> None:
    """Raise UsageError if rows are asked for by a word that is in no importer's INCLUDABLE."""
    if not options.include:
        return  # nothing to look up: no importer has to be loaded for it
    importers = list(all_importers())
    includable = {word: rows for each in importers for word, rows in each.INCLUDABLE.items()}
    # What once had to be asked for may still be.
    always = {str(fact) for each in importers for fact in each.POSSIBLE}
    unknown = sorted(options.include - includable.keys() - always)
    if unknown:
        choices = "; ".join(f"{word}: {rows}" for word, rows in includable.items()) or "none"
        raise UsageError(
            f"nothing to include is called {unknown[0]!r}", hint=f"There are: {choices}"
        )


@contextmanager
def open_probe(
    path: Path, log: Callable[[str], None], *, threads: int | None = None
) -> Iterator[Probe]:
    """Give a probe of the file, or of the tables of a report.

    `log` gets a line before another tool runs; `threads` is the probe's. Raises InputError if the file
    cannot be read.
    """
    with ExitStack() as stack:
        probe = stack.enter_context(Probe(path, threads=threads))
        if is_report(probe):
            target = stack.enter_context(private_folder()) / f"{path.stem}.sqlite"
            try:
                exported = export_report(path, target, log)
            except NsysconvError as error:
                if error.where != str(target):
                    raise
                raise InputError(
                    f"its tables are written into a temporary file, and that cannot be: {error.what}",
                    where=str(path),
                    hint="Name a folder with more room: TMPDIR=/path nsysconv …",
                ) from error
            probe = stack.enter_context(Probe(target, path, threads=threads))
            probe.notes += exported.notes
        yield probe


def groups(paths: Sequence[Path]) -> list[Group]:
    """Return which of these files are parts of one recording, by all importers that know such."""
    found: list[Group] = []
    for importer in iter_importers():
        group = getattr(importer, "group", None)
        found += group(paths) if group else []
    return found


def group_pattern(paths: Sequence[Path]) -> str:
    """Return a glob that names the files of one recording: what their paths have in common."""
    return os.path.commonprefix([str(path) for path in paths]) + "*"  # noqa: RUF071 - characters


_WORD = re.compile(r"[._-]+|[^._-]+")


def profile_label(*paths: Path, by_folder: bool = True) -> str:
    """Return what a profile is called: the file's name without the endings that formats give it.

    One of several files is called by the words that their names begin with, else like their folder, or
    like the first.
    """
    path, *others = paths
    if others:
        words = [_WORD.findall(each.name) for each in paths]
        common = "".join(os.path.commonprefix(words)).rstrip("._-")  # noqa: RUF071 - words
        if common:
            return common
        if by_folder and {each.parent for each in others} == {path.parent}:
            return path.resolve().parent.name or path.name
    name = path.name
    for ending in (".gz", ".json", ".trace", ".pt", ".pb", ".xplane"):
        name = name.removesuffix(ending)
    return Path(name).stem if name == path.name else name or path.name


def detect(probe: Probe) -> Importer:
    """Return the one importer that recognizes the content.

    Raises NoProfileError if there is none, with what the file is and what to do instead; and InputError
    if it is damaged, or there are several: one file can hold what several tools printed, and nobody can
    say whose rows are meant.
    """
    claims: list[Importer] = []
    refusals: list[No] = []
    for importer in iter_importers():
        with refusing_defects(probe.origin):
            answer = importer.sniff(probe)
        if isinstance(answer, No):
            refusals.append(answer)
        elif answer.alone:
            return importer
        else:
            claims.append(importer)
    if len(claims) == 1:
        return claims[0]
    if claims:
        names = ", ".join(importer.TITLE for importer in claims)
        raise InputError(
            f"recognized as more than one format: {names}",
            where=str(probe.origin),
            hint="Split it into one file per tool.",
        )
    raise _unread_error(probe, refusals)


class DefectError(InputError):
    """An importer met what it did not foresee: the file is refused, and others are read."""


@contextmanager
def refusing_defects(path: Path) -> Iterator[None]:
    """Raise DefectError for what neither an importer nor the system says in words within the block."""
    try:
        yield
    except (NsysconvError, OSError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise DefectError(
            f"not read, because of a defect of nsysconv: {type(error).__name__}: {error}",
            where=str(path),
            hint="Please report it with the command that you ran and these lines:\n"
            + "".join(traceback.format_exception(error)),
        ) from None


def is_profile(path: Path) -> bool:
    """Return whether the file is one that is read."""
    try:
        with Probe(path) as probe:
            return is_report(probe) or bool(detect(probe))
    except (InputError, OSError):
        return False


def is_recording(path: Path) -> bool:
    """Return whether the file is a profile; of printed tables not, for which reports may be taken."""
    try:
        with Probe(path) as probe:
            return detect(probe).NAME != "nsys_stats"
    except (InputError, OSError):
        return False


def _unread_error(probe: Probe, refusals: list[No]) -> InputError:
    close = [(refusal.reason, refusal.hint) for refusal in refusals if refusal.close]
    known = _known_but_unreadable(probe) or foreign.kind_of(probe) or next(iter(close), None)
    known = known or _compressed_kind(probe)
    if known is not None:
        kind, hint = known
        if probe.size == 0 and probe.origin.name.endswith(_NAMES_OF_PROFILES):
            # What lacks it must not be taken for all that ran.
            return InputError(kind, where=str(probe.origin), hint=hint)
        return NoProfileError(kind, where=str(probe.origin), hint=hint)
    if probe.damage:
        # A damaged database may have been a profile, so it is an error and not a file to skip.
        hint = "Export or copy it again; nothing was imported."
        return InputError(probe.damage, where=str(probe.origin), hint=hint)
    kind, hint = _unknown_database(probe) or foreign.unknown_kind(probe.head)
    return NoProfileError(kind, where=str(probe.origin), hint=hint)


_MOST_UNPACKED_BYTES = 64 << 20
# Only profilers call their files so.
_NAMES_OF_PROFILES = (
    *(".nsys-rep", ".qdrep", ".sqlite", ".nvvp", ".nvprof", ".ncu-rep", ".pt.trace.json"),
    *("_results.db", ".rpd", ".xplane.pb"),
)
# This is what a file is, and what to do; None if its content does not say.
_Kind = tuple[str, str] | None


def _known_but_unreadable(probe: Probe) -> _Kind:
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
    return None


def _compressed_kind(probe: Probe) -> _Kind:
    # The result describes what gzip holds, if an importer recognizes its beginning.
    with private_folder() as folder:
        if not foreign.unpack(probe, folder / "unpacked", _MOST_UNPACKED_BYTES):
            return None
        with Probe(folder / "unpacked") as content:
            found = [i.TITLE for i in iter_importers() if isinstance(i.sniff(content), Yes)]
            if not found and content.is_sqlite:  # of another program, or too large to be unpacked
                found = ["a SQLite database"]
    if not found:
        return None
    name = shlex.quote(str(probe.origin))
    return (
        f"{' or '.join(found)}, compressed with gzip",
        f"Unpack it first: gunzip {name}"
        if probe.origin.suffix == ".gz"
        else f"Unpack it first: gunzip < {name} > {shlex.quote(probe.origin.stem)}.txt",
    )


def _unknown_database(probe: Probe) -> _Kind:
    names = sorted(map(escaped, probe.tables))
    if names:
        hint = "Use an nsys export or an nvprof database; its tables are "
        return "a SQLite database of another program", cut_off(hint + ", ".join(names), 80)
    if probe.is_sqlite:
        return "a SQLite database without tables", "The export did not finish; make it again."
    return None


# -- reports of Nsight Systems

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
_REPORT_HEADER = b"NVIDIA Tegra Profiler Report "
# Those of Nsight Compute are another format, however they are named.
_OTHER_HEADER = b"NVR\0"


def is_report(probe: Probe) -> bool:
    """Return whether the file is a report of nsys: by its first bytes, or so named and binary."""
    named = probe.path.suffix in REPORT_SUFFIXES and b"\0" in probe.head
    is_other = probe.is_sqlite or probe.head.startswith(_OTHER_HEADER)
    return probe.head.startswith(_REPORT_HEADER) or (named and not is_other)


def export_path(path: Path) -> Path | None:
    """Return where nsys itself puts the export of a report; None for a file that is not named as one."""
    return path.with_suffix(".sqlite") if path.suffix in REPORT_SUFFIXES else None


def export_report(path: Path, target: Path, log: Callable[[str], None]) -> ReportTables:
    """Write a report's tables into a new SQLite file: rows by table, and notes.

    nsys is asked only for what is not read here; `log` gets a line before it runs. Raises InputError
    where neither reads it, and what writing the file raises.
    """
    from nsysconv.importers.nsys_rep.container import DamagedReportError
    from nsysconv.importers.nsys_rep.report import write_tables

    try:
        return ReportTables(*write_tables(path, target))
    except DamagedReportError as refusal:
        nsys = shutil.which("nsys")
        if nsys is None:
            raise
        target.unlink(missing_ok=True)
        by_nsys = _export_by_nsys(nsys, path, target, log)
        text = f"exported by {by_nsys}, because nsysconv cannot read it: {refusal.what}"
        return ReportTables(
            {}, (Note("report-by-nsys", Severity.INFO, text, facts=frozenset({Fact.UTC})),)
        )


@dataclass(frozen=True)
class ReportTables:
    """The tables that were written of a report: rows by table, as far as that is known, and notes."""

    counts: dict[str, int]
    notes: tuple[Note, ...]


def _export_by_nsys(nsys: str, path: Path, target: Path, log: Callable[[str], None]) -> str:
    # Returns the version of nsys.
    version = subprocess.run(
        [nsys, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
    log(f"exporting {path.name} with {version or nsys}")
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0 or not target.exists():
        message = (outcome.stderr or outcome.stdout).strip().splitlines()
        by_hand = shlex.join(["nsys", "export", "--type", "sqlite", str(path)])
        raise InputError(
            f"nsys could not export it (exit status {outcome.returncode})"
            + (f": {message[-1]}" if message else ""),
            where=str(path),
            hint="A report opens only in the nsys that made it or a newer one. Export it there:\n"
            f"  {by_hand}",
        )
    return version or nsys
