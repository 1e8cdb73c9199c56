"""Whose GPUs a profile is of, by their names and by those of API calls."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nsysconv.store.text_tests import begins
from nsysconv.timeline.timeline import Timeline

AMD = "AMD"
_AMD = re.compile(r"AMD|Instinct|Radeon|gfx[0-9]", re.IGNORECASE)
# Kernels of HIP's runtime, and of the library of matrix products on AMD's GPUs.
_OF_HIP = ("__amd_rocclr_", "Cijk_")
_INTEL = re.compile("Intel", re.IGNORECASE)


def model_name(name: str) -> str:
    """Return what a GPU is called by all drivers: newer ones put the vendor before it."""
    return name.removeprefix("NVIDIA ")


def vendors(timeline: Timeline) -> frozenset[str]:
    """Return the vendors of the GPUs whose names are recorded, such as AMD and NVIDIA."""
    return vendors_of(row["name"] for row in timeline.profile.rows("device"))


def vendors_of(names: Iterable[str | None]) -> frozenset[str]:
    """Return the vendors of GPUs by their product names; None, a name that is not recorded, has none."""
    return frozenset(
        AMD if _AMD.search(name) else "Intel" if _INTEL.search(name) else "NVIDIA"
        for name in names
        if name
    )


def is_of_amd(timeline: Timeline) -> bool:
    """Return whether the GPUs are AMD's, as far as that is recorded.

    Where GPUs have no names, calls of HIP, or kernels of its runtime and libraries, show it.
    """
    if found := vendors(timeline):
        return found == {AMD}
    calls = timeline.call_names.values()
    return any(name.startswith("hip") for name in calls) or any(
        timeline.profile.names_that(begins(prefix)) for prefix in _OF_HIP
    )


def vendors_differ(base: Iterable[Timeline], other: Iterable[Timeline]) -> bool:
    """Return whether no vendor has GPUs on both sides, as far as both sides record what they are."""
    first, second = (frozenset[str]().union(*map(vendors, side)) for side in (base, other))
    return bool(first and second) and not first & second
