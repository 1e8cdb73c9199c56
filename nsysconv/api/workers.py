"""Who does work on many files or profiles: this process, processes beside it, or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from nsysconv.errors import UsageError
from nsysconv.processes import Processes

Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL = "local"
"""In place of a Dask scheduler's address: a cluster of this machine's cores, for as long as it takes."""


class Workers(Protocol):
    """Something that does pieces of work, several at a time."""

    @property
    def count(self) -> int:
        """How many pieces are worked on at a time."""

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        """The result of `work` for each item, in their order, as they come.

        `work` (a function of a module, or a `partial` of one), items and results are pickled where the
        work is done elsewhere. What it raises is raised here. `lost` gives the result of an item whose
        process was killed each time it was tried; without it that is an error.
        """


class _Alone:
    """This process, one piece after the other."""

    @property
    def count(self) -> int:
        return 1

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        return map(work, items)


class _Beside:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def count(self) -> int:
        return self._count

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        with Processes[Item, Result](min(self._count, len(items)), _itself, work) as processes:
            yield from processes.map(items, lost)


def _itself(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    return work


class _Dask:
    """The workers of a Dask cluster. A piece whose worker dies is done again by another."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def count(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
    ) -> Iterator[Result]:
        from distributed.scheduler import KilledWorker

        futures = [self._client.submit(work, item, pure=False) for item in items]
        try:
            while futures:
                try:
                    result = futures[0].result()
                except KilledWorker:
                    if lost is None:
                        raise
                    result = lost(items[-len(futures)])
                # Let go of at once: what came is no longer kept by the cluster.
                del futures[0]
                yield result
        finally:
            self._client.cancel(futures)


@contextmanager
def workers(dask: str | None = None, count: int | None = None) -> Iterator[Workers]:
    """Those that are asked for, as long as the block runs.

    `dask` is a scheduler's address, the path of its scheduler file, or LOCAL; without it there are
    `count` processes beside this one (None: one per core), and with 1 it is this one itself. Raises
    UsageError where Dask is not installed or the scheduler does not answer.
    """
    if dask is None:
        count = (os.cpu_count() or 1) if count is None else count
        yield _Alone() if count <= 1 else _Beside(count)
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError("Dask is not installed", hint="pip install 'nsysconv[dask]'") from error
    if dask == LOCAL:
        with (
            LocalCluster(
                n_workers=count or os.cpu_count() or 1, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield _Dask(client)
        return
    where = {"scheduler_file": dask} if Path(dask).is_file() else {"address": dask}
    try:
        client = Client(**where, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers: {error}",
            where=dask,
            hint="Name its address (tcp://HOST:8786) or its scheduler file.",
        ) from error
    with client:
        yield _Dask(client)
