"""Memory of batches: a process that trains does not ask the system for it again with every batch."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from shoal.networks.allocating import keep_memory
if {kept}: keep_memory()
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU())
rows = torch.zeros(4096, 256)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    layers(rows).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
counted = [faults() for _ in range(8)]
print(sum(counted[3:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rules of another C library are left as they are")
def test_batches_after_the_first_take_no_new_pages() -> None:
    usual, kept = (
        int(subprocess.run([sys.executable, "-c", FAULTS.format(kept=kept)], capture_output=True, text=True, check=True, timeout=300).stdout)
        for kept in (False, True)
    )  # fmt: skip
    assert kept < usual / 10, (kept, usual)
