"""Batches: in order, ahead but not far, whole or with reasons, and no thread outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.shell import ENDS, started

import typica
from typica.data import ImageError, Images, Preprocessing, _batches, image_batches


class Slow(Images):
    """Images that count how often they are read, and wait for a sign if there is one."""

    def __init__(
        self, count: int, bad: tuple[int, ...] = (), go: threading.Event | None = None
    ) -> None:
        super().__init__([f"p{k}" for k in range(count)])
        self.bad, self.go, self.started = bad, go, 0
        self.lock = threading.Lock()

    def read(self, i: int) -> np.ndarray:
        with self.lock:
            self.started += 1
        if self.go is not None:
            self.go.wait()
        if i in self.bad:
            raise ImageError(f"{self.names[i]}: broken.")
        time.sleep(0.001 * (i % 3))  # so that they do not end in the order in which they began
        return np.full((4, 4, 3), i, dtype=np.uint8)


TINY = Preprocessing(4, 4)


def threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("typica-images")
    ]


@pytest.mark.parametrize("workers", [1, 3, None])
@pytest.mark.parametrize(("count", "size"), [(50, 12), (50, 50), (50, 60), (48, 12), (9, 1)])
def test_batches_are_in_order(count, size, workers):
    got = list(image_batches(Slow(count), TINY, size, workers=workers))
    assert [(b.start, b.stop) for b in got] == [
        (k, min(k + size, count)) for k in range(0, count, size)
    ]
    for b in got:
        assert b.indices.tolist() == list(range(b.start, b.stop)) and b.indices.dtype == np.int64
        assert (
            b.pixels.shape == (len(b.indices), 4, 4, 3)
            and b.pixels.dtype == np.uint8
            and b.skipped == []
        )
        assert np.array_equal(b.pixels[:, 0, 0, 0], b.indices)
    assert not threads()


def test_batches_from_the_middle():
    got = list(image_batches(Slow(50), TINY, 12, start=36))
    assert [b.indices.tolist() for b in got] == [list(range(36, 48)), [48, 49]]
    assert list(image_batches(Slow(48), TINY, 12, start=48)) == []


def test_bad_images_are_skipped_or_stop():
    images = Slow(30, bad=(3, 4, *range(10, 20)))
    got = list(image_batches(images, TINY, 10, on_error="skip"))
    assert [b.indices.tolist() for b in got] == [[0, 1, 2, 5, 6, 7, 8, 9], [], list(range(20, 30))]
    assert got[0].skipped == [("p3", "p3: broken."), ("p4", "p4: broken.")]
    assert (
        got[1].pixels.shape == (0, 4, 4, 3)
        and len(got[1].skipped) == 10
        and (got[1].start, got[1].stop) == (10, 20)
    )
    seen = []
    with pytest.raises(ImageError, match="p17: broken"):
        seen.extend(b.start for b in image_batches(Slow(30, bad=(17, 25)), TINY, 10))
    assert seen == [0] and not threads()


def test_decoding_runs_ahead_but_not_far():
    go = threading.Event()
    images = Slow(1000, go=go)
    stream = image_batches(images, TINY, 10, workers=2)
    assert images.started == 0  # nothing before the first is asked for
    go.set()
    for k in range(5):
        assert next(stream).start == 10 * k
        while images.started < 10 * (k + 1 + _batches.AHEAD):
            time.sleep(0.002)
        assert images.started == 10 * (k + 1 + _batches.AHEAD)
    stream.close()
    assert not threads() and images.started < 100


def test_threads_end_with_the_consumer():
    def consume() -> None:
        for b in image_batches(Slow(500), TINY, 10):
            if b.start:
                raise KeyError("the network")

    with pytest.raises(KeyError):
        consume()
    stream = image_batches(Slow(500), TINY, 10)
    next(stream)
    assert threads()
    del stream
    assert not threads()

    class Broken(Slow):
        def read(self, i: int) -> np.ndarray:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        next(image_batches(Broken(50), TINY, 10, on_error="skip"))
    assert not threads()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupt_ends_the_process(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(
        "import time, numpy as np\n"
        "from typica.data import Images\n"
        "from typica.data import image_batches\n"
        "from typica.data import Preprocessing\n"
        "class Slow(Images):\n"
        "    def read(self, i):\n"
        "        time.sleep(0.01)\n"
        "        return np.zeros((4, 4, 3), np.uint8)\n"
        "for batch in image_batches(Slow(range(10**6)), Preprocessing(4, 4), 8):\n"
        "    print('going', flush=True)\n"
    )
    command = [sys.executable, script]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"going\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=ENDS)
    assert process.returncode != 0 and errors.rstrip().endswith(b"KeyboardInterrupt")


def test_bad_arguments():
    images = Slow(30)
    for options, message in (
        ({"size": 0}, "size=0; pass a positive number"),
        ({"start": 5}, "start=5; pass a multiple of size=10 up to the 30 images"),
        ({"start": 40}, "start=40; pass a multiple"),
        ({"start": -10}, "start=-10; pass a multiple"),
        ({"on_error": "ignore"}, "on_error='ignore'; choose stop or skip"),
        ({"workers": 0}, "workers=0; pass a positive number of threads"),
    ):
        with pytest.raises(typica.InputError, match=f"image_batches: {message}"):
            image_batches(images, TINY, **{"size": 10, **options})
