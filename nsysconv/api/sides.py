"""The sides of a comparison: what is opened for each, and which of it are ranks or repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nsysconv.api.open_profile import OpenProfile, open_all
from nsysconv.api.targets import Say, Target, files_of
from nsysconv.errors import InputError
from nsysconv.store.address import Url
from nsysconv.store.location import redacted_target as shown_target


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its runs, each of one profile or of the profiles of its ranks."""

    runs: tuple[tuple[OpenProfile, ...], ...]

    @property
    def profiles(self) -> tuple[OpenProfile, ...]:
        """Return all profiles of all runs."""
        return tuple(profile for run in self.runs for profile in run)


def open_side(target: Target, stack: ExitStack, say: Say) -> Side:
    """Open a side, such as STORE@LABEL, a file, a folder or a glob, for as long as the stack is open.

    Profiles of one run of a store or file are its ranks, and so are files of different ranks; all others
    are repeats. Raises UsageError or InputError if nothing is there, or a file is not a profile.
    """
    runs: dict[tuple[str, object], list[OpenProfile]] = {}
    in_folder, reasons = not isinstance(target, Url) and Path(target).is_dir(), []
    for source, selector in files_of(target):
        try:
            for profile in open_all(source, selector, stack, say):
                run = (str(source), profile.profile.attributes["run_id"])
                runs.setdefault(run, []).append(profile)
        except InputError as error:
            if not in_folder:
                raise
            reasons.append(str(error))
    if not runs:
        raise InputError("no profile in it", where=shown_target(target), hint="\n".join(reasons))
    return Side(tuple(_runs_by_rank(list(runs.values()))))


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
