"""A profile file as it is, as a store of its profiles; nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
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
from nsysconv.store.runs import Belonging
from nsysconv.store.write import writing


class ProfileFile(AbstractContextManager["ProfileFile"]):
    """A profile file, and stores over it: what they are without depends on what they were asked for.

    `on_request` are the facts that a store has only where they were. Making one raises InputError where
    the file cannot be read. The stores are open as long as the file.
    """

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._open = ExitStack()
        with ExitStack() as stack:
            self._probe = stack.enter_context(detection.open_probe(path, say))
            self._importer = detection.detect(self._probe)
            self._open = stack.pop_all()
        # The word that includes rows of a kind is the fact's own.
        self.on_request = frozenset(Fact(word) for word in self._importer.INCLUDABLE)

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def store(self, include: frozenset[str]) -> Store:
        """A store over the file as it is; where it has to be copied, over a private copy of its rows.

        Of rows that are left out of imports unless asked for, those that `include` names are in it.
        """
        origin, recordings = self._source(include)
        try:
            return self._open.enter_context(in_place(next(recordings()), origin))
        except NotInPlace:
            return self._open.enter_context(reading(self._copy(origin, recordings)))

    def copy(self) -> Path:
        """A store in a private folder, with the rows that an import of the file would make."""
        return self._copy(*self._source(frozenset()))

    def _source(self, include: frozenset[str]) -> tuple[Origin, Callable[[], Iterator[Recording]]]:
        """What the file is, and what reads it; as an import does."""
        label = detection.profile_label(self._path)
        run = Belonging(together=f"file {self._path}", label=label)
        origin = Origin(label, self._importer.NAME, str(self._path), "", "", run=run)
        options = Options(include, in_place=True)
        told = voices(self._path, None)
        return origin, partial(_ranked, self._importer, self._probe, options, told)

    def _copy(self, origin: Origin, recordings: Callable[[], Iterator[Recording]]) -> Path:
        store = self._open.enter_context(private_folder()) / "store.db"
        with writing(store) as writer:
            writer.add(recordings(), lambda: origin, silent)
        return store


def _ranked(
    importer: Importer, probe: Probe, options: Options, told: Sequence[Told]
) -> Iterator[Recording]:
    """The recordings of a file with what its name and the record beside it say of ranks."""
    for recording in importer.read([probe], options):
        yield ranked(recording, told)
