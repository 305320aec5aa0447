"""What multiprocessing does to the script that starts ranks: it imports it again in each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain.ranks.processes import NO_GUARD, UNGUARDED

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


def test_a_script_on_standard_input_is_told_that_ranks_cannot_import_it():
    script = "import rltrain\nrltrain.train(library='none', distributed=True)\n"
    ran = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stderr.endswith("and this one is on standard input. Write it to a file.\n")


def test_a_worker_of_a_pool_is_told_what_to_use(tmp_path):
    script = tmp_path / "pooled.py"
    script.write_text(
        "import multiprocessing, rltrain\n"
        "def train(x):\n"
        "    try:\n"
        "        rltrain.train(distributed=True)\n"
        "    except rltrain.errors.UsageError as error:\n"
        "        return str(error)\n"
        'if __name__ == "__main__":\n'
        "    with multiprocessing.Pool(1) as pool:\n"
        "        print(pool.map(train, [0]))\n"
    )
    words = [sys.executable, str(script)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "Pool can start no ranks. Use concurrent.futures.ProcessPoolExecutor" in ran.stdout
