"""What a target of `report` names: the profiles of one run, each where it can be opened by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv.api import inputs
from nsysconv.api.opening import OpenProfile, chosen, open_all
from nsysconv.api.words import Say, Target, silent
from nsysconv.errors import InputError, UsageError
from nsysconv.store.database import is_store
from nsysconv.store.places import Place, Url, split
from nsysconv.store.read import Profile, reading

_BYTES_PER_EVENT = 100


@dataclass(frozen=True)
class Source:
    """One profile of a store, or all of a file. `events` is about how many there are to look at.

    `profile` is None for a file; `selector` says what of it. A file `in_folder` may be a store, or none.
    """

    place: Place
    profile: int | None = None
    selector: str | None = None
    in_folder: bool = False
    events: int = 0

    def opened(
        self, stack: ExitStack, reports: Sequence[str], say: Say = silent
    ) -> list[OpenProfile]:
        """What it names, open as long as the stack."""
        if self.profile is None:
            found = open_all(self.place, self.selector, stack, say, reports=reports)
            return sorted(found, key=lambda one: _by_rank(one.profile)) if found[1:] else found
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
    where, selector = split(target)
    if isinstance(where, Path) and where.is_dir():
        # None of them is opened here: there may be thousands, and who looks at one opens it anyway.
        found = [_file(path, None, in_folder=True) for path in _files(where, say)]
        if not found:
            raise InputError("no files in it", where=str(where))
        return found
    if not isinstance(where, Url) and not is_store(where):
        return [_file(where, selector, in_folder=False)]
    with reading(where) as store:
        profiles = chosen(store, where, selector)
        if selector is None:
            _check_one_run(profiles, {row["id"]: row["label"] for row in store.runs()}, where)
        if len(profiles) > 1:
            profiles.sort(key=_by_rank)
        return [
            Source(
                where,
                profile.id,
                events=profile.row_count("kernel") + profile.row_count("api_call"),
            )
            for profile in profiles
        ]


def _file(path: Path, selector: str | None, *, in_folder: bool) -> Source:
    size = path.stat().st_size if path.is_file() else 0
    return Source(path, None, selector, in_folder, size // _BYTES_PER_EVENT)


def _check_one_run(profiles: Sequence[Profile], labels: dict[int, str], where: Place) -> None:
    runs: dict[int, int] = {}
    for profile in profiles:
        run = int(profile.attributes["run_id"])
        runs[run] = runs.get(run, 0) + 1
    if len(runs) > 1:
        known = "\n".join(
            f"  {where}@{labels[run]}" + (f"  ({count} profiles)" if count > 1 else "")
            for run, count in runs.items()
        )
        raise UsageError(
            f"the store holds {len(runs)} runs: name one", where=str(where), hint=known
        )


def _by_rank(profile: Profile) -> tuple[bool, int, int]:
    ranks = [row["rank"] for row in profile.rows("process") if row["rank"] is not None]
    return (not ranks, min(ranks, default=0), profile.id)


def _files(folder: Path, say: Say) -> Iterator[Path]:
    """The files below a folder that may be profiles, each recording once."""
    there = inputs.found([folder])
    for passed in there.passed:
        say(f"skipped: {passed.path}: {passed.reason}")
    for lost in there.lost:
        rank = "a rank" if lost.record.rank is None else f"rank {lost.record.rank}"
        say(f"{lost.path}: {rank} left no report")
    yield from (each.path for each in there.read)
