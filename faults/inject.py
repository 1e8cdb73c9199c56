"""Disturbs commands at random moments and checks what is left: kills, signals, full disks, small limits.

    python faults/inject.py --rounds 500 --seed 1            all scenes and faults in turn
    python faults/inject.py --rounds 50 --fault kill --scene "import, old store"
    python faults/inject.py --again 1:37                     one round again, and what it left

Every round is a process of its own, as a user starts it. What must hold afterwards: what was there before
is there unchanged, or what the command makes is complete; sources are untouched; no traceback; no process
and no temporary file is left (after `kill -9`: by the next command); the same command then works. A full
disk is a small tmpfs where root may mount one, else a limit on the size of files. Exit status: 1 with
findings.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scenes import ROOT, SCENES, Scene, State, is_hidden, lay, make_materials, state

SIGNALS = {"kill": signal.SIGKILL, "Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}
LIMITS = (
    "disk full",
    "temporary folder full",
    "memory",
    "open files",
    "stdout full",
    "reader gone",
)
FAULTS = (*SIGNALS, *LIMITS)

_HANG_S = 300.0
_ENDS_WITHIN_S = 20.0
_OLD_S = 3600.0
_TOLD_EVERY = 50


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status (minus the signal), what it said, how long it took."""

    status: int
    said: str
    seconds: float
    lasting: bool
    """Whether a process of it outlived it."""


class Stage:
    """A folder for the rounds, with what the scenes need, and how each of them ends undisturbed."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.materials = folder / "materials"

        def nsysconv(*words: str) -> None:
            ended = run(words, self.materials, folder)
            assert ended.status == 0, ended.said

        make_materials(self.materials, nsysconv, size)
        self.start_s = min(run(("--version",), folder, folder).seconds for _ in range(3))
        self._known: dict[str, tuple[State, State, float]] = {}

    def undisturbed(self, scene: Scene) -> tuple[State, State, float]:
        """What the folder holds before and after the command, and how long it takes."""
        if scene.name not in self._known:
            with self.laid(scene) as (place, temporary):
                before = state(place)
                ended = run(scene.words, place, temporary)
                assert ended.status == 0, ended.said
                self._known[scene.name] = before, state(place), ended.seconds
        return self._known[scene.name]

    @contextmanager
    def laid(self, scene: Scene) -> Iterator[tuple[Path, Path]]:
        """A folder as the scene wants it, and an empty one for temporary files."""
        place, temporary = self.folder / "place", self.folder / "temporary"
        for path in (place, temporary):
            path.mkdir()
        try:
            lay(scene, self.materials, place)
            yield place, temporary
        finally:
            for path in (place, temporary):
                shutil.rmtree(path)


def run(
    words: Sequence[str], place: Path, temporary: Path, *, after_s: float | None = None,
    number: signal.Signals = signal.SIGKILL, limits: Sequence[tuple[int, int]] = (),
    stdout: int | None = None,
) -> Ended:  # fmt: skip
    """Runs `nsysconv WORDS…`; sends it a signal after a while, or gives it limits."""

    def limit() -> None:
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "nsysconv", *words], cwd=place, env=environment,
            stdin=subprocess.DEVNULL, stdout=said if stdout is None else stdout, stderr=said,
            start_new_session=True, preexec_fn=limit if limits else None,
        )  # fmt: skip
        if after_s is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(after_s)
            process.send_signal(number)
        try:
            status = process.wait(_HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        seconds = time.monotonic() - began
        lasting = _outlived(process.pid)
        said.seek(0)
        return Ended(status, said.read().decode("utf-8", "replace"), seconds, lasting)


def _outlived(group: int) -> bool:
    """Whether processes of the group are there after a while; they are ended then."""
    end = time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[None]:
    """Lays a file system of so many bytes over a folder, what is in it included."""
    kept = folder.with_name(folder.name + "-kept")
    folder.rename(kept)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        yield
        shutil.rmtree(kept)
        shutil.copytree(folder, kept)
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()
        kept.rename(folder)


def may_mount() -> bool:
    """Whether this process can lay a small disk over a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "disk"
        folder.mkdir()
        try:
            with _small_disk(folder, 1 << 20):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False


def _content_bytes(folder: Path) -> int:
    return sum(1 << 12 | path.stat().st_size + 4095 for path in folder.rglob("*"))


def disturbed(
    stage: Stage, scene: Scene, fault: str, chance: random.Random, place: Path, temporary: Path,
    *, mount: bool,
) -> Ended:  # fmt: skip
    """One run of the command, disturbed."""
    seconds = stage.undisturbed(scene)[2]
    if fault in SIGNALS:
        when = chance.uniform(stage.start_s, seconds * 1.05)
        return run(scene.words, place, temporary, after_s=when, number=SIGNALS[fault])
    if fault == "memory":
        limit = (resource.RLIMIT_AS, chance.randrange(150 << 20, 700 << 20))
    elif fault == "open files":
        limit = (resource.RLIMIT_NOFILE, chance.randrange(6, 40))
    elif fault == "stdout full":
        with Path("/dev/full").open("wb") as full:
            return run(scene.words, place, temporary, stdout=full.fileno())
    elif fault == "reader gone":
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return run(scene.words, place, temporary, stdout=writing)
        finally:
            os.close(writing)
    elif mount:
        small = place if fault == "disk full" else temporary
        room = int(2 ** chance.uniform(12, 21))
        with _small_disk(small, _content_bytes(small) + room):
            return run(scene.words, place, temporary)
    else:
        limit = (resource.RLIMIT_FSIZE, int(2 ** chance.uniform(12, 21)))
    return run(scene.words, place, temporary, limits=[limit])


