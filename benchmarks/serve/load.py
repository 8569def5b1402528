"""A bounded load test of `typica serve` on loopback: `make bench-serve`.

Images go through DenseNet-BC-100 one by one, as a service gets them.
Throughput at saturation beside a bare Python loop with the same network and detector, the time of
single requests beside the bare forward pass, a server that is killed, and a detector that is
replaced a hundred times under load. Numbers are ratios to what was measured in the same run, in
turns. Nothing is sent anywhere but to this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS))

from helpers.real import REAL  # noqa: E402
from helpers.serving import HOST, Serving, eventually, form, serving  # noqa: E402

CHECKPOINT = REAL / "checkpoints" / "densenet-bc-100-cifar10.pth.tar"
PHOTOS = REAL / "images" / "cifar10-train-2000.npz"
MODEL = "densenet-bc-100"
AT_ONCE = 8  # images of a batch, as the server's default
BATCHES = (4, 8, 16)  # images at once of the bare loop; in each turn its fastest counts
CLIENTS = 24  # that ask at the same time
SATURATION = 0.9  # of the bare loop's throughput, at least
SECONDS = 600  # that no part may take


class Bare(NamedTuple):
    """What a bare loop reached: images a second in batches, and the seconds of single images."""

    rate: float
    seconds: list[float]


def main() -> None:
    """Run every part, and say what was reached; exit with 1 where something was missed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=5, help="Turns of loop and server.")
    asked.add_argument("--images", type=int, default=240, help="Of one turn.")
    asked.add_argument("--singles", type=int, default=200, help="Single requests, one by one.")
    asked.add_argument("--replaced", type=int, default=100, help="Times that the file is replaced.")
    asked.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    chosen = asked.parse_args()
    if chosen.bare:
        run_bare(*map(Path, chosen.bare))
        return
    good = True
    with tempfile.TemporaryDirectory(prefix="typica-bench-") as name:
        folder = Path(name)
        detector, photos = prepare(folder)
        with serving(detector) as server, bare_loop(folder, detector) as loop:
            good &= saturation(server, loop, photos, chosen)
            single(server, loop, photos, chosen)
            good &= replaced(server, detector, photos, chosen.replaced)
        good &= killed(detector, photos)
    sys.exit(not good)


def prepare(folder: Path) -> tuple[Path, list[bytes]]:
    """Write a detector on the network, and return its file and images to send."""
    from typica import CTM  # noqa: PLC0415 (a process that is a bare loop needs less)
    from typica.nets import Settings, extract  # noqa: PLC0415

    weights: Any = CHECKPOINT if CHECKPOINT.is_file() else random_weights(folder)
    if PHOTOS.is_file():
        with np.load(PHOTOS) as file:
            images, labels = file["images"], file["labels"]
    else:
        rng = np.random.default_rng(0)
        images, labels = (
            rng.integers(256, size=(600, 32, 32, 3), dtype=np.uint8),
            np.arange(600) % 10,
        )
    known = "CIFAR-10" if PHOTOS.is_file() else "noise"
    trained = "trained" if CHECKPOINT.is_file() else "random"
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{MODEL} with {trained} weights, images of {known}, {machine}")
    settings = Settings(backend="torch", batch=AT_ONCE)
    bank = extract(
        images[:400],
        MODEL,
        folder / "known.bank",
        weights=weights,
        labels=labels[:400],
        settings=settings,
    )
    detector = CTM().fit(bank)
    detector.calibrate(np.asarray(bank.features)[::2]).save(folder / "ctm.safetensors")
    photos = [encoded(image) for image in images[400:600]]
    np.savez(folder / "photos.npz", *[np.frombuffer(photo, np.uint8) for photo in photos])
    return folder / "ctm.safetensors", photos


def random_weights(folder: Path) -> Path:
    """Write weights as they are before training, which cost as much to run."""
    import torch  # noqa: PLC0415

    from typica.nets import zoo  # noqa: PLC0415

    torch.save(zoo.load(MODEL, "random").state_dict(), folder / "random.pth")
    return folder / "random.pth"


