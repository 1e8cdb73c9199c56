"""Events of PyTorch beside the CUDA work: operators, collectives, memory, Python functions."""

from __future__ import annotations

from dataclasses import dataclass

from workload import Thread


@dataclass(frozen=True)
class Operator:
    """One operator; `shapes` and `types` are of its inputs, as JSON.

    `sequence` is shared by a forward operator and its backward ones; those name the thread where
    the forward one ran.
    """

    thread: Thread
    name: str
    start_ns: int
    end_ns: int
    shapes: str = "[]"
    types: str = "[]"
    sequence: int | None = None
    forward: Thread | None = None


@dataclass(frozen=True)
class Collective:
    """A collective as it was called; GPU work of the same correlation id ran it.

    In PyTorch it is an operator named `record_param_comms`.
    """

    thread: Thread
    correlation_id: int
    name: str
    start_ns: int
    end_ns: int
    elements: int
    dtype: str
    group: str
    ranks: tuple[int, ...]
    sequence: int


@dataclass(frozen=True)
class Block:
    """Memory taken, or given back where `bytes` is negative; `ordinal` None: the host's."""

    thread: Thread
    time_ns: int
    address: int
    bytes: int
    allocated_bytes: int
    reserved_bytes: int
    ordinal: int | None


@dataclass(frozen=True)
class PythonFunction:
    """A call in the Python code."""

    thread: Thread
    name: str
    start_ns: int
    end_ns: int
    number: int
    parent: int | None


@dataclass(frozen=True)
class Framework:
    """All of it for one process."""

    operators: tuple[Operator, ...] = ()
    collectives: tuple[Collective, ...] = ()
    blocks: tuple[Block, ...] = ()
    functions: tuple[PythonFunction, ...] = ()


NOTHING = Framework()
