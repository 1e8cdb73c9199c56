"""Fuzzes the importers: damaged files by the thousand, and what must hold for each of them.

    python fuzz/fuzz.py --seconds 300                    all importers in turn
    python fuzz/fuzz.py --seconds 3600 --importer kineto --seed 7
    python fuzz/fuzz.py --again kineto:7:1234            one file again, with what was done to it
    python fuzz/fuzz.py --again kineto:7:1234 --keep x.json --only 0,2    ... and keep it, of these steps

A file is made of its number alone, so a finding is repeated by its key. What is fuzzed runs in a process
of its own: one that hangs, dies or fills the memory is a finding, too. With findings the status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from cases import Case, case
from seeds import IMPORTERS

# Above the limit inside of the process, which can say where it was.
_HANG_SECONDS = 300
_ADDRESS_BYTES = 12 << 30
_REPORTS_EVERY = 8
_TURN = 20
_SHOWN = 3


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first file of each importer"
    )
    parser.add_argument("--importer", choices=IMPORTERS, action="append")
    parser.add_argument("--again", metavar="KEY", help="look at one file again")
    parser.add_argument("--only", help="with --again: steps of damage, such as 0,2")
    parser.add_argument("--keep", type=Path, help="with --again: write the file here")
    parser.add_argument("--out", type=Path, help="write counts and findings as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        return _work()
    if asked.again:
        return _again(asked.again, asked.only, asked.keep)
    return _campaign(
        asked.importer or list(IMPORTERS), asked.seed, asked.first, asked.seconds, asked.out
    )


def _again(key: str, only: str | None, keep: Path | None) -> int:
    importer, seed, number = key.split(":")
    steps = None if only is None else [int(one) for one in only.split(",") if one]
    found = case(importer, int(seed), int(number), only=steps)
    if keep is not None:
        keep.write_bytes(found.content)
        for ending, content in found.beside.items():
            Path(f"{keep}{ending}").write_bytes(content)
    print(found.key, found.name, *found.done, sep="\n  ")
    looked = _looked(found, all_reports=True)
    print(looked["outcome"])
    for one in looked["findings"]:
        print(f"\n{one['promise']}\n{one['detail']}")
    return 1 if looked["findings"] else 0


def _looked(found: Case, *, all_reports: bool) -> dict[str, Any]:
    from oracle import look  # imports all of the program; the parent does without

    looked = look(found, all_reports=all_reports)
    return {
        "key": found.key, "file": found.name, "done": found.done, "outcome": looked.outcome,
        "findings": [{"promise": f.promise, "detail": f.detail, "sign": f.sign} for f in looked.findings],
    }  # fmt: skip


def _work() -> int:
    """Looks at the files whose keys come in, a line each."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        importer, seed, number = line.strip().split(":")
        found = case(importer, int(seed), int(number))
        print(
            json.dumps(_looked(found, all_reports=int(number) % _REPORTS_EVERY == 0)),
            file=out,
            flush=True,
        )
    return 0


class Worker:
    """A process that looks at files."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # A file, because a pipe that nobody reads would fill.
        self._log = TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def look(self, key: str) -> dict[str, object]:
        """What became of a file; a finding where the process hangs or dies over it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{key}\n".encode())
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], _HANG_SECONDS)
        line = stdout.readline() if ready else b""
        if line:
            return dict(json.loads(line))
        promise = "ends in time" if not ready else "no crash"
        self._process.kill()
        status = self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace")[-2500:]
        told = f"{promise}: exit status {status}\n{said}"
        self._log.close()
        self._start()
        return {
            "key": key,
            "outcome": "",
            "findings": [{"promise": promise, "detail": told, "sign": promise}],
        }

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def _keys(importers: list[str], seed: int, first: int, seconds: float) -> Iterator[str]:
    """Files of each importer in turn until the time is over."""
    end, number = time.monotonic() + seconds, first
    while True:
        for importer in importers:
            for place in range(number, number + _TURN):
                if time.monotonic() > end:
                    return
                yield f"{importer}:{seed}:{place}"
        number += _TURN


def _campaign(importers: list[str], seed: int, first: int, seconds: float, out: Path | None) -> int:
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    findings: dict[str, list[dict[str, object]]] = defaultdict(list)
    worker = Worker()
    began = time.monotonic()
    try:
        for key in _keys(importers, seed, first, seconds):
            looked = worker.look(key)
            outcomes[key.split(":")[0]][str(looked["outcome"]) or "neither"] += 1
            for one in looked["findings"]:  # type: ignore[attr-defined]
                known = findings[one["sign"]]
                if not known:
                    print(
                        f"\n{key} {looked.get('file', '')}: {one['promise']} [{one['sign']}]",
                        flush=True,
                    )
                    print(*(f"    {step}" for step in looked.get("done", ())), sep="\n")  # type: ignore[attr-defined]
                    print("    " + one["detail"][-1200:].replace("\n", "\n    "), flush=True)
                known.append({**looked, "findings": [one]})
    except KeyboardInterrupt:
        pass
    finally:
        worker.close()
    for importer in importers:
        counts = outcomes[importer]
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
        print(f"{importer:16} {sum(counts.values()):8,} files: {told}")
    print(f"{time.monotonic() - began:.0f} s, {len(findings)} findings")
    for sign, known in findings.items():
        print(f"  {len(known):6} x {sign}: {', '.join(str(one['key']) for one in known[:_SHOWN])}")
    if out is not None:
        told_all = {"seed": seed, "outcomes": outcomes, "findings": findings}
        out.write_text(json.dumps(told_all, indent=1))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