def encoded(image: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


# The bare loop: the same network, detector and images, in a process of its own.


def run_bare(detector: Path, photos: Path) -> None:
    """Do what each line of standard input asks for, and print the seconds that it took."""
    from typica.data import decode  # noqa: PLC0415
    from typica.decide import judge, load_detector, origin_of  # noqa: PLC0415
    from typica.nets import reopen, rows_of  # noqa: PLC0415

    estimator = load_detector(detector)
    opened, transform = reopen(origin_of(estimator))
    with np.load(photos) as file:
        files = [file[name].tobytes() for name in file.files]

    def look(some: list[bytes]) -> None:
        pixels = [transform.pixels(decode(one)) for one in some]
        judge(estimator, rows_of(opened, pixels, transform, estimator))

    look(files[:AT_ONCE])
    print("ready", flush=True)
    for line in sys.stdin:
        count, at_once = map(int, line.split())
        given = list(itertools.islice(itertools.cycle(files), count))
        start = perf_counter()
        for begin in range(0, count, at_once):
            look(given[begin : begin + at_once])
        print(perf_counter() - start, flush=True)


Loop = Callable[[int, int], float]  # images, and how many at once: the seconds


@contextlib.contextmanager
def bare_loop(folder: Path, detector: Path) -> Iterator[Loop]:
    """Give a function that has a bare loop run, and gives its seconds."""
    command = [sys.executable, __file__, "--bare", str(detector), str(folder / "photos.npz")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def run(count: int, at_once: int) -> float:
            print(count, at_once, file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]

        yield run


# The server.


class Client:
    """One connection that is kept; each photo is sent as a form of one file."""

    def __init__(self, server: Serving) -> None:
        self._connection = http.client.HTTPConnection(HOST, server.port, timeout=SECONDS)
        self._connection.connect()
        # As curl and requests do: http.client sends a body after its headers, and would wait
        # for the acknowledgement of these.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def score(self, photo: bytes) -> int:
        """Return the status of the answer."""
        body, kind = form(("photo.png", photo))
        self._connection.request("POST", "/score", body, {"content-type": kind})
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def ask_all(server: Serving, photos: list[bytes], count: int, clients: int = CLIENTS) -> float:
    """Send so many single images by several clients at once; return the seconds."""
    waiting = iter(list(itertools.islice(itertools.cycle(photos), count)))
    lock = threading.Lock()

    def work() -> None:
        client = Client(server)
        while True:
            with lock:
                photo = next(waiting, None)
            if photo is None:
                return
            assert client.score(photo) == 200

    start = perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(work) for _ in range(clients)]:
            done.result(SECONDS)
    return perf_counter() - start


def saturation(server: Serving, loop: Loop, photos: list[bytes], chosen: Any) -> bool:
    """Ask as much as the server can answer, in turns with the bare loop at its best."""
    ask_all(server, photos, chosen.images)
    ratios, rates = [], []
    for _ in range(chosen.rounds):
        alone = min(loop(chosen.images, at_once) for at_once in BATCHES)
        served = ask_all(server, photos, chosen.images)
        ratios.append(alone / served)
        rates.append((chosen.images / served, chosen.images / alone))
    ours, bare = (statistics.median(column) for column in zip(*rates, strict=True))
    reached = statistics.median(ratios)
    what = f"{CLIENTS} clients, single images: {ours:.1f} images/s, a bare loop {bare:.1f}"
    return said(what, reached, "at least", SATURATION)


def single(server: Serving, loop: Loop, photos: list[bytes], chosen: Any) -> None:
    """Print the times of single requests, in turns with those of the bare pass."""
    client = Client(server)
    ours, bare = [], []
    for photo in itertools.islice(itertools.cycle(photos), chosen.singles):
        start = perf_counter()
        assert client.score(photo) == 200
        ours.append(perf_counter() - start)
        bare.append(loop(1, 1))
    for name, times in (("single requests", ours), ("bare forward pass", bare)):
        p50, p99 = np.quantile(times, [0.5, 0.99])
        print(f"{name:<18} p50 {1000 * p50:6.1f} ms   p99 {1000 * p99:6.1f} ms   of {len(times)}")


def replaced(server: Serving, detector: Path, photos: list[bytes], times: int) -> bool:
    """Replace the detector's file again and again while images are judged."""
    import typica  # noqa: PLC0415
    from typica.files import sha256  # noqa: PLC0415

    versions = []
    for alpha in (0.05, 0.5):
        one = typica.load(detector)
        one.calibrate(
            np.asarray(typica.Bank.open(detector.parent / "known.bank").features)[::2], alpha=alpha
        )
        versions.append(one)
    done = threading.Event()

    def ask(client: Client) -> Counter[int]:
        statuses = Counter[int]()
        for photo in itertools.cycle(photos):
            statuses[client.score(photo)] += 1
            if done.is_set():
                return statuses
        raise AssertionError

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, Client(server)) for _ in range(4)]
        try:
            for number in range(times):
                versions[number % 2].save(detector)
                eventually(partial(serves, server, sha256(detector)), SECONDS)
        finally:
            done.set()
        statuses = sum((future.result(SECONDS) for future in asking), Counter[int]())
    failed = sum(statuses.values()) - statuses[200]
    what = f"replaced {times} times under load: {statuses[200]} answered, failed"
    return said(what, failed, "at most", 0)


def serves(server: Serving, digest: str) -> bool:
    return bool(server.ask("/models/ctm").json()["digest"] == digest)


def killed(detector: Path, photos: list[bytes]) -> bool:
    """Kill the server under load: each request ends in an answer or in an error."""
    with serving(detector) as server, ThreadPoolExecutor(CLIENTS) as pool:
        sent, ended = Counter[str](), Counter[str]()
        lock = threading.Lock()

        def ask() -> None:
            client = Client(server)
            for photo in photos:
                with lock:
                    sent["requests"] += 1
                try:
                    outcome = "answered" if client.score(photo) == 200 else "error"
                except (OSError, http.client.HTTPException):
                    outcome = "error"
                with lock:
                    ended[outcome] += 1
                if outcome == "error":
                    return

        asking = [pool.submit(ask) for _ in range(CLIENTS)]
        eventually(lambda: ended["answered"] >= 2 * CLIENTS, SECONDS)
        server.signal(signal.SIGKILL)
        for future in asking:
            future.result(SECONDS)
    lost = sent["requests"] - sum(ended.values())
    what = f"killed -9 under load: {ended['answered']} answered, {ended['error']} errors, lost"
    return said(what, lost, "at most", 0) and ended["error"] == CLIENTS


def said(what: str, reached: float, direction: str, target: float) -> bool:
    good = reached <= target if direction == "at most" else reached >= target
    print(
        f"{what:<84} {reached:6.2f}  {direction} {target:g}  {'ok' if good else 'MISSED'}",
        flush=True,
    )
    return good


if __name__ == "__main__":
    main()
