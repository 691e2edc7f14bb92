"""Memory of batches: a process that trains does not ask the system for it again with every batch."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from shoal.networks.allocating import keep_memory
keep_memory()
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU())
rows = torch.zeros(4096, 256)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    layers(rows).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
counted = [faults() for _ in range(60)]
print(counted[0], sum(counted[20:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rules of another C library are left as they are")
def test_forty_batches_take_fewer_new_pages_than_the_first() -> None:
    """By glibc's usual rules they take two to three times as many; a few come late, as the heap is put in order."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, timeout=300)
    first, later = map(int, done.stdout.split())
    assert later < first, (later, first)
