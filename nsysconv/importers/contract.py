"""What an importer module offers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

MOST_RECORDINGS = 1000
"""More in one file are damage: nobody would look at them, and each takes its share of a second."""


def too_many_recordings(where: str) -> InputError:
    """What to raise for a file with more of them."""
    return InputError(
        f"the file holds more than {MOST_RECORDINGS:,} recordings",
        where=where,
        hint="It is damaged, or of very many runs: cut it into files of fewer.",
    )


@dataclass(frozen=True)
class Options:
    """What the user asked an import for. `include`: words of importers' INCLUDABLE.

    Neither of the others changes a row: `processes` may work on one file at a time (None: as many as
    pay); `in_place`: no rows are copied while the importer looks at its source.
    """

    include: frozenset[str] = frozenset()
    processes: int | None = None
    in_place: bool = False


@dataclass(frozen=True)
class Yes:
    """The importer reads this file. `alone`: no other reads such files, and none has to be asked."""

    alone: bool = False


@dataclass(frozen=True)
class No:
    """The importer does not read this file, and why.

    `close`: the file is of a kind that this importer knows and can explain (damaged, another tool's);
    such a reason is shown before all others, with `hint`.
    """

    reason: str
    close: bool = False
    hint: str = ""


class Importer(Protocol):
    """One source format: a module with these names."""

    NAME: str
    """The word that `profile.source` holds."""
    VERSION: int
    """Raised when the same file would give other rows; part of a profile's identity."""
    TITLE: str
    """What the source is, for people."""
    GUARANTEED: frozenset[Fact]
    """What every file of the source holds."""
    POSSIBLE: frozenset[Fact]
    """What a file of the source may hold."""
    ADVICE: Mapping[Fact, str]
    """How to record a fact next time; also facts that only other sources hold."""
    JOINS: bool
    """Whether several files can be one recording, where the user says so."""
    INCLUDABLE: Mapping[str, str]
    """Rows that are left out unless asked for, being many: a word for each, and what they are."""

    @staticmethod
    def sniff(probe: Probe) -> Yes | No:
        """Whether the content is this format. Reads content, never the file name; never raises."""

    @staticmethod
    def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
        """The recordings of a file, each used up before the next is asked for.

        Several files only where the importer JOINS: they are parts of one recording.
        Closing it early ends what it has begun. Raises InputError where nothing can be read.
        """


# Calls that put work on a GPU: if one succeeded and there are no GPU rows, the work was not recorded.
WORKING_CALLS = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset",
                 "cudaGraphLaunch", "cuGraphLaunch")  # fmt: skip

NO_GPU_WORK = Note("no-gpu-work", Severity.INFO, "the profile holds no GPU operation")


def lost_gpu_work(call: str) -> Note:
    """The note that there should be GPU work, because this call succeeded."""
    text = f"no GPU work was recorded, although {call} was called"
    return Note("gpu-activity-missing", Severity.INFO, text)
