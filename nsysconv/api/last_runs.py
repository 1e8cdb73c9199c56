"""Runs of a store as the base of a comparison: `STORE@last:N`, `STORE@best:METRIC`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from nsysconv.api.open_profile import OpenProfile, rank_order
from nsysconv.api.targets import Files, Target
from nsysconv.errors import InputError, UsageError
from nsysconv.importers.probe import Probe
from nsysconv.store.location import Location, Url, is_store, reading, split_target
from nsysconv.store.selection import has_label, last_count, last_runs, runs_in_order
from nsysconv.timeline.vendors import model_name

_BEST = "best:"


def names_last_runs(target: Target) -> tuple[Location, str] | None:
    """Return store and word of STORE@last:N or STORE@best:METRIC; None if a label is spelled so."""
    if isinstance(target, Files):
        return None
    place, word = split_target(target)
    if word is None or not (isinstance(place, Url) or place.exists()) or not is_store(place):
        return None
    with reading(place) as store:
        is_asked = not has_label(store, word) and (word.startswith(_BEST) or last_count(word))
        return (place, word) if is_asked else None


def open_last_runs(
    place: Location, word: str, other: Sequence[OpenProfile], stack: ExitStack
) -> list[tuple[OpenProfile, ...]]:
    """Open the newest runs of a store, or the best, for as long as the stack is open, by ranks.

    A run that is also in `other`, by the identity of a profile or the bytes of its file, is left out. So
    are runs on other models of GPUs than those of `other`, if the store has any on just these. Raises
    UsageError if the store has no run beside it.
    """
    identities = {profile.profile.attributes["identity"] for profile in other}
    hashes = {found for profile in other if (found := source_hash(profile))}
    models = _models(row["name"] for each in other for row in each.profile.rows("device"))
    store = stack.enter_context(reading(place))
    with store.snapshot():
        runs = runs_in_order(store)
        same = {
            run.id
            for run in runs
            for p in run.profiles
            if p.attributes["identity"] in identities or p.attributes["sha256"] in hashes
        }
        rest = last_runs(runs, len(runs), same)
        alike = [r for r in rest if models == _models(n for p in r.profiles for n in p.devices)]
        chosen = last_runs(alike or rest, last_count(word) or len(runs))
        if word.startswith(_BEST) and chosen:
            from nsysconv.api.run_history import best_runs  # which needs what this is for

            chosen = best_runs(store, chosen, word.removeprefix(_BEST))
        opened = [
            [OpenProfile(store.profile(p.id), place, ExitStack()) for p in run.profiles]
            for run in chosen
        ]
    if not opened:
        what = "the store holds no run beside the one that it is compared with"
        hint = f"Import earlier runs first: nsysconv import FILE -o {place}"
        raise UsageError(what, where=str(place), hint=hint)
    return [tuple(_by_rank(run)) for run in opened]


def _models(names: Iterable[str | None]) -> set[str]:
    return {model_name(name) for name in names if name}


def _by_rank(run: Sequence[OpenProfile]) -> Iterator[OpenProfile]:
    yield from sorted(run, key=lambda opened: rank_order(opened.profile))


def source_hash(opened: OpenProfile) -> str:
    """Return the SHA-256 of a profile's file, which is read if no store knows it; empty: no such file."""
    known: str = opened.profile.attributes["sha256"]
    path = Path(opened.profile.ref.path)
    if not known and path.is_file():
        with suppress(OSError, InputError), Probe(path) as probe:
            return probe.sha256()
    return known
