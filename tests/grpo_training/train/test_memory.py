"""Memory that was freed."""

import ctypes

import pytest

torch = pytest.importorskip("torch")
psutil = pytest.importorskip("psutil")

from grpo_training.train import memory  # noqa: E402


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_freed_memory_goes_back_to_the_system_where_the_process_has_been_large(monkeypatch):
    blocks = [torch.ones(16_000) for _ in range(4_000)]  # 64 kB each, below the size that glibc maps by itself
    above = torch.ones(16_000)  # at the end of the heap, which therefore cannot shrink
    del blocks

    def held():
        return psutil.Process().memory_info().rss >> 20

    before = held()
    monkeypatch.setattr(memory, "_LARGE_KIB", 1 << 40)
    memory.return_free_memory(torch.device("cpu"))
    assert held() > before - 100
    monkeypatch.setattr(memory, "_LARGE_KIB", 0)
    memory.return_free_memory(torch.device("cuda"))
    assert held() > before - 100
    memory.return_free_memory(torch.device("cpu"))
    assert held() < before - 150
    assert above.sum() == 16_000
