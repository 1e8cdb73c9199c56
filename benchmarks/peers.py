"""The programs that nsysconv is measured beside, each in an environment of its own.

    python benchmarks/peers.py            installs those that are missing
    python benchmarks/peers.py nsys-ai    this one

They need other versions of pandas and DuckDB than this project. A job leaves out one that is absent, and
says so. Not among them: nsys2prv (calls `nsys`), AMD's TraceLens (not in the package index), nsys2json
and nsightful (likewise; `chrome_loop` of baselines.py does what they do).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from measure import DATA

HOW = "run `make bench-peers`"


@dataclass(frozen=True)
class Peer:
    """A program: what to install, code that prepares it, code that prints which version can be run."""

    name: str
    requirements: tuple[str, ...]
    check: str
    prepare: str = ""

    @property
    def python(self) -> Path:
        """Return the interpreter of its environment."""
        return DATA / "peers" / self.name / "bin" / "python"

    def install(self) -> None:
        """Make its environment."""
        subprocess.run([sys.executable, "-m", "venv", str(self.python.parent.parent)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.requirements], check=True)
        if self.prepare:
            subprocess.run([str(self.python), "-c", self.prepare], check=True)


# nsys-ai reads exports with DuckDB's extension, which DuckDB otherwise downloads from its own server.
# Without it, it falls back to Python's sqlite3, which is not what its users have.
NSYS_AI = Peer(
    "nsys-ai",
    ("nsys-ai==0.3.0", "duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5"),
    check="import duckdb, importlib.metadata as m\n"
    "duckdb.execute('SET autoinstall_known_extensions = false; LOAD sqlite_scanner')\n"
    "print(f\"nsys-ai {m.version('nsys-ai')} on DuckDB {duckdb.__version__}\")",
    prepare="import duckdb, pathlib, duckdb_extension_sqlite_scanner as e\n"
    "folder = pathlib.Path(e.__file__).parent\n"
    "duckdb.install_extension(str(next(folder.rglob('*.duckdb_extension'))))",
)
HTA = Peer(
    "hta",
    ("HolisticTraceAnalysis==0.5.0", "pandas<3"),
    check="import hta.common.trace, importlib.metadata as m\n"
    "print('HolisticTraceAnalysis', m.version('HolisticTraceAnalysis'))",
)
PEERS = (NSYS_AI, HTA)


@cache
def version(peer: Peer) -> str | None:
    """Return the peer's version; None if it cannot be run."""
    try:
        asked = subprocess.run(
            [str(peer.python), "-c", peer.check], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return asked.stdout.strip().splitlines()[-1] if asked.returncode == 0 else None


def present(peers: tuple[Peer, ...], skipped: list[str]) -> list[Peer]:
    """Return those that can be run; says in `skipped` which cannot."""
    skipped += [f"{peer.name}: not installed ({HOW})" for peer in peers if version(peer) is None]
    return [peer for peer in peers if version(peer)]


def main() -> None:
    """Install what is named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    if unknown := set(names) - {peer.name for peer in PEERS}:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    for peer in PEERS:
        if peer.name in names or (not names and not version(peer)):
            peer.install()
            version.cache_clear()
        print(f"{peer.name}: {version(peer) or 'cannot be run'}")


if __name__ == "__main__":
    main()
