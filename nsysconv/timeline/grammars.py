"""What annotations of frameworks say: a step, a phase or a layer, its requests and tokens.

The rules are in grammars.toml beside this module, which users can put their own before. It says how they
are written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nsysconv.errors import UsageError
from nsysconv.timeline.rule_files import check_keys, compiled, read_rules

STEP, PHASE, LAYER = KINDS = ("step", "phase", "layer")
"""What an annotation may be of: a pass of the program, a part of a pass, a module of the model."""

PREFILL, DECODE, MIXED, IDLE, TRAIN = "prefill", "decode", "mixed", "idle", "train"
"""Phases that follow from the requests of a step, and that of a whole step of a training."""

_NAMES = {"phase", "layer"}
_COUNTS = {"context", "generation", "context_tokens", "generation_tokens", "requests", "tokens"}
_NUMBERS = _COUNTS | {"number"}
_KEYS = {"framework", "is", "holds", "pattern", "phase", "phases", "one_token_each"}
_FORM = (
    """A rule is `[[rule]]` with `framework = "…"`, `is = "step"`, "phase" or "layer", and """
    """`pattern = '…'`; `phase = "…"`, or groups of the pattern such as `(?P<phase>…)`, say the phase."""
)
# Numbers with more digits are none that a program counts.
_MOST_DIGITS = 15
# A pattern may look at a text many times over.
_LONGEST = 2_000


@dataclass(frozen=True)
class Annotation:
    """What the text of an annotation says; None: it does not.

    `kind` is one of KINDS. `requests` are those of the step, in prefill or in decode, and `tokens` the
    new ones that it computes. `number` is which step it is, or which layer.
    """

    framework: str
    kind: str
    phase: str | None = None
    requests: int | None = None
    tokens: int | None = None
    layer: str | None = None
    number: int | None = None

    @property
    def is_step(self) -> bool:
        """Return whether it is a whole pass of the program."""
        return self.kind == STEP


@dataclass(frozen=True)
class Rule:
    """A form of annotations; grammars.toml says what the fields mean."""

    framework: str
    kind: str
    pattern: re.Pattern[str]
    holds: str = ""
    phase: str | None = None
    phases: Mapping[str, str] | None = None
    one_token_each: bool = False

    def read(self, text: str) -> Annotation | None:
        """Return what a text says, None if it is of another form."""
        found = self.pattern.search(text)
        if found is None:
            return None
        said = {name: value for name, value in found.groupdict().items() if value is not None}
        count = {
            name: int(said[name])
            for name in _NUMBERS & said.keys()
            if said[name].isdecimal() and len(said[name]) <= _MOST_DIGITS
        }
        phase, requests, tokens = self.phase, count.get("requests"), count.get("tokens")
        by_requests = {"context", "generation"} & said.keys()
        if "phase" in said:
            phase = (self.phases or {}).get(said["phase"], said["phase"].lower())
        elif by_requests and by_requests <= count.keys():
            context, generation = count.get("context", 0), count.get("generation", 0)
            requests = context + generation
            phase = phase or _phase(context, generation)
            tokens = self._tokens(count) if tokens is None else tokens
        if not phase and self.kind != LAYER:
            return None
        layer, number = said.get("layer"), count.get("number")
        return Annotation(self.framework, self.kind, phase, requests, tokens, layer, number)

    def _tokens(self, count: Mapping[str, int]) -> int | None:
        total = 0
        for part in ("context", "generation"):
            tokens = count.get(f"{part}_tokens")
            if tokens is None and count.get(part):
                if part == "context" or not self.one_token_each:
                    return None
                tokens = count[part]
            total += tokens or 0
        return total


def _phase(context: int, generation: int) -> str:
    if context and generation:
        return MIXED
    if context:
        return PREFILL
    return DECODE if generation else IDLE


@dataclass(frozen=True)
class Grammar:
    """Forms of annotations in the order in which they are tried."""

    rules: tuple[Rule, ...]

    def read(self, text: str) -> Annotation | None:
        """Return what the text of an annotation says, None if no rule fits."""
        text = text[:_LONGEST]
        for rule in self.rules:
            if rule.holds in text and (found := rule.read(text)) is not None:
                return found
        return None

    @property
    def frameworks(self) -> list[str]:
        """Return the frameworks whose steps and phases are known, each once."""
        return list(dict.fromkeys(rule.framework for rule in self.rules if rule.kind != LAYER))


def grammar(path: str | None = None) -> Grammar:
    """Return our grammar, the rules of a file before it; raise UsageError for a file without rules."""
    return _own() if path is None else Grammar((*users_grammar(path).rules, *_own().rules))


def users_grammar(path: str) -> Grammar:
    """Return the rules of a file; raise UsageError for a file without rules."""
    return Grammar(tuple(_rules(read_rules(path, "annotations", _FORM), path)))


@cache
def _own() -> Grammar:
    file = Path(__file__).with_suffix(".toml")
    return Grammar(
        tuple(_rules(tomllib.loads(file.read_text(encoding="utf-8"))["rule"], file.name))
    )


def _rules(found: list[Any], path: str) -> Iterator[Rule]:
    for number, rule in enumerate(found, 1):
        place = f"{path}, rule {number}"
        if not isinstance(rule, dict):
            raise UsageError("no table", where=place, hint=_FORM)
        check_keys(rule, _KEYS, place, _FORM)
        yield _rule(rule, place)


def _rule(rule: Mapping[str, Any], place: str) -> Rule:
    for key in ("framework", "is", "holds", "phase"):
        if not isinstance(rule.get(key, ""), str):
            raise UsageError(f"{key} is no text", where=place, hint=_FORM)
    if not rule.get("framework"):
        raise UsageError("no framework", where=place, hint=_FORM)
    if rule.get("is") not in KINDS:
        raise UsageError(f"`is` has to be one of {', '.join(KINDS)}", where=place, hint=_FORM)
    phases = rule.get("phases", {})
    if not isinstance(phases, dict) or not all(isinstance(each, str) for each in phases.values()):
        raise UsageError("phases is no table of texts", where=place, hint=_FORM)
    if not isinstance(rule.get("one_token_each", False), bool):
        raise UsageError("one_token_each is neither true nor false", where=place, hint=_FORM)
    pattern = compiled(rule.get("pattern"), f"{place}, pattern")
    _check_groups(rule, pattern, place)
    own = {key: rule[key] for key in ("holds", "phase", "phases", "one_token_each") if key in rule}
    return Rule(rule["framework"], rule["is"], pattern, **own)


def _check_groups(rule: Mapping[str, Any], pattern: re.Pattern[str], place: str) -> None:
    groups = set(pattern.groupindex)
    unknown = sorted(groups - _NAMES - _NUMBERS)
    if unknown:
        known = ", ".join(sorted(_NAMES | _NUMBERS))
        raise UsageError(f"unknown group {unknown[0]!r}", where=place, hint=f"Known: {known}.")
    if rule["is"] == LAYER:
        if "layer" not in groups:
            hint = "A layer's name is the group `(?P<layer>…)` of the pattern."
            raise UsageError("no layer in its pattern", where=place, hint=hint)
    elif not rule.get("phase") and not groups & {"phase", "context", "generation"}:
        raise UsageError(f"nothing says the phase of this {rule['is']}", where=place, hint=_FORM)
