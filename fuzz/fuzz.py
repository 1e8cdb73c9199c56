"""Fuzzes nsysconv: damaged and odd files by the thousand, and what must hold for each of them.

    python fuzz/fuzz.py --seconds 300                    all classes of files in turn
    python fuzz/fuzz.py --seconds 3600 --jobs 2 --seed 7
    python fuzz/fuzz.py --seconds 600 --kind kineto --kind nesting
    python fuzz/fuzz.py --again kineto:7:1234            one file again, with what was done to it
    python fuzz/fuzz.py --again kineto:7:1234 --write x.json --only 0,2    ... written, of these steps

A file is made of its number alone, so a finding is repeated by its key; the file itself is kept in the
folder --keep. Every file is looked at by the library, in a process of its own, and some by commands, too.
Classes have equal shares of the time. With findings the status is 1.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# pytest has them in its path.
sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

from cases import KINDS, case
from tally import Tally
from workers import Worker, looked_at, work


def main() -> int:
    """Return the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=1, help="files at a time: cores to use")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first file of each class"
    )
    parser.add_argument("--kind", choices=KINDS, action="append", help="this class of files only")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-findings"), help="folder of findings"
    )
    parser.add_argument("--again", metavar="KEY", help="look at one file again")
    parser.add_argument("--only", help="with --again: steps of damage, such as 0,2")
    parser.add_argument("--write", type=Path, help="with --again: write the file here")
    parser.add_argument("--out", type=Path, help="write counts and findings as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        return work()
    if asked.again:
        return _again(asked.again, asked.only, asked.write)
    tally = Tally(asked.keep)
    turns = Turns(asked.kind or KINDS, asked.seed, asked.first, asked.seconds)
    began = time.monotonic()
    with ThreadPoolExecutor(asked.jobs) as pool:
        for done in [pool.submit(turns.take, tally) for _ in range(asked.jobs)]:
            done.result()
    print(tally.table(time.monotonic() - began))
    if asked.out is not None:
        tally.save(asked.out)
    return 1 if tally.findings else 0


def _again(key: str, only: str | None, written: Path | None) -> int:
    kind, seed, number = key.split(":")
    steps = None if only is None else [int(one) for one in only.split(",") if one]
    found = case(kind, int(seed), int(number), only=steps)
    if written is not None:
        for ending, content in {"": found.content, **found.beside}.items():
            Path(f"{written}{ending}").write_bytes(content)
    print(found.key, found.name, *found.done, sep="\n  ")
    looked = looked_at(found, always=True)
    print(looked["outcome"])
    for one in looked["findings"]:
        print(f"\n{one['promise']} [{one['sign']}]\n{one['detail']}")
    return 1 if looked["findings"] else 0


class Turns:
    """Yield the next file of the class that has taken the least time so far."""

    def __init__(self, kinds: Sequence[str], seed: int, first: int, seconds: float) -> None:
        """Take the options of the run."""
        self._lock = threading.Lock()
        self._spent = dict.fromkeys(kinds, 0.0)
        self._next = dict.fromkeys(kinds, first)
        self._seed = seed
        self._end = time.monotonic() + seconds

    def take(self, tally: Tally) -> None:
        """Have files looked at one after the other, until the time is over."""
        worker = Worker()
        try:
            while (began := time.monotonic()) < self._end:
                with self._lock:
                    kind = min(self._spent, key=lambda one: self._spent[one])
                    key = f"{kind}:{self._seed}:{self._next[kind]}"
                    self._next[kind] += 1
                    self._spent[kind] += 1e-3  # another one's turn, if all wait
                looked = worker.look(key)
                with self._lock:
                    self._spent[kind] += time.monotonic() - began
                    tally.add(looked)
        except KeyboardInterrupt:
            pass
        finally:
            worker.close()


if __name__ == "__main__":
    sys.exit(main())
