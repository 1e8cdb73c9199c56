"""One damaged file after the other, each out of its number alone."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

import mutate_json
import mutate_sqlite
import mutate_text
from seeds import Seed, seeds

_STEPS = (1, 1, 1, 1, 2, 2, 3, 5)


@dataclass(frozen=True)
class Case:
    """A damaged file: its seed, its bytes, those of files beside it by ending, and what was done.

    `moved`: names may mean another text than in the seed. `key` makes it again.
    """

    key: str
    seed: Seed
    content: bytes
    done: tuple[str, ...]
    beside: dict[str, bytes] = field(default_factory=dict)
    moved: bool = True

    @property
    def name(self) -> str:
        """What its file is called: as the seed is."""
        return self.seed.name


def case(
    importer: str, seed: int, number: int, *, real: bool = True, only: Collection[int] | None = None
) -> Case:
    """The damaged file of this number. `only`: just these of its steps (to make a finding simpler)."""
    key = f"{importer}:{seed}:{number}"
    random_ = random.Random(key)
    found = seeds(importer, real=real)
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
    if chosen.content.lstrip(b"\xef\xbb\xbf \n")[:1] in (b"{", b"[") and importer == "kineto":
        content, done = mutate_json.mutate(chosen.content, steps, others, packed=chosen.packed)
    else:
        content, done = mutate_text.mutate(chosen.content, steps, others)
    return Case(key, chosen, content, tuple(done))
