"""Workers for many files or profiles: this process, processes beside it, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from nsysconv.errors import InputError
from nsysconv.launch import cores
from nsysconv.processes import ProcessDiedError, Processes

if TYPE_CHECKING:
    from nsysconv.api.dask_workers import Files

Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL = "local"
"""In place of a Dask scheduler's address: a cluster of this machine's cores, for as long as it takes."""


class Workers(Protocol):
    """Something that does pieces of work, several at a time."""

    @property
    def count(self) -> int:
        """Return how many pieces are worked on at a time, as far as is known now."""

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
        files: Files[Item] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of `work` for each item, in their order; a few are made ahead.

        `work` (a function of a module, or a `partial` of such a function), items and results are
        pickled where the work is done elsewhere; it may be done there more than once, if a machine
        fails, and the last result counts. What it raises is raised here. `lost` gives the result of an
        item whose process was killed each time it was tried; without it the block of `workers` ends
        with an InputError. `files` gives the files that work on an item reads: those that exist here
        must exist there.
        """


class _LocalProcesses:
    # If the count is 1, no process is started, and this one does the work.
    def __init__(self, count: int, stack: ExitStack) -> None:
        self.count = count
        self._stack = stack

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
        files: Files[Item] | None = None,
    ) -> Iterator[Result]:
        if self.count == 1 or not items:
            return map(work, items)
        results = self._results(work, items, lost)
        # An interrupted caller leaves the generator suspended, and its processes must not outlive the
        # block.
        self._stack.callback(results.close)
        return results

    def _results(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None,
    ) -> Generator[Result]:
        count = min(self.count, len(items))
        with Processes[Item, Result](count, _unchanged, work) as processes:
            yield from processes.map(items, lost)


def _unchanged(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    return work


@contextmanager
def workers(dask: str | None = None, count: int | None = None) -> Iterator[Workers]:
    """Start the workers that are asked for; nothing that they started outlives the block.

    `dask` is a scheduler's address, the path of its scheduler file, or LOCAL; without it there are
    `count` processes beside this one (None: one per core), and with 1 it is this one itself. A cluster
    that runs already has the workers that it has, whatever `count` says. Raises UsageError if Dask is
    not installed, the scheduler does not answer, or it has no workers; `map` raises it, too, if the
    cluster fails later.
    """
    with ExitStack() as stack:
        try:
            if dask is not None:
                from nsysconv.api.dask_workers import dask_workers

                local_count = (count or cores()) if dask == LOCAL else None
                yield stack.enter_context(dask_workers(dask, local_count))
            else:
                yield _LocalProcesses(max(1, cores() if count is None else count), stack)
        except ProcessDiedError as error:
            raise InputError(
                "a process at work was killed; the memory may have run out",
                hint="Let fewer of them work at a time.",
            ) from error
