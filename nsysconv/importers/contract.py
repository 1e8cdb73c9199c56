"""The contract of importers, and the texts that several of them share."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

MAX_RECORDINGS = 1000
"""More in one file are damage: nobody would look at them, and each takes its share of a second."""

NO_GPU_WORK = Note("no-gpu-work", Severity.INFO, "the profile has no GPU operations")


def lost_gpu_work(function: str) -> Note:
    """Return the note on a profile without GPU work in which a function was called that gives some."""
    text = f"no GPU work was recorded, although {function} was called"
    return Note("gpu-activity-missing", Severity.DROPPED, text)


def too_many_recordings_error(where: str) -> InputError:
    """Return the error to raise for a file with more than MAX_RECORDINGS."""
    return InputError(
        f"the file holds more than {MAX_RECORDINGS:,} recordings",
        where=where,
        hint="It is damaged, or of very many runs: cut it into files of fewer.",
    )


@dataclass(frozen=True)
class Options:
    """The options of an import that importers see.

    `include`: words of importers' INCLUDABLE. `processes` may work on one file at a time (None: as many
    as help), which changes no row.
    """

    include: frozenset[str] = frozenset()
    processes: int | None = None


@dataclass(frozen=True)
class Yes:
    """The importer reads this file. `alone`: no other reads such files, and none has to be asked."""

    alone: bool = False


@dataclass(frozen=True)
class No:
    """The importer does not read this file, for this reason.

    `close`: the file is of a kind that this importer knows and can explain (damaged, another tool's);
    only then are its reason and `hint` shown.
    """

    reason: str
    close: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Group:
    """Files that are parts of one recording; `instead`: a file that holds all of it and is read."""

    paths: tuple[Path, ...]
    instead: Path | None = None


class Importer(Protocol):
    """One source format: a module with these names.

    One whose recordings are several files that lie together also has `group`, a function of the paths
    of all files in sight that returns a Group for each recording of two or more of them. It goes by their
    names: which of them are of this format is seen when they are read. It may have `is_part(probe)`, too:
    whether a file that it refuses alone belongs to others, such as a list of GPUs.
    """

    NAME: str
    """The name of the module, and the word in `profile.source`."""
    VERSION: int
    """Raise it when the same file gives other rows; it is part of a profile's identity."""
    TITLE: str
    """The title of the source, for people."""
    GUARANTEED: frozenset[Fact]
    """Facts that every file of the source holds."""
    POSSIBLE: frozenset[Fact]
    """Facts that a file of the source may hold."""
    ADVICE: Mapping[Fact, str]
    """Advice by fact: how to record it next time, also for facts that only other sources hold."""
    JOINS: bool
    """True if several files can be one recording: when the user says so, or by `group`."""
    INCLUDABLE: Mapping[str, str]
    """Rows that are left out unless asked for, being many: a word for each, and what they are."""

    @staticmethod
    def sniff(probe: Probe) -> Yes | No:
        """Return whether the content is this format. Reads content, never the file name; never raises."""

    @staticmethod
    def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
        """Yield the recordings of a file, each to be used up before the next is asked for.

        `probes` are several only if the importer JOINS: they are parts of one recording. A recording's
        batches are a generator that returns its summary; closing either early ends what it has begun.
        Raises InputError if nothing can be read.
        """
