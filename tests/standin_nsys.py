#!/usr/bin/env python3
"""Stands in for nsys and nvprof in tests: options, names, statuses and files as theirs, and their faults.

Put under the name `nsys` or `nvprof` into a folder of PATH. Its report holds the profile in the file
STANDIN_FIXTURE; nobody's GPU is looked at. STANDIN_FAULTS says which ranks meet which fault, such as
`2:killed 5:no-report *:slow`:

    killed       killed by SIGKILL while it finishes its report, as by a job that is out of time or memory
    no-report    ends without a report and says nothing
    clash        its report's name is taken when it comes to write it; the data stay in a temporary file
    full         the disk is full: half a report, and a complaint
    truncated    half a report, and no complaint
    unfinished   records, but cannot make a report of it: a .qdstrm file is left
    slow         takes three seconds to finish its report
    deaf         does not end, whatever signal it gets
    export-fails, export-hangs, export-killed    what nsys export does
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

MAGIC = b"NSYS-STANDIN\0"
VERSION = "NVIDIA Nsight Systems version 2026.2.1.91-262137639846v0"
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID")


def faults() -> set[str]:
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "none")
    pairs = (item.split(":") for item in os.environ.get("STANDIN_FAULTS", "").split())
    return {fault for whose, fault in pairs if whose in (rank, "*")}


def fail(text: str, status: int = 1) -> None:
    print(text, file=sys.stderr)
    sys.exit(status)


def expanded(pattern: str, pid: int) -> str:
    def value(part: re.Match[str]) -> str:
        if part[1] is not None:
            if part[1] not in os.environ:
                fail(f"The environment variable '{part[1]}' is not set.")
            return os.environ[part[1]]
        return {"h": socket.gethostname(), "p": str(pid), "%": "%"}[part[2]]

    return re.sub(r"%(?:q\{([^}]*)\}|([hp%]))", value, pattern)


def recording(pid: int) -> bytes:
    """The profile as it were recorded now: its environment and its time are this process's."""
    source = Path(os.environ["STANDIN_FIXTURE"])
    own = Path(temporary()) / f"standin-{pid}.sqlite"
    shutil.copyfile(source, own)
    own.chmod(0o600)
    with sqlite3.connect(own) as db:
        db.execute("DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE'")
        rows = [("PROCESS_0:ENVIRONMENT_VARIABLE", f"{k}={v}") for k, v in os.environ.items()]
        db.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", rows)
        db.execute("DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'")
        db.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'",
                   (socket.gethostname(),))  # fmt: skip
        db.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (time.time_ns(),))
    db.close()
    data = own.read_bytes()
    own.unlink()
    return data


def report_of(profile: bytes) -> bytes:
    packed = zlib.compress(profile, 1)
    return MAGIC + len(packed).to_bytes(8, "little") + packed


def profile_of(report: bytes) -> bytes:
    length = int.from_bytes(report[len(MAGIC) : len(MAGIC) + 8], "little")
    packed = report[len(MAGIC) + 8 :]
    if not report.startswith(MAGIC) or len(packed) != length:
        fail("Error: the report is damaged: unexpected end of file.")
    return zlib.decompress(packed)


