"""Each check of `rltrain doctor` on a simulated machine: its findings and messages."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import tempfile

import pytest
from helpers import python
from messages import check_said

from rltrain.config import Placement
from rltrain.errors import UsageError
from rltrain.plugins.registry import discover
from rltrain.testing import make_config
from rltrain.types import World
from rltrain_doctor import limits as limits_module
from rltrain_doctor.devices import devices
from rltrain_doctor.findings import run_check
from rltrain_doctor.limits import limits
from rltrain_doctor.network import network
from rltrain_doctor.variables import variables
from rltrain_doctor.versions import facts, remedies, versions


def named(findings, name):
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def summary(finding):
    return finding.level, finding.text, finding.hint


# Versions


def test_versions_and_ranges_are_reported(stub, site):
    site.install("adapted", version="2.5")
    site.install("rltrain-fits", STUB_WRITER, requires=('adapted>=2,<3; extra == "library"',))
    found = list(versions(discover(), None))
    assert named(found, "Python").level == "ok"
    fits = named(found, "rltrain-fits")
    assert summary(fits) == ("ok", "1.0: adapted 2.5 (>=2,<3)", "")


STUB_WRITER = """
from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec

@hookimpl
def rltrain_provides():
    return [WriterSpec(name="writer", factory="x:y")]
"""


CHECKUP = """
from importlib.metadata import version
from rltrain.specs import DoctorChecks

@hookimpl
def rltrain_checkup():
    one, two = version("one"), version("two")
    return DoctorChecks(findings=[(f"one {one} bites two {two}.", "Part them.")])