# While the interpreter ends, which is after the command has, SIGTERM ends it at once.
_ALLOWED = {"kill": {0, -9}, "Ctrl-C": {0, 130}, "SIGTERM": {0, 143, -15}, "reader gone": {0}}
_REFUSED = {0, 2, 3}


def problems(
    stage: Stage, scene: Scene, fault: str, ended: Ended, place: Path, temporary: Path
) -> list[str]:  # fmt: skip
    """What should not be after a disturbed run; ends with an undisturbed one."""
    before, after, _ = stage.undisturbed(scene)
    found = []
    if ended.status not in _ALLOWED.get(fault, _REFUSED) and not _given_up(ended):
        found.append(f"exit status {ended.status}")
    if (
        "Traceback" in ended.said
        or "Exception ignored" in ended.said
        or "internal error" in ended.said
    ):
        found.append("a traceback")
    if ended.status in (130, 143) and ended.said.splitlines()[-1:] != ["nsysconv: interrupted"]:
        found.append("not told that it was interrupted")
    if ended.status in (2, 3) and not ended.said.strip():
        found.append("refused without a word")
    if ended.lasting:
        found.append("a process was left")
    if fault != "kill" and not _crashed(ended) and any(temporary.iterdir()):
        found.append(f"temporary files were left: {[p.name for p in temporary.iterdir()]}")
    now = state(place)
    hidden = [name for name in now if is_hidden(name)]
    if hidden and fault != "kill" and not _crashed(ended):
        found.append(f"left: {hidden}")
    now = {name: digest for name, digest in now.items() if name not in hidden}
    if not _whole(scene, now, before, after):
        found.append("neither what was there nor what was to be made")
    if ended.status in (0, -15) and now != after and fault not in ("stdout full", "reader gone"):
        found.append("done, and not complete")
    return found + _next_run(scene, now, after, place, temporary)


def _whole(scene: Scene, now: State, before: State, after: State) -> bool:
    if now in (before, after):
        return True
    return scene.steps and now.items() <= after.items() and before.items() <= now.items()


def _next_run(scene: Scene, now: State, after: State, place: Path, temporary: Path) -> list[str]:
    """The same command once more, which sweeps away what a killed one left."""
    for left in temporary.iterdir():
        old = time.time() - _OLD_S
        os.utime(left, (old, old))
    if scene.words[0] == "export" and scene.makes is not None and now == after:
        made = place / scene.makes
        shutil.rmtree(made) if made.is_dir() else made.unlink()
    ended = run(scene.words, place, temporary)
    found = []
    if ended.status != 0:
        found.append(f"the next run: exit status {ended.status}: {ended.said[-500:]}")
    if state(place) != after:
        found.append("the next run is not complete, or leaves something")
    if scene.temporary and any(temporary.iterdir()):
        found.append("the next run leaves temporary files of the killed one")
    return found


def _given_up(ended: Ended) -> bool:
    """Whether a library ended the process for want of memory and said so."""
    return ended.status == 1 and "OpenBLAS" in ended.said


def _crashed(ended: Ended) -> bool:
    """Whether a library crashed."""
    return ended.status in (-signal.SIGSEGV, -signal.SIGABRT)


def how(ended: Ended) -> str:
    """The end in a word."""
    if ended.status == 0:
        return "done"
    if ended.status in (130, 143):
        return "interrupted"
    return "killed" if ended.status == -9 else "refused" if ended.status in (1, 2, 3) else "crashed"


def rounds(
    stage: Stage, keys: Sequence[tuple[int, int]], faults: Sequence[str], scenes: Sequence[Scene],
) -> Iterator[tuple[str, Scene, str, Ended, list[str]]]:  # fmt: skip
    """The rounds of these seeds and numbers: key, scene, fault, how it ended, problems."""
    mount = may_mount()
    for seed, number in keys:
        chance = random.Random(f"{seed}:{number}")
        scene, fault = chance.choice(scenes), chance.choice(faults)
        stage.undisturbed(scene)
        with stage.laid(scene) as (place, temporary):
            ended = disturbed(stage, scene, fault, chance, place, temporary, mount=mount)
            found = problems(stage, scene, fault, ended, place, temporary)
        yield f"{seed}:{number}", scene, fault, ended, found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=None, help="begin no round after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--scene", choices=[scene.name for scene in SCENES], action="append")
    parser.add_argument("--size", type=int, default=20_000, help="kernels of the large profile")
    parser.add_argument("--again", metavar="SEED:NUMBER", help="one round, with what was said")
    given = parser.parse_args()
    scenes = [scene for scene in SCENES if not given.scene or scene.name in given.scene]
    keys = [(given.seed, number) for number in range(given.rounds)]
    if given.again:
        seed, number = given.again.split(":")
        keys = [(int(seed), int(number))]
    counts: Counter[tuple[str, str]] = Counter()
    bad = 0
    end = time.monotonic() + 60 * (given.minutes or 1e6)
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        stage = Stage(Path(name) / "stage", given.size)
        for key, scene, fault, ended, found in rounds(stage, keys, given.fault or FAULTS, scenes):
            counts[fault, how(ended)] += 1
            bad += bool(found)
            if found or given.again:
                print(f"{key} {scene.name}, {fault}: {'; '.join(found) or 'nothing'}", flush=True)
                print(
                    "\n".join(f"    {line}" for line in ended.said.splitlines()[-30:]), flush=True
                )
            if sum(counts.values()) % _TOLD_EVERY == 0:
                print(f"{sum(counts.values())} rounds, {bad} with findings", flush=True)
            if time.monotonic() > end:
                break
    print(f"seed {given.seed}, {sum(counts.values())} rounds, {bad} with findings")
    for (fault, end), count in sorted(counts.items()):
        print(f"  {fault:24} {end:12} {count:6}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
