"""The sides of a comparison: which profiles an argument names, and which of them are one run."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nsysconv.api.inputs import check_there
from nsysconv.api.opening import OpenProfile, open_all
from nsysconv.api.words import Say, Target
from nsysconv.errors import InputError, UsageError
from nsysconv.store.address import Url
from nsysconv.store.location import Location, redacted_target, split_target
from nsysconv.timeline.slices import Slice

_MAGIC = frozenset("*?[")


@dataclass(frozen=True)
class Side:
    """One side: its runs, each of one profile or of the profiles of its ranks."""

    runs: tuple[tuple[OpenProfile, ...], ...]

    @property
    def profiles(self) -> tuple[OpenProfile, ...]:
        """All profiles."""
        return tuple(profile for run in self.runs for profile in run)

    def cut(self, part: Slice) -> None:
        """Looks at no more of its profiles than this."""
        for profile in self.profiles:
            profile.narrow(part)


def check_sides(*targets: Target) -> None:
    """Raises InputError or UsageError for files of any side that there are not, before one is opened."""
    check_there([place for target in targets for place, _ in _targets(target)])


def open_side(target: Target, stack: ExitStack, say: Say) -> Side:
    """Opens a side: a store, STORE@LABEL, @ID or @RUN, a profile file, a folder, or a glob.

    Profiles of one run of a store or file are its ranks, and so are files of different ranks; all others
    are repeats. Raises UsageError or InputError where nothing is there, or a file is no profile.
    """
    runs: dict[tuple[str, object], list[OpenProfile]] = {}
    in_folder, reasons = not isinstance(target, Url) and Path(target).is_dir(), []
    for source, selector in _targets(target):
        try:
            profiles = open_all(source, selector, stack, say)
        except InputError as error:
            if not in_folder:
                raise
            reasons.append(str(error))
            continue
        for profile in profiles:
            run = (str(source), profile.profile.attributes["run_id"])
            runs.setdefault(run, []).append(profile)
    if not runs:
        raise InputError("no profile in it", where=redacted_target(target), hint="\n".join(reasons))
    return Side(tuple(_by_rank(list(runs.values()))))


def _by_rank(runs: Sequence[Sequence[OpenProfile]]) -> Iterator[tuple[OpenProfile, ...]]:
    """The runs, where files of different ranks are one: the first file of each rank, then the second."""
    ranks = [frozenset(run[0].timeline.ranks.values()) for run in runs]
    if any(len(run) > 1 for run in runs) or not all(ranks) or len(set(ranks)) == 1:
        yield from map(tuple, runs)
        return
    repeats: list[list[OpenProfile]] = []
    seen: Counter[frozenset[int]] = Counter()
    for rank, (profile,) in zip(ranks, runs, strict=True):
        if seen[rank] == len(repeats):
            repeats.append([])
        repeats[seen[rank]].append(profile)
        seen[rank] += 1
    yield from map(tuple, repeats)


def _targets(target: Target) -> Iterator[tuple[Location, str | None]]:
    """The files that an argument names, and what to take of them."""
    where, word = split_target(target)
    if isinstance(where, Url):
        yield where, word
        return
    path = where if word is None else Path(f"{where}@{word}")
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if _is_input(file)]
        if not files:
            raise InputError("no files in it", where=str(path))
        yield from ((file, None) for file in files)
    elif not path.exists() and _MAGIC & set(str(target)):
        # pathlib knows relative patterns only.
        found = sorted(glob.glob(str(target), recursive=True))  # noqa: PTH207
        if not found:
            raise UsageError("no file matches", where=str(target))
        yield from ((Path(each), None) for each in found if not Path(each).is_dir())
    else:
        yield split_target(target)


def _is_input(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")