"""


def test_an_unusable_plugin_is_a_warning_or_if_requested_a_problem(stub, site):
    site.install("adapted", version="4.0")
    site.install("rltrain-old", STUB_WRITER, point="old", requires=('adapted<3; extra=="library"',))
    site.install("rltrain-broken", "raise ValueError('oh')", point="broken")
    found = list(versions(discover(), None))
    text = "1.0 is unmet: needs adapted<3, but 4.0 is installed"
    assert summary(named(found, "rltrain-old")) == ("warning", text, "pip install 'adapted<3'")
    assert named(found, "rltrain-broken").level == "warning"
    assert "oh" in named(found, "rltrain-broken").text
    assert named(versions(discover(), "old"), "rltrain-old").level == "problem"


def test_without_a_library_nothing_can_be_trained(stub, monkeypatch):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "")
    assert named(versions(discover(), None), "libraries").level == "problem"


def test_a_plugin_adds_what_it_finds(stub, site):
    site.install("one", version="1.5")
    site.install("two", version="3.0")
    site.install("rltrain-knows", STUB_WRITER + CHECKUP, point="knows")
    assert summary(named(versions(discover(), None), "knows")) == (
        *("warning", "one 1.5 bites two 3.0.", "Part them."),
    )


@pytest.mark.parametrize("answer", ["1 / 0", "'ok'", "DoctorChecks(findings=[1])"])
def test_a_plugin_that_cannot_be_asked_is_reported_and_the_others_are_asked(stub, site, answer):
    asked = CHECKUP[: CHECKUP.index("    one, two =")] + f"    return {answer}\n"
    site.install("rltrain-knows", STUB_WRITER + asked, point="knows")
    found = named(versions(discover(), None), "knows")
    assert (found.level, found.hint) == ("warning", "Report it to its author.")
    check_said(found.text)
    assert remedies(discover(), "nccl")
    assert facts(discover(), "torch")


# Devices


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):

    def plant(script: str) -> None:
        file = tmp_path / "nvidia-smi"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return plant


TWO_GPUS = "echo '0, NVIDIA H200, 570.1, 143771 MiB'; echo '1, NVIDIA H200, 570.1, 143771 MiB'"


def seen(environ=None, framework="numpy"):
    return list(devices({} if environ is None else environ, discover(), framework, print))


def test_gpus_and_driver_are_reported(stub, nvidia_smi, monkeypatch):
    nvidia_smi(TWO_GPUS)
    monkeypatch.setenv("STUB_GPUS", "2")
    found = seen()
    driver = named(found, "driver")
    assert summary(driver) == (
        "ok",
        "NVIDIA 570.1: 0 NVIDIA H200, 143771 MiB; 1 NVIDIA H200, 143771 MiB",
        "",
    )
    assert driver.data["gpus"][1]["index"] == "1"
    counted = next(finding for finding in found if finding.name == "stub_gpu")
    assert summary(counted) == ("ok", "sees 2 GPUs", "")


def test_a_framework_that_cannot_use_the_gpus_is_reported(stub, nvidia_smi):
    nvidia_smi(TWO_GPUS)
    found = named(seen(), "stub_gpu")
    assert found.level == "warning"
    check_said(found.text)
    # Hidden GPUs are hidden on purpose.
    assert named(seen({"CUDA_VISIBLE_DEVICES": ""}), "stub_gpu").level == "ok"


def test_a_driver_that_fails_or_hangs_is_reported(stub, nvidia_smi, monkeypatch):
    nvidia_smi("echo 'Driver/library version mismatch'; exit 18")
    driver = named(seen(), "driver")
    assert (driver.level, driver.text) == (
        "warning",
        "nvidia-smi failed: Driver/library version mismatch",
    )
    monkeypatch.setattr("rltrain_doctor.devices.TIMEOUT", 0.2)
    nvidia_smi("exec sleep 60")
    assert named(seen(), "driver").level == "problem"


@pytest.mark.parametrize(
    ("value", "level", "text"),
    [
        ("1,0", "ok", "2 visible, numbered 0 to 1 for --gpu-ids"),
        ("", "ok", "all GPUs are hidden"),
        ("0,2", "warning", "there is no GPU 2 of 2"),
        ("1,1", "warning", "a GPU is named twice"),
        ("GPU-8f3a,1", "ok", "2 visible, numbered"),
    ],
)
def test_visible_gpus_are_checked(stub, nvidia_smi, value, level, text):
    nvidia_smi(TWO_GPUS)
    found = named(seen({"CUDA_VISIBLE_DEVICES": value}), "visible")
    assert found.level == level
    assert text in found.text


# The launcher's variables

REGISTRY = discover()
STARTS = make_config(distributed=True, nproc_per_node=2, launcher="processes", backend="gloo")


def test_variables_are_reported_with_their_source_and_effect():
    environ = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "NCCL_DEBUG": "INFO", "HOME": "/"}
    found = list(variables(environ, REGISTRY, STARTS, World(1, 1, 0, 2, 2, 1)))
    assert named(found, "torchrun").text == "LOCAL_RANK=1 RANK=1 WORLD_SIZE=2"
    assert named(found, "others").data["variables"] == {"NCCL_DEBUG": "INFO"}
    check_said(named(found, "this process").text)
    assert {finding.level for finding in found} == {"ok"}
    assert "HOME" not in str(found)


def test_without_variables_ranks_are_started_here():
    (found,) = variables({}, REGISTRY, STARTS, None)
    check_said(found.text)


def test_a_contradiction_is_a_problem_with_the_errors_message():
    error = UsageError("The environment variables contradict each other: RANK=5.")
    found = named(variables({"RANK": "5"}, REGISTRY, None, error), "this process")
    assert summary(found) == ("problem", str(error), "")


@pytest.mark.parametrize(
    ("environ", "level", "text"),
    [
        ({"WORLD_SIZE": "2"}, "warning", "WORLD_SIZE=2 without RANK and LOCAL_RANK"),
        ({"PALS_SIZE": "4"}, "problem", "PALS started 4 processes"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "problem", "srun started 4 processes"),
    ],
)
def test_processes_that_would_each_train_alone_are_reported(environ, level, text):
    found = named(variables(environ, REGISTRY, STARTS, None), "ranks")
    assert found.level == level
    assert text in found.text
    assert found.hint


@pytest.mark.parametrize(
    ("environ", "nnodes"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, 2),
        ({"PALS_SIZE": "2"}, 2),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8", "PALS_SIZE": "x"}, 1),
    ],
)
def test_a_declared_node_one_task_and_an_allocation_without_a_step_start_ranks(environ, nnodes):
    starts = make_config(**{**vars(STARTS), "nnodes": nnodes})
    assert {finding.level for finding in variables(environ, REGISTRY, starts, None)} == {"ok"}


# The network


@pytest.fixture
def ports():
    """A port that another process listens on, and one that is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        yield {"TAKEN": taken.getsockname()[1], "FREE": number, "ANY": 29500}


@pytest.mark.parametrize(
    ("host", "port", "several", "name", "level", "says"),
    [
        ("127.0.0.1", "TAKEN", False, "port", "warning", "cannot be listened on: another process"),
        ("127.0.0.1", "TAKEN", True, "port", "problem", "cannot be listened on: another process"),
        ("127.0.0.1", "FREE", False, "port", "ok", " is free"),
        ("no-such-host.invalid", "ANY", False, "master", "problem", "invalid does not resolve: "),
        ("192.0.2.77", "ANY", True, "master", "problem", "is not this node"),
        ("127.0.0.1", "ANY", True, "master", "warning", ""),
        ("127.0.0.1", "ANY", False, "master", "ok", "127.0.0.1:29500, by lo"),
    ],
)
def test_the_place_where_ranks_meet_is_checked(ports, host, port, several, name, level, says):
    found = named(network((host, ports[port]), several=several, hosted=True), name)
    assert found.level == level
    assert says in found.text


