"""One file after the other, damaged or made, each out of its number alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import make_names
import make_nesting
import make_pages
import make_printed
import mutate_json
import mutate_report
import mutate_sqlite
import mutate_text
import one_place
from made import Made
from seeds import DAMAGED, EXPORTED, Seed, seeds
from truth import Printed, Truth

MAKERS: dict[str, Callable[[random.Random], Made]] = {
    "nesting": make_nesting.make,
    "names": make_names.make,
    "printed": make_printed.make,
    "pages": make_pages.make,
}
"""Classes of files that are made; nothing is wrong with these."""

KINDS = (*DAMAGED, *one_place.HOW, *MAKERS)
"""Classes of files: those that are damaged, by importer or by format, and those that are made."""

LARGE = ("nesting", "names", "pages")
"""Those of which a file can take seconds."""

_STEPS = (1, 1, 1, 1, 2, 2, 3, 5)


@dataclass(frozen=True)
class Case:
    """A file: its seed, its bytes, those of files beside it by ending, and what was done.

    `moved`: names may mean another text than in the seed. `key` makes it again. `truths` are what must be
    read from a file that was made.
    """

    key: str
    seed: Seed
    content: bytes
    done: tuple[str, ...]
    beside: dict[str, bytes] = field(default_factory=dict)
    moved: bool = True
    truths: tuple[Truth | Printed, ...] = ()

    @property
    def kind(self) -> str:
        """Return its class, one of KINDS."""
        return self.key.split(":")[0]

    @property
    def number(self) -> int:
        """Return its number within the class; ways to look at files take turns by it."""
        return int(self.key.split(":")[2])

    @property
    def importer(self) -> str:
        """Return the importer that the file is meant for."""
        read = one_place.HOW[self.kind][0] if self.kind in one_place.HOW else self.kind
        if read in DAMAGED:
            return EXPORTED.get(read, read)
        if self.seed.is_sqlite:
            return "nsys_sqlite"
        return "kineto" if self.content.startswith(b"{") else "nsys_stats"

    @property
    def name(self) -> str:
        """Return the name of its file: that of the seed."""
        return self.seed.name


def case(
    kind: str, seed: int, number: int, *, real: bool = True, only: Collection[int] | None = None
) -> Case:
    """Return the file of this number. `only`: these steps of damage alone, to simplify a finding."""
    key = f"{kind}:{seed}:{number}"
    random_ = random.Random(key)
    if kind in MAKERS:
        made = MAKERS[kind](random_)
        whole = Seed(made.name, made.content)
        return Case(key, whole, made.content, made.done, moved=False, truths=made.truths)
    if kind in one_place.HOW:
        importer, damage = one_place.HOW[kind]
        chosen, content, place = damage(random_, importer, real)
        return Case(key, chosen, content, (place,), moved=False)
    found = seeds(kind, real=real)
    chosen = random_.choice(found)
    count = random_.choice(_STEPS)
    steps = [random.Random(f"{key}:{place}") for place in range(count)]
    if only is not None:
        steps = [step for place, step in enumerate(steps) if place in only]
    if not steps:
        return Case(key, chosen, chosen.content, (), moved=False)
    others = [random_.choice(found).content for _ in range(3)]
    if chosen.is_sqlite:
        damaged = mutate_sqlite.mutate(chosen.content, steps)
        return Case(key, chosen, damaged.content, damaged.done, damaged.beside, damaged.moved)
    if kind == "nsys_rep":
        content, what, moved = mutate_report.mutate(chosen.content, steps)
        return Case(key, chosen, content, tuple(what), moved=moved)
    if chosen.content.lstrip(b"\xef\xbb\xbf \n")[:1] in (b"{", b"[") and kind == "kineto":
        content, done = mutate_json.mutate(chosen.content, steps, others, packed=chosen.packed)
    else:
        content, done = mutate_text.mutate(chosen.content, steps, others)
    return Case(key, chosen, content, tuple(done))
