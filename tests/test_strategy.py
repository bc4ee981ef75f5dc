"""What a training asks of the machine before it begins."""

import platform

import pytest
from conftest import ROOT
from projects import run

# Each array is larger than what glibc keeps, and is allocated by a thread, as TensorFlow's are.
COUNT_FAULTS = """
import resource, sys, threading
sys.path.insert(0, sys.argv[1])
from common.strategy import keep_freed_memory

if sys.argv[2] == "keep":
    keep_freed_memory()

def allocate():
    for _ in range(20):
        bytearray(b"x") * 100_000_000

allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=allocate)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_used_again(tmp_path):
    script = tmp_path / "count_faults.py"
    script.write_text(COUNT_FAULTS, encoding="utf-8")
    faults = {
        how: int(run(script, ROOT / "templates", how, cwd=tmp_path).stdout)
        for how in ("leave", "keep")
    }
    pages = 100_000_000 // 4096
    assert faults["leave"] > 15 * pages and faults["keep"] < 2 * pages
