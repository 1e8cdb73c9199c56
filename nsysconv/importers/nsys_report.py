"""Nsight Systems' own report files, which only nsys can read: exported to SQLite first.

The format has no public description and no known signature. So this is the one place where a file's
name counts, and only for content that is nothing else: not SQLite, not text (docs/decisions/0009).
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe

SUFFIXES = (".nsys-rep", ".qdrep")


def is_report(probe: Probe) -> bool:
    """Return whether the file can only be a report of nsys: so named, and binary."""
    return probe.path.suffix in SUFFIXES and not probe.is_sqlite and b"\0" in probe.head


def export_path(path: Path) -> Path | None:
    """Return where nsys itself puts the export of a report; None for a file that is not named as one."""
    return path.with_suffix(".sqlite") if path.suffix in SUFFIXES else None


def export_report(path: Path, folder: Path, log: Callable[[str], None]) -> Path:
    """Export the report with the nsys on PATH into `folder` and return the SQLite file.

    `log` gets a line before nsys runs. Raises InputError with the command to run on another machine if
    there is no nsys, or with the message of nsys if it failed.
    """
    target = folder / (path.stem + ".sqlite")
    by_hand = shlex.join(["nsys", "export", "--type", "sqlite", str(path)])
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            "an Nsight Systems report; only nsys can read it, and nsys is not on PATH",
            where=str(path),
            hint=f"Where nsys is installed, run:\n  {by_hand}\nthen import the .sqlite file.",
        )
    version = subprocess.run(
        [nsys, "--version"], capture_output=True, text=True, check=False
    ).stdout
    log(f"exporting {path.name} with {version.strip() or nsys}")
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0 or not target.exists():
        message = (outcome.stderr or outcome.stdout).strip().splitlines()
        raise InputError(
            f"nsys could not export it (exit status {outcome.returncode})"
            + (f": {message[-1]}" if message else ""),
            where=str(path),
            hint="A report opens only in the nsys that made it or a newer one. Export it there:\n"
            f"  {by_hand}",
        )
    return target
