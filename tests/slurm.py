"""A Slurm of one node for tests: munge, controller and node daemon on loopback, in their own folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo")
CPUS = 16
"""As many as the node says it has; tests start up to eight tasks whatever there is."""

_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# Containers have no cgroups to hand out.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=20
# As many as examples ask for; there are none behind them.
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class CannotRun(Exception):  # noqa: N818 - says why a test is left out
    """Slurm cannot be run here, and the text says why."""


@contextlib.contextmanager
def running() -> Iterator[Mapping[str, str]]:
    """Starts Slurm; gives the environment that its commands need. Raises CannotRun."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        raise CannotRun(f"no {missing[0]}; .ci/install-system installs Slurm")
    if os.geteuid() != 0:
        raise CannotRun("slurmd needs root to start jobs")
    # Names of sockets are short: pytest's folders would be too long.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        environment = _configured(folder)
        munge = [f"--{kind}={folder}/munge.{kind.partition('-')[0]}" for kind in (
            "key-file", "socket", "log-file", "pid-file", "seed-file")]  # fmt: skip
        configuration = environment["SLURM_CONF"]
        for name, *arguments in (
            ["munged", "--foreground", "--force", *munge],
            ["slurmctld", "-D", "-c", "-f", configuration],
            ["slurmd", "-D", "-N", _host(), "-f", configuration],
        ):
            with (folder / f"{name}.out").open("wb") as said:
                daemons.append(subprocess.Popen(
                    [str(_program(name)), *arguments], env=environment, stdin=subprocess.DEVNULL,
                    stdout=said, stderr=said,
                ))  # fmt: skip
            if name == "munged":
                _until(lambda: (folder / "munge.socket").exists(), daemons, folder)
        _until(lambda: _idle(environment), daemons, folder)
        yield environment
    finally:
        if daemons:
            subprocess.run(
                ["scancel", "--signal=KILL", "--user=root"], env=environment, check=False,
                capture_output=True, timeout=30,
            )  # fmt: skip
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _configured(folder: Path) -> dict[str, str]:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            host=_host(), folder=folder, cpus=CPUS, controller_port=_port(), node_port=_port()
        )
    )
    for number in range(8):
        (folder / f"gpu{number}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-7]\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    return {**environment, "SLURM_CONF": str(configuration)}


def _until(ready: object, daemons: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Waits until it is ready. Raises CannotRun with what the daemons said last."""
    end = time.monotonic() + 60
    while not ready():  # type: ignore[operator]
        dead = any(daemon.poll() is not None for daemon in daemons)
        if dead or time.monotonic() > end:
            logs = sorted([*folder.glob("*.log"), *folder.glob("*.out")])
            last = [f"{p.name}: {line}" for p in logs
                    for line in p.read_text(errors="replace").splitlines()[-2:]]  # fmt: skip
            raise CannotRun("Slurm does not start: " + "; ".join(last))
        time.sleep(0.1)


def _idle(environment: Mapping[str, str]) -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"], env=environment, capture_output=True, check=False
    )
    return done.stdout.strip() == b"idle"


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
