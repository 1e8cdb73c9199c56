"""Disturbs commands at random moments and checks what is left: kills, signals, full disks, small limits.

    python faults/inject.py --rounds 500 --seed 1            all scenes and faults in turn
    python faults/inject.py --rounds 50 --fault kill --scene "import, old store"
    python faults/inject.py --again 1:37                     one round again, and what it left

Every round is a process of its own, as a user starts it. What must hold afterwards: what was there before
is there unchanged, or what the command makes is complete; sources are untouched; no traceback; no process
and no temporary file is left (after `kill -9`: by the next command); the same command then works. A full
disk is a small tmpfs where root may mount one, else a limit on the size of files; a read-only folder is a
mount there, else one by its mode. Exit status: 1 with findings.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from disturbing import FAULTS, disturbed, may_mount
from running import Ended, run
from scenes import ANOTHER, SCENES, Scene, State, is_hidden, lay, make_materials, state

_OLD_S = 3600.0
_TOLD_EVERY = 50


class Stage:
    """A folder for the rounds, with what the scenes need, and how each of them ends undisturbed."""

    def __init__(self, folder: Path, size: int) -> None:
        """Make the folder and measure the scenes."""
        # What shells start in the background ignores Ctrl-C, and what it starts would inherit that.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.folder = folder
        self.materials = folder / "materials"

        def nsysconv(*words: str) -> None:
            ended = run(words, self.materials, folder)
            assert ended.status == 0, ended.said

        make_materials(self.materials, nsysconv, size)
        self.start_s = min(run(("--version",), folder, folder).seconds for _ in range(3))
        self._known: dict[str, tuple[State, State, float]] = {}
        self._added: dict[str, State] = {}

    def undisturbed(self, scene: Scene) -> tuple[State, State, float]:
        """Return what the folder holds before and after the command, and how many seconds it takes."""
        if scene.name not in self._known:
            with self.laid(scene) as (place, temporary):
                before = state(place)
                ended = run(scene.words, place, temporary)
                assert ended.status == 0, ended.said
                self._known[scene.name] = before, state(place), ended.seconds
        return self._known[scene.name]

    def another(self, scene: Scene) -> tuple[Sequence[str], State]:
        """Return the second of two writers and what it adds: another file to a store, else the same."""
        if scene.makes is None or not scene.makes.endswith(".db"):
            return scene.words, {}
        words = ("import", str(self.materials / ANOTHER), "-o", scene.makes)
        if scene.makes not in self._added:
            with self.empty() as (place, temporary):
                ended = run(words, place, temporary)
                assert ended.status == 0, ended.said
                self._added[scene.makes] = state(place)
        return words, self._added[scene.makes]

    @contextmanager
    def laid(self, scene: Scene) -> Iterator[tuple[Path, Path]]:
        """Yield a folder with the scene's files, and an empty one for temporary files."""
        with self.empty() as (place, temporary):
            lay(scene, self.materials, place)
            yield place, temporary

    @contextmanager
    def empty(self) -> Iterator[tuple[Path, Path]]:
        """Yield a folder to work in, and one for temporary files."""
        place, temporary = self.folder / "place", self.folder / "temporary"
        for path in (place, temporary):
            path.mkdir()
        try:
            yield place, temporary
        finally:
            for path in (place, temporary):
                shutil.rmtree(path)


# While the interpreter ends, which is after the command has, SIGTERM ends it at once.
_ALLOWED = {
    "kill": {0, -9}, "Ctrl-C": {0, 130}, "SIGTERM": {0, 143, -15}, "reader gone": {0},
    "two writers": {0, 2}, "clock jump": {0}, "no HOME": {0},
}  # fmt: skip
_REFUSED = {0, 2, 3}


def problems(
    stage: Stage, scene: Scene, fault: str, ended: Ended, place: Path, temporary: Path
) -> list[str]:  # fmt: skip
    """Return what is wrong after a disturbed run, and after one more, undisturbed run."""
    before, after, _ = stage.undisturbed(scene)
    found = _output_problems(ended, _ALLOWED.get(fault, _REFUSED))
    if ended.second is not None:
        found += [f"the other one: {each}" for each in _output_problems(ended.second, _ALLOWED[fault])]
        if ended.status and ended.second.status:
            found.append("both were refused")
        if ended.second.status == 0:
            _, added = stage.another(scene)
            # Without anything of its own to add it was the same command.
            before, after = {**before, **added} if added else after, {**after, **added}
    if fault != "kill" and not _crashed(ended) and any(temporary.iterdir()):
        found.append(f"temporary files were left: {[p.name for p in temporary.iterdir()]}")
    if fault != "kill" and not _crashed(ended) and any(place.rglob("*-journal")):
        found.append("a journal was left")
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


def _output_problems(ended: Ended, allowed: Collection[int]) -> list[str]:
    found = []
    if ended.status not in allowed and not _given_up(ended):
        found.append(f"exit status {ended.status}")
    if any(words in ended.said for words in ("Traceback", "Exception ignored", "internal error")):
        found.append("a traceback")
    if ended.status in (130, 143) and ended.said.splitlines()[-1:] != ["nsysconv: interrupted"]:
        found.append("not reported that it was interrupted")
    if ended.status in (2, 3) and not ended.said.strip():
        found.append("refused without a word")
    if ended.lasting:
        found.append("a process was left")
    return found


def _whole(scene: Scene, now: State, before: State, after: State) -> bool:
    if now in (before, after):
        return True
    return scene.steps and now.items() <= after.items() and before.items() <= now.items()


def _next_run(scene: Scene, now: State, after: State, place: Path, temporary: Path) -> list[str]:
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
    return ended.status in (1, 130) and "OpenBLAS" in ended.said


def _crashed(ended: Ended) -> bool:
    return ended.status in (-signal.SIGSEGV, -signal.SIGABRT)


def how(ended: Ended) -> str:
    """Return the end in a word."""
    if ended.status == 0:
        return "done"
    if ended.status in (130, 143):
        return "interrupted"
    if ended.status in (-signal.SIGKILL, -signal.SIGTERM):
        return "killed"
    return "refused" if ended.status in (1, 2, 3) else "crashed"


def rounds(
    stage: Stage, keys: Sequence[tuple[int, int]], faults: Sequence[str], scenes: Sequence[Scene],
) -> Iterator[tuple[str, Scene, str, Ended, list[str]]]:  # fmt: skip
    """Yield the rounds of these seeds and numbers: key, scene, fault, how it ended, problems."""
    mount = may_mount()
    for seed, number in keys:
        chance = random.Random(f"{seed}:{number}")
        scene, fault = chance.choice(scenes), chance.choice(faults)
        seconds, second = stage.undisturbed(scene)[2], stage.another(scene)[0]
        with stage.laid(scene) as (place, temporary):
            ended = disturbed(
                scene, fault, chance, place, temporary, start_s=stage.start_s, seconds=seconds,
                mount=mount, second=second,
            )  # fmt: skip
            found = problems(stage, scene, fault, ended, place, temporary)
        yield f"{seed}:{number}", scene, fault, ended, found


def main() -> int:
    """Run the rounds that the command line asks for; return the exit status."""
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
    for (fault, ending), count in sorted(counts.items()):
        print(f"  {fault:24} {ending:12} {count:6}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
