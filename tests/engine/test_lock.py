"""The lock of engines on a GPU: inside, that GPU is the current one; outside, what was."""

import threading

import pytest
import torch

from glimpse.engine.lock import GpuLock


@pytest.fixture
def current(monkeypatch):
    """The current device of a machine of several, in a list."""
    at = [0]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: at[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: at.__setitem__(0, getattr(device, "index", device)))
    return at


def test_the_current_gpu_is_set_and_put_back_whatever_happens(current):
    one, two = GpuLock(torch.device("cuda", 1)), GpuLock(torch.device("cuda", 2))
    with one, one:
        assert current == [1]
        with two:
            assert current == [2]
        assert current == [1]
    with pytest.raises(ValueError, match="boom"), two:
        raise ValueError("boom")
    assert current == [0]


def test_another_thread_waits(current):
    lock, order = GpuLock(torch.device("cuda", 1)), []

    def work() -> None:
        with lock:
            order.append("other")

    with lock:
        thread = threading.Thread(
            target=lambda: lock.__enter__() and (order.append("other"), lock.__exit__(None, None, None))
        )
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join(5)
    assert order == ["first", "other"]