def temporary() -> str:
    folder = Path(os.environ.get("NSYS_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
    folder = folder / "nvidia" / "nsight_systems"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


class Options:
    """What a line asks for. As in nsys, every option but help takes a value."""

    def __init__(self, arguments: list[str], flags: tuple[str, ...] = ()) -> None:
        self.output: str | None = None
        self.log: str | None = None
        self.force = False
        self.kill = "sigterm"
        self.export = ""
        index = 0
        while index < len(arguments) and arguments[index].startswith("-"):
            argument = arguments[index]
            if argument == "--":
                index += 1
                break
            name, sign, value = argument.partition("=") if argument[:2] == "--" else (
                argument[:2], argument[2:], argument[2:])  # fmt: skip
            if not sign and name not in flags:
                index += 1
                if index == len(arguments):
                    fail(f"the required argument for option '{name}' is missing")
                value = arguments[index]
            index += 1
            if name in ("-o", "--output", "--export-profile"):
                self.output = value
            elif name == "--log-file":
                self.log = value
            elif name in ("-f", "--force-overwrite"):
                self.force = name in flags or value == "true"
            elif name == "--kill":
                self.kill = value
            elif name == "--export":
                self.export = value
        self.program = arguments[index:]
        if not self.program:
            fail("Usage: nsys profile [options] [application] [application arguments]")


class Target:
    """The program. Signals make this process end it and go on to the report."""

    def __init__(self, options: Options, own: set[str]) -> None:
        self.kill = getattr(signal, options.kill.upper(), signal.SIGTERM)
        self.own = own
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.process = subprocess.Popen(options.program)
        except OSError as error:
            fail(f"Failed to execute {options.program[0]}: {error.strerror}")

    def stop(self, number: int, frame: object) -> None:
        if "deaf" not in self.own and self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.kill)

    def wait(self) -> int:
        assert self.process is not None
        status = self.process.wait()
        while "deaf" in self.own:
            time.sleep(60)
        return status if status >= 0 else 128 - status


def profile(arguments: list[str]) -> int:
    options, own = Options(arguments, ("-h", "--help")), faults()
    target = Target(options, own)
    assert target.process is not None
    pid = target.process.pid
    status = target.wait()
    if "killed" in own:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    if "slow" in own:
        time.sleep(3)
    if "no-report" in own:
        return status
    report = report_of(recording(pid))
    stream = Path(temporary()) / f"nsys-report-{pid}.qdstrm"
    stream.write_bytes(report)
    print(f"Generating '{stream}'", flush=True)
    if "unfinished" in own:
        print("Failed to convert the recording. It was left as .qdstrm.", file=sys.stderr)
        return status
    path = named(options, pid)
    if "clash" in own:
        path.write_bytes(b"another rank's")
    if path.exists() and not options.force:
        # The data stay where they are, under the suffix of a report.
        stream.rename(stream.with_suffix(".nsys-rep"))
        print(f"Failed to create '{path}': File exists.", file=sys.stderr)
        return status or 1
    stream.unlink()
    if own & {"full", "truncated"}:
        path.write_bytes(report[: len(report) // 2])
        if "full" in own:
            fail(f"Failed to write '{path}': No space left on device", status or 1)
        return status
    path.write_bytes(report)
    print(f"Generated:\n    {path}", flush=True)
    if options.export == "sqlite":
        path.with_suffix(".sqlite").write_bytes(profile_of(report))
    return status


def named(options: Options, pid: int) -> Path:
    if options.output is None:
        number = 1
        while Path(f"report{number}.nsys-rep").exists():
            number += 1
        return Path(f"report{number}.nsys-rep").absolute()
    name = expanded(options.output, pid)
    return Path(name if name.endswith((".nsys-rep", ".qdrep")) else name + ".nsys-rep").absolute()


def export(arguments: list[str]) -> int:
    own = faults()
    if "export-fails" in own:
        fail("Error: the report was made by a newer version.")
    if "export-hangs" in own:
        time.sleep(3600)
    if "export-killed" in own:
        os.kill(os.getpid(), signal.SIGKILL)
    values = {}
    names = {"-o": "--output", "-t": "--type", "-f": "--force-overwrite"}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        name, sign, value = arguments[index].partition("=")
        if not sign:
            index += 1
            value = arguments[index]
        values[names.get(name, name)] = value
        index += 1
    (source,) = map(Path, arguments[index:])
    target = Path(values.get("--output", source.with_suffix(".sqlite")))
    if values.get("--type") != "sqlite":
        fail("only --type sqlite is known here")
    if target.exists() and values.get("--force-overwrite") != "true":
        fail(f"Failed to create '{target}': File exists.")
    target.write_bytes(profile_of(source.read_bytes()))
    return 0


def nvprof(arguments: list[str]) -> int:
    flags = ("-f", "--force-overwrite", "--csv", "--print-gpu-trace", "--profile-child-processes")
    options = Options(arguments, flags)
    target = Target(options, faults())
    assert target.process is not None
    pid = target.process.pid
    text = f"=={pid}== NVPROF is profiling process {pid}, command: {options.program[0]}\n"
    status = target.wait()
    if options.output is not None:
        path = Path(expanded(options.output, pid))
        if path.exists() and not options.force:
            fail(f"======== Error: Could not create profile file {path}: File exists", status or 1)
        shutil.copyfile(os.environ["STANDIN_FIXTURE"], path)
        text += f"=={pid}== Generated result file: {path}\n"
    if options.log is None:
        sys.stderr.write(text)
    else:
        Path(expanded(options.log, pid)).write_text(text, encoding="utf-8")
    return status


def main() -> None:
    name, *arguments = sys.argv
    if Path(name).name == "nvprof":
        sys.exit(nvprof(arguments))
    commands = {"profile": profile, "export": export}
    if arguments[:1] in (["--version"], ["-v"]):
        print(VERSION)
    elif arguments and arguments[0] in commands:
        sys.exit(commands[arguments[0]](arguments[1:]))
    else:
        fail("Usage: nsys [--version] [--help] <command> [<args>] [application] [<application args>]")


if __name__ == "__main__":
    main()
