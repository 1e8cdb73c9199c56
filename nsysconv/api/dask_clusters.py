"""Dask clusters: one that runs already, or one of this machine for as long as it takes.

`python -m nsysconv.api.dask_clusters COUNT FOLDER` is the latter, until its input ends. It is a process
of its own because the way in which Dask starts workers runs the caller's own script again in each.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from nsysconv.api.dask_workers import Dask
from nsysconv.errors import UsageError

_CONNECT_S = 15
"""A scheduler that takes longer to answer is given up."""

_LOGGERS = ("distributed", "distributed.client", "distributed.comm", "tornado")


@contextmanager
def of_cluster(where: str) -> Iterator[Dask]:
    """Workers of the cluster whose scheduler has this address or wrote this file. Raises UsageError."""
    _check_installed("distributed")
    with _connected(where, address=_address(where)) as dask:
        yield dask


def _address(where: str) -> str:
    """The address of the scheduler that is named, whether or not it answers. Raises UsageError."""
    from distributed import Security
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    address: Any = where
    try:
        if Path(where).is_file():
            address = json.loads(Path(where).read_text(encoding="utf-8"))["address"]
        # A client that is given anything else fails half made, and waits for itself at the end.
        scheme, place = parse_address(address)
        get_backend(scheme)
        parse_host_port(place)
        if scheme in ("tls", "wss") and not Security().get_connection_args("client")["ssl_context"]:
            raise ValueError("it speaks TLS, and Dask is configured with no keys for that")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"no Dask scheduler: {error}",
            where=where,
            hint="Name its address (tcp://HOST:8786) or its scheduler file.",
        ) from error
    return str(address)


@contextmanager
def started_here(count: int) -> Iterator[Dask]:
    """`count` workers on this machine, with nothing that others on it could connect to."""
    _check_installed("distributed", "cryptography")
    with ExitStack() as ending:
        folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="nsysconv-dask-"))
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(count), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for us to act on
        )
        ending.callback(_killed, process)
        assert process.stdout is not None
        try:
            address, security = pickle.load(process.stdout)
        except EOFError as error:
            raise UsageError("no Dask cluster could be started here", where="local") from error
        with _connected("local", address=address, security=security) as dask:
            yield dask


def _check_installed(*modules: str) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"Dask is not installed: {error}", hint="pip install 'nsysconv[dask]'"
        ) from error


@contextmanager
def _connected(where: str, **how: Any) -> Iterator[Dask]:
    from distributed import Client

    with ExitStack() as ending:
        ending.enter_context(_quiet())
        try:
            client = Client(**how, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"no Dask scheduler answers: {error}",
                where=where,
                hint="Start one: dask scheduler --scheduler-file FILE. Its Dask must be of about the "
                "release of this one.",
            ) from error
        ending.enter_context(client)
        yield Dask(client, where, ending)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's messages on stderr: what matters of them is told in our own words."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _killed(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it has started: its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def main() -> None:
    """The cluster here: writes its address and keys to stdout, and ends with its input."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what workers print must not stand in the pipe
    import dask
    from distributed import LocalCluster

    dask.config.set(
        {
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            "distributed.worker.profile.enabled": False,
            "logging": {"distributed": "critical"},
            "temporary-directory": sys.argv[2],
        }
    )
    with (
        LocalCluster(
            n_workers=int(sys.argv[1]),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            security=True,  # keys of its own: others on this machine can reach the port, too
            memory_limit=None,
            silence_logs=logging.CRITICAL,
            local_directory=sys.argv[2],
        ) as cluster,
        answer,
    ):
        pickle.dump((cluster.scheduler_address, cluster.security), answer)
        answer.flush()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
