"""What functions of the APIs do, by their names."""

from __future__ import annotations

import re

import pytest
from test_names import API_NAMES

from nsysconv.names import WAITS, api_roles, called

ROLES = {name: set(roles.split()) for roles, names in API_NAMES["roles"].items() for name in names}


@pytest.mark.parametrize("name", ROLES)
def test_the_roles_of_a_function(name: str) -> None:
    assert {role for role in api_roles() if called(role)(name)} == ROLES[name]


def test_several_roles_are_asked_for_at_once() -> None:
    names = ("cudaStreamSynchronize", "cuEventSynchronize", "cuInit")
    assert [bool(called(*WAITS)(name)) for name in names] == [True, True, False]
    with pytest.raises(KeyError):
        called("waits")


def test_every_pattern_is_of_use() -> None:
    unused = [
        pattern
        for role, patterns in api_roles().items()
        for pattern in patterns
        if not any(re.match(pattern, name) for name, roles in ROLES.items() if role in roles)
    ]
    assert unused == []
