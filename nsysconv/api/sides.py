"""The sides of a comparison: the files that each of them names, and which of these are one run."""

from __future__ import annotations

import filecmp
import glob
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nsysconv.api.inputs import UnreadFiles, check_existing, files_to_read
from nsysconv.api.open_profile import OpenProfile, open_all
from nsysconv.api.targets import Say, Target
from nsysconv.errors import InputError, UsageError
from nsysconv.notes import Note
from nsysconv.store.location import Location, Url, redacted_target, split_target
from nsysconv.store.read import Profile

_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its runs, each of one profile or of the profiles of its ranks.

    `unread` are notes on files of a folder that could not be read.
    """

    runs: tuple[tuple[OpenProfile, ...], ...]
    unread: tuple[Note, ...] = ()

    @property
    def profiles(self) -> tuple[OpenProfile, ...]:
        """Return all profiles of all runs."""
        return tuple(profile for run in self.runs for profile in run)


def open_sides(base: Target, other: Target, stack: ExitStack, say: Say) -> tuple[Side, Side]:
    """Open both sides, such as STORE@LABEL, a file, a folder or a glob, for as long as the stack is open.

    Profiles of one run of a store or file are its ranks, and so are files of different ranks; all others
    are repeats. Raises UsageError or InputError if nothing is there, or a file that was named cannot be
    read.
    """
    of_base, of_other = list(_files_of(base, say)), list(_files_of(other, say))
    check_existing(place for place, _ in (*of_base, *of_other))
    return _opened(base, of_base, stack, say), _opened(other, of_other, stack, say)


def _files_of(target: Target, say: Say) -> Iterator[tuple[Location, str | None]]:
    # The stores and files that a side names, each with its `@WORD` or None: a folder means all files
    # below it, a glob those that match.
    where, word = split_target(target)
    if isinstance(where, Url):
        yield where, word
        return
    path = where if word is None else Path(f"{where}@{word}")
    if path.is_dir():
        yield from ((file, None) for file in files_to_read([path], str(path), say))
    elif not path.exists() and _GLOB_CHARACTERS & set(str(target)):
        # pathlib knows relative patterns only.
        matches = sorted(glob.glob(str(target), recursive=True))  # noqa: PTH207
        if not matches:
            raise UsageError("no file matches", where=str(target))
        files = [path for path in map(Path, matches) if not path.is_dir()]
        yield from ((file, None) for file in files_to_read(files, str(target), say))
    else:
        yield split_target(target)


def _opened(
    target: Target, files: Sequence[tuple[Location, str | None]], stack: ExitStack, say: Say
) -> Side:
    runs: dict[tuple[str, object], list[OpenProfile]] = {}
    in_folder, unread = not isinstance(target, Url) and Path(target).is_dir(), UnreadFiles(say)
    for source, selector in files:
        try:
            for profile in open_all(source, selector, stack, say):
                run = (str(source), profile.profile.attributes["run_id"])
                runs.setdefault(run, []).append(profile)
        except InputError as error:
            if not in_folder:
                raise
            unread.add(error)
    unread.end()
    if not runs:
        raise InputError("no profile in it", where=redacted_target(target))
    return Side(tuple(_runs_by_rank(list(runs.values()))), tuple(unread.notes()))


def _runs_by_rank(runs: Sequence[Sequence[OpenProfile]]) -> Iterator[tuple[OpenProfile, ...]]:
    # Files of different ranks are one run: the first file of each rank, then the second of each.
    ranks = [frozenset(run[0].timeline.ranks.values()) for run in runs]
    if any(len(run) > 1 for run in runs) or not all(ranks) or len(set(ranks)) == 1:
        yield from map(tuple, runs)
        return
    repeats: dict[int, list[OpenProfile]] = {}
    seen: Counter[frozenset[int]] = Counter()
    for rank, (profile,) in zip(ranks, runs, strict=True):
        repeats.setdefault(seen[rank], []).append(profile)
        seen[rank] += 1
    yield from map(tuple, repeats.values())


def same_recordings(base: Side, other: Side) -> bool:
    """Return whether both sides are the same recordings, in the same order: the same bytes were read."""
    pairs = list(zip(base.profiles, other.profiles, strict=False))
    alike = len(base.profiles) == len(other.profiles)
    return alike and all(_is_same(one.profile, another.profile) for one, another in pairs)


def _is_same(one: Profile, other: Profile) -> bool:
    # Of a file in place no hash is known. A file may hold several profiles.
    hashes = {one.attributes["sha256"], other.attributes["sha256"]}
    processes = [[row["pid"] for row in profile.rows("process")] for profile in (one, other)]
    if processes[0] != processes[1]:
        return False
    if "" not in hashes:
        return len(hashes) == 1
    try:
        return filecmp.cmp(one.ref.path, other.ref.path, shallow=False)
    except OSError:
        return False
