"""A store over a profile file as it is; nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from nsysconv.api.ranks import Told, ranked, voices
from nsysconv.api.words import Say, silent
from nsysconv.facts import Fact
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.store.attached import NotInPlace, in_place
from nsysconv.store.private import private_folder
from nsysconv.store.profiles import Origin
from nsysconv.store.read import Store, reading
from nsysconv.store.recording import Recording
from nsysconv.store.write import writing


@contextmanager
def store_over(path: Path, say: Say, include: frozenset[Fact]) -> Iterator[Store]:
    """A store over the file as it is; where it has to be copied, over a private copy of its rows.

    Of rows that are left out of imports unless asked for, those of the facts in `include` are in it.
    Raises InputError where the file cannot be read.
    """
    with ExitStack() as stack:
        probe = stack.enter_context(detection.opened(path, say))
        importer = detection.detect(probe)
        origin = Origin(detection.label(path), importer.NAME, str(path), "", "")
        # The word that includes rows of a kind is the fact's own.
        options = Options(frozenset(include & importer.INCLUDABLE.keys()), in_place=True)
        # As an import does.
        recordings = partial(_ranked, importer, probe, options, voices(path, None))
        try:
            store = stack.enter_context(in_place(next(recordings()), origin))
        except NotInPlace:
            copy = stack.enter_context(private_folder()) / "store.db"
            with writing(copy) as writer:
                writer.add(recordings(), lambda: origin, silent)
            store = stack.enter_context(reading(copy))
        yield store


def _ranked(
    importer: Importer, probe: Probe, options: Options, told: Sequence[Told]
) -> Iterator[Recording]:
    """The recordings of a file with what its name and the record beside it say of ranks."""
    for recording in importer.read([probe], options):
        yield ranked(recording, told)
