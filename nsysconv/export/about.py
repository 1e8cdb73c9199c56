"""What rows of a profile are explained with: texts of its ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from nsysconv.export.ordered import Coded, firsts
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.annotations import domain_names

Array = np.ndarray


class Names:
    """Texts of a profile's name ids, each asked for once."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._known: dict[tuple[bool, int], str] = {}

    def of(self, ids: Array, *, plain: bool = False) -> Coded:
        """The names of rows; none for null."""
        first, numbers = firsts(ids)
        values = ids[first]
        wanted = [i for i in values.tolist() if i != MISSING and (plain, i) not in self._known]
        if wanted:
            found = self._profile.names(wanted, plain=plain)
            self._known.update({(plain, i): text for i, text in found.items()})
        texts = [self._known.get((plain, i), "") for i in values.tolist()]
        return Coded(np.where(ids == MISSING, -1, numbers), texts)


@dataclass
class About:
    """What rows are explained with: the profile's names, and names of domains and categories."""

    profile: Profile
    names: Names = field(init=False)
    domains: Mapping[tuple[int, int], str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.profile)
        self.domains = domain_names(self.profile)

    @cached_property
    def longest_name(self) -> int:
        """How many characters the longest name has."""
        return self.profile.longest_name()

    @property
    def closing(self) -> int | None:
        """When the recording ended, in ns since the profile's zero."""
        last: int | None = self.profile.attributes["recording_ns"]
        return last

    def closed(self, start: Array, dur: Array) -> Array:
        """Durations of ranges; those that were never closed last until the recording ends."""
        never = dur == MISSING
        if not never.any():
            return dur
        last = start if self.closing is None else np.maximum(self.closing, start)
        result: Array = np.where(never, last - start, dur)
        return result
