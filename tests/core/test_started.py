"""What multiprocessing does to the script that starts ranks: it imports it again in each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain.ranks.guarded import NO_GUARD, UNGUARDED

SCRIPT = """
import multiprocessing, sys, rltrain
method, distributed = sys.argv[1:]
if __name__ != "__main__":
    rltrain.train(library="none", distributed=distributed == "True")
process = multiprocessing.get_context(method).Process(target=print, args=("it has started",))
process.start()
process.join()
print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("distributed", [True, False])
def test_a_script_is_not_trained_with_while_it_is_imported_again(tmp_path, method, distributed):
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), method, str(distributed)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if distributed:  # A rank: its launcher says why.
        assert (ran.stdout, ran.stderr) == (f"{UNGUARDED}\n", "")
    else:
        assert ran.stdout == "1\n"
        assert ran.stderr.endswith(f"rltrain.errors.UsageError: {NO_GUARD}\n")
