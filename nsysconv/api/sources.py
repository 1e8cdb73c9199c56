"""What a target of `report` names: the profiles of one run, each where it can be opened by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv.api import inputs
from nsysconv.api.lost import lines as lost_lines
from nsysconv.api.opening import OpenProfile, of_one_run, open_all, open_run
from nsysconv.api.words import Say, Target, silent
from nsysconv.errors import InputError
from nsysconv.store.address import Url
from nsysconv.store.location import Location, is_store, reading, split_target

_BYTES_PER_EVENT = 100


@dataclass(frozen=True)
class Source:
    """One profile of a store, or all of a file. `events` is about how many there are to look at.

    `profile` is None for a file; `selector` says what of it. A file `in_folder` may be a store, or none.
    """

    place: Location
    profile: int | None = None
    selector: str | None = None
    in_folder: bool = False
    events: int = 0

    def opened(
        self, stack: ExitStack, include: Sequence[str] = (), say: Say = silent
    ) -> list[OpenProfile]:
        """What it names, open as long as the stack; of a folder all that is in a file, else one run."""
        if self.profile is None:
            open_those = open_all if self.in_folder else open_run
            return open_those(self.place, self.selector, stack, say, include=include)
        store = stack.enter_context(reading(self.place))
        return [OpenProfile(store.profile(self.profile), ExitStack())]

    def absolute(self) -> Source:
        """The same as it is called from any folder."""
        return self if isinstance(self.place, Url) else replace(self, place=self.place.absolute())

    def files(self) -> list[Path]:
        """The file that is read; of a database none."""
        return [] if isinstance(self.place, Url) else [self.place]


def sources(target: Target, say: Say = silent) -> list[Source]:
    """The profiles of a profile file, a store of one run, PLACE@WORD, or all that is in a folder.

    Of a store they are in the order of ranks, of a folder in that of names. Raises UsageError where a
    store holds several runs and none is named, InputError where a folder holds nothing.
    """
    where, selector = split_target(target)
    if isinstance(where, Path) and where.is_dir():
        # None of them is opened here: there may be thousands, and who looks at one opens it anyway.
        return [_file(path, None, in_folder=True) for path in _files(where, say)]
    if not isinstance(where, Url) and not is_store(where):
        return [_file(where, selector, in_folder=False)]
    with reading(where) as store:
        return [
            Source(
                where,
                profile.id,
                events=profile.row_count("kernel") + profile.row_count("api_call"),
            )
            for profile in of_one_run(store, where, selector)
        ]


def _file(path: Path, selector: str | None, *, in_folder: bool) -> Source:
    size = path.stat().st_size if path.is_file() else 0
    return Source(path, None, selector, in_folder, size // _BYTES_PER_EVENT)


def _files(folder: Path, say: Say) -> Iterator[Path]:
    """The files below a folder that may be profiles, each recording once. Raises InputError for none."""
    there = inputs.found([folder])
    for passed in there.passed:
        say(f"skipped: {passed.path}: {passed.reason}")
    for line in lost_lines(there.lost, alone=not there.read):
        say(line)
    if not there.read:
        raise InputError("no profile in it" if there.lost else "no files in it", where=str(folder))
    yield from (each.path for each in there.read)