def test_where_ranks_were_started_their_launcher_listens_at_the_port(ports):
    found = network(("127.0.0.1", ports["TAKEN"]), several=False, hosted=False)
    assert not [each for each in found if each.name == "port"]
    assert named(network(("192.0.2.77", 1), several=True, hosted=False), "master").text


# Limits


@pytest.fixture
def machine(tmp_path):
    """A machine with 8 GiB, and a cgroup around this process' cgroup."""

    def plant(**files: str):
        (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/meminfo").write_text(
            "MemTotal:  8388608 kB\nMemFree: 1048576 kB\nMemAvailable: 6291456 kB\nHugePages: 0\n"
        )
        (tmp_path / "proc/self/cgroup").write_text(files.pop("cgroup", "0::/pod/box\n"))
        for name, content in files.items():
            path = tmp_path / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        found = limits(str(tmp_path), root=tmp_path, infiniband=tmp_path / "infiniband")
        return {finding.name: finding for finding in found}

    return plant


def test_without_cgroup_limits_the_whole_machine_is_available(machine):
    found = machine()
    assert found["memory"].text == "6.4 GB free of 8.6 GB"
    assert found["CPU quota"].text.startswith("none: all ")
    assert found["log root"].level == "ok"


def test_the_narrowest_cgroup_counts(machine, monkeypatch):
    monkeypatch.setattr(limits_module, "available_cores", lambda: 8)
    found = machine(
        pod__memory_dot_max=str(2**31),
        pod__memory_dot_current=str(2**31 - 2**29),
        pod__box__memory_dot_max="max",
        pod__cpu_dot_max="150000 100000",
        pod__box__cpu_dot_max="max 100000",
    )
    assert summary(found["memory"])[:2] == ("warning", "537 MB free of 2.1 GB")
    assert found["CPU quota"].data == {"cores": 8, "quota": 1.5}
    assert found["CPU quota"].hint == "Without GPUs: --nproc-per-node 1"


def test_little_shared_memory_is_a_warning(machine, monkeypatch):
    true, blocks = os.statvfs, {"f_frsize": 4096, "f_blocks": 16384, "f_bavail": 16000}

    def planted(path):
        return type("Stat", (), blocks) if str(path) == "/dev/shm" else true(path)

    monkeypatch.setattr(os, "statvfs", planted)
    found = machine()["/dev/shm"]
    assert (found.level, "--shm-size" in found.hint) == ("warning", True)
    assert found.text.startswith("66 MB free of 67 MB")


def test_low_user_limits_are_warnings(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    found = machine()
    assert (found["open files"].level, found["processes"].level) == ("warning", "warning")
    assert "locked memory" not in found
    (tmp_path / "infiniband" / "mlx5_0").mkdir(parents=True)
    assert machine()["locked memory"].level == "warning"
    monkeypatch.setattr(resource, "getrlimit", lambda which: (-1, -1))
    assert "locked memory" not in machine()
    assert machine()["processes"].text == "unlimited"


def test_a_log_root_that_cannot_be_written_is_a_problem(machine, tmp_path):
    (tmp_path / "file").write_text("")
    (found,) = [x for x in limits(str(tmp_path / "file" / "logs")) if x.name == "log root"]
    assert found.level == "problem"


# All of them


def test_a_failing_check_does_not_stop_the_others():
    def broken():
        raise KeyError("x")
        yield

    (found,) = run_check("Limits", broken)
    assert found.level == "warning"
    assert "KeyError: 'x'" in found.text


@pytest.mark.slow
def test_this_machine_is_checked_without_importing_a_framework(stub):
    code = (
        "import sys; from rltrain.cli import main; "
        "main(['doctor', '--no-ranks', '--json', '--framework', 'numpy', '--backend', 'stub', "
        "'--launcher', 'stub_launcher']); "
        "heavy = {'torch', 'jax', 'numpy', 'gymnasium'} & set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = python(code)
    assert done.stderr == "asking numpy what it sees ...\n[]\n"
    output = json.loads(done.stdout)
    assert set(output) == {"rltrain", "host", "status", "sections"}
    assert list(output["sections"]) == ["versions", "devices", "launcher", "network", "limits"]


# What others wrote


def test_the_doctor_shows_no_secret():
    environ = {"RLTRAIN_TOKEN": "s3cr3t-of-mine", "NCCL_DEBUG": "INFO"}
    placement = Placement(backend="gloo")
    text = str(list(variables(environ, discover(), placement, None)))
    assert "RLTRAIN_TOKEN=(hidden)" in text
    assert "NCCL_DEBUG=INFO" in text
    assert "s3cr3t-of-mine" not in text


def test_a_place_for_temporary_files_that_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    found = named(limits(str(tmp_path)), "temporary")
    assert found.level == "problem"
    check_said(found.text)
