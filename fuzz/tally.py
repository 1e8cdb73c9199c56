"""Tallies over many files: counts by class, time and memory by step, findings and their files."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from cases import case

_SHOWN = 1200


class Tally:
    """Adds up what became of files; `kept` is the folder that files with findings are kept in."""

    def __init__(self, kept: Path) -> None:
        """Begin with nothing counted."""
        self._kept = kept
        self._outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self._steps: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
        self._slowest: dict[tuple[str, bool], tuple[float, str]] = {}
        self._fattest: dict[tuple[str, bool], tuple[float, str]] = {}
        self.findings: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, looked: dict[str, Any]) -> None:
        """Add a file; print what is found for the first time, and keep that file."""
        key = looked["key"]
        counts = self._outcomes[key.split(":")[0]]
        counts["files"] += 1
        counts[looked["outcome"] or "neither"] += 1
        counts["by commands"] += looked.get("by_commands", False)
        for kind, by_command, seconds, memory in looked.get("steps", ()):
            step = (kind, by_command)
            self._steps[step]["times"] += 1
            self._slowest[step] = max(self._slowest.get(step, (0.0, "")), (seconds, key))
            self._fattest[step] = max(self._fattest.get(step, (0.0, "")), (memory, key))
        for finding in looked["findings"]:
            known = self.findings[finding["sign"]]
            if not known:
                self._print_finding(looked, finding)
            known.append({"key": key, **finding})

    def _print_finding(self, looked: dict[str, Any], finding: dict[str, str]) -> None:
        folder = self._keep(looked["key"])
        report = "\n".join([f"{looked['key']} {looked.get('file', '')}", *looked.get("done", ())])
        report = f"{report}\n{finding['promise']} [{finding['sign']}]\n{finding['detail']}\n\n"
        with (folder / "finding.txt").open("a") as out:
            out.write(report)
        print(f"\n{report[:_SHOWN]}\n{again(looked['key'])}  # {folder}", flush=True)

    def _keep(self, key: str) -> Path:
        kind, seed, number = key.split(":")
        folder = self._kept / key.replace(":", "-")
        if not folder.exists():
            folder.mkdir(parents=True)
            found = case(kind, int(seed), int(number))
            for ending, content in {"": found.content, **found.beside}.items():
                (folder / f"{found.name}{ending}").write_bytes(content)
        return folder

    def table(self, seconds: float) -> str:
        """Return the summary as Markdown."""
        files = sum(counts["files"] for counts in self._outcomes.values())
        lines = [
            "",
            "| class | files | imported | refused | by commands, too |",
            "|---|---:|---:|---:|---:|",
        ]
        for kind, counts in self._outcomes.items():
            cells = (counts[what] for what in ("files", "imported", "refused", "by commands"))
            lines.append(f"| {kind} | {' | '.join(f'{cell:,}' for cell in cells)} |")
        lines += [
            "",
            "| step | times | slowest | file | most memory | file |",
            "|---|---:|---:|---|---:|---|",
        ]
        for step in sorted(self._steps, key=lambda step: (not step[1], step[0])):
            kind, by_command = step
            slow, fat = self._slowest[step], self._fattest[step]
            memory = f"{int(fat[0]) >> 20:,} MiB | {fat[1]}" if fat[0] else " | "
            lines.append(f"| {'nsysconv: ' * by_command}{kind} | {self._steps[step]['times']:,} | "
                         f"{slow[0]:.1f} s | {slow[1]} | {memory} |")  # fmt: skip
        lines += ["", f"{files:,} files in {seconds:,.0f} s, {len(self.findings)} findings"]
        for sign, known in self.findings.items():
            lines.append(
                f"  {len(known)} x {known[0]['promise']} [{sign}]: {again(known[0]['key'])}"
            )
        if self.findings:
            lines.append(f"Their files are in {self._kept}.")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write the tally as JSON."""
        document = {"outcomes": self._outcomes, "findings": self.findings}
        path.write_text(json.dumps(document, indent=1))


def again(key: str) -> str:
    """Return the command that repeats a finding."""
    return f"python fuzz/fuzz.py --again {key}"
