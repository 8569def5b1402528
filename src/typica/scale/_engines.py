"""The engines: which ones there are, and how one is opened by its name and address."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, runtime_checkable

from typica.errors import InputError, argument, at, border, given, listed, reason_of
from typica.extras import check_installed

ENGINES = {"dask": "distributed", "ray": "ray", "spark": "pyspark"}  # what each needs
PATIENCE = 5.0  # seconds within which an address has to answer
_PLACE = re.compile(r"(?:[a-z]+://)?(?P<host>[^/:\[\]]+|\[[^\]]+\]):(?P<port>\d+)/?")

Work = Callable[[bytes], bytes]
Merge = Callable[[Iterable[bytes]], bytes]


@runtime_checkable
class Cluster(Protocol):
    """Workers of an engine, which does all the rest: scheduling, retries, moving data.

    Input errors that a worker raises are raised here unchanged.
    """

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""


Engine = str | Cluster


class On(NamedTuple):
    """Where to work: an engine and its address; None is this process."""

    engine: str | None = None
    address: str | None = None


HERE = On()


@border
def check_engine(engine: Engine | None, address: str | None = None) -> None:
    """Refuse an engine that is not known, not installed, or does not answer; start nothing."""
    if engine is None:
        if address is not None:
            wanted = argument("engine", "NAME")
            raise InputError(
                f"{given('address', address)}: of which engine? Pass {wanted} as well, "
                f"one of {listed(ENGINES)}."
            )
        return
    if isinstance(engine, Cluster):
        return
    if not isinstance(engine, str) or engine not in ENGINES:
        raise InputError(f"{given('engine', engine)}: choose one of {listed(ENGINES)}.")
    check_installed(ENGINES[engine], engine)
    if address is not None:
        check_answers(address)


def check_answers(address: str) -> None:
    """Refuse an address of a host and a port at which nobody listens."""
    place = _PLACE.fullmatch(address)
    if place is None:
        return  # another form, which the engine knows: local[2], yarn
    try:
        socket.create_connection((place["host"].strip("[]"), int(place["port"])), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise no_answer(address, error) from None


def no_answer(address: str | None, error: Exception) -> InputError:
    """Return the error of a cluster that cannot be reached, or started."""
    if address is None:
        return InputError(
            f"a local cluster cannot be started ({reason_of(error)}); check the engine's "
            f"installation, or pass {argument('address', 'ADDRESS')} of one that runs."
        )
    return InputError(
        f"{given('address', address)}: does not answer ({reason_of(error)}); check the address, "
        "and that the cluster runs."
    )


class LateCluster:
    """A cluster that is opened when the first work is given to it; `open_engine` makes one."""

    def __init__(self, opening: contextlib.AbstractContextManager[Cluster]) -> None:
        self._opening = opening
        self._open = contextlib.ExitStack()
        self._cluster: Cluster | None = None

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        return self._opened().map(work, tasks)

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
        return self._opened().reduce(work, merge, tasks)

    def _opened(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._open.enter_context(self._opening)
        return self._cluster

    def close(self) -> None:
        """Close the cluster, if it was opened."""
        self._open.close()


@contextlib.contextmanager
def open_engine(engine: Engine, address: str | None = None) -> Iterator[Cluster]:
    """Open an engine for the block: the cluster at an address, or a local one that ends with it.

    It is started when the first work is given to it: by then, errors in the data have been found.
    engine: its name, or a cluster that is open already and stays open.
    """
    with at("open_engine"):  # a border would name it in the errors of the block, too
        check_engine(engine, address)
    if not isinstance(engine, str):
        yield engine
        return
    late = LateCluster(import_module(f"typica.scale.{engine}").connect(address))
    try:
        yield late
    finally:
        late.close()
