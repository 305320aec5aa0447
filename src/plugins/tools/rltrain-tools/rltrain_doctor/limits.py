"""Limits of the machine, the container and the user: memory, cores, files, disks."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.launch import available_cores, private_folder
from rltrain.terminal import in_bytes
from rltrain_doctor.findings import Finding, ok, problem, warning

GIB, LOW_FILES = 2**30, 1024


def limits(
    log_root: str, *, root: Path = Path("/"), infiniband: Path = Path("/sys/class/infiniband")
) -> Iterator[Finding]:
    """Report the machine's resources, and how much of them a run may use.

    `root` has /proc and /sys/fs/cgroup, `infiniband` devices, which need locked memory.
    """
    yield _shared_memory()
    yield _limit("open files", resource.RLIMIT_NOFILE, "ulimit -n 4096")
    yield _limit("processes", resource.RLIMIT_NPROC, "ulimit -u 4096: threads count too")
    if infiniband.is_dir() and any(infiniband.iterdir()):
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if soft >= 0:
            hint = "ulimit -l unlimited (docker run --ulimit memlock=-1): InfiniBand needs it"
            yield warning("locked memory", in_bytes(soft), hint, limit=soft)
    yield _memory(root)
    yield _cores(root)
    yield _disk("log root", Path(log_root), "--log-root DIR")
    try:
        with private_folder() as folder:
            yield _disk("temporary", folder.parent, "TMPDIR=DIR")
    except UsageError as error:
        yield problem("temporary", str(error), "")


def _shared_memory() -> Finding:
    hint = "docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir of medium Memory"
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return warning("/dev/shm", "does not exist: NCCL needs it between GPUs", hint)
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    text, data = f"{in_bytes(free)} free of {in_bytes(size)}", {"size": size, "free": free}
    if free < 256 * 2**20:  # NCCL takes tens of MiB per pair of ranks; docker gives 64 MiB.
        return warning("/dev/shm", f"{text}: NCCL and simulators need more", hint, **data)
    return ok("/dev/shm", text, **data)


def _limit(name: str, which: int, hint: str) -> Finding:
    soft, _ = resource.getrlimit(which)
    if 0 <= soft < LOW_FILES:
        return warning(name, f"{soft}: few for several ranks", hint, limit=soft)
    return ok(name, "unlimited" if soft < 0 else str(soft), limit=soft)


def _memory(root: Path) -> Finding:
    """Report how much memory is free, on the machine and in this process' cgroup."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    known = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if "kB" in line}
    total, free = known["MemTotal"], known["MemAvailable"]
    for group in _cgroups(root):
        limit = _read(group / "memory.max")[0]
        if limit.isdecimal() and int(limit) < total:
            used = _read(group / "memory.current")[0]
            total = int(limit)
            free = max(min(free, total - int(used or 0)), 0)
    text, data = f"{in_bytes(free)} free of {in_bytes(total)}", {"total": total, "free": free}
    if free < GIB:
        hint = "Ranks that need more are killed. Use fewer ranks or a larger container limit."
        return warning("memory", text, hint, **data)
    return ok("memory", text, **data)


def _cores(root: Path) -> Finding:
    """Report how much CPU time this process' cgroup gets."""
    cores = available_cores()
    quotas = [_read(group / "cpu.max") for group in _cgroups(root)]
    quota = min(
        (int(each[0]) / int(each[1]) for each in quotas if each[0].isdecimal()), default=None
    )
    if quota is None:
        return ok("CPU quota", f"none: all {cores} cores", cores=cores)
    text, data = f"CPU time of {quota:g} of {cores} cores", {"cores": cores, "quota": quota}
    if quota < cores:
        hint = f"Without GPUs: --nproc-per-node {max(1, int(quota))}"
        return warning("CPU quota", f"{text}: more ranks slow each other down", hint, **data)
    return ok("CPU quota", text, **data)


def _cgroups(root: Path) -> list[Path]:
    """Return the folders of this process' cgroup (version 2) and its parents, where they exist."""
    paths = [line[3:] for line in _read(root / "proc/self/cgroup", "\n") if line.startswith("0::")]
    top = root / "sys/fs/cgroup"
    # In a container, the path is often the host's, while the top is the container's.
    here = [top / path.strip("/") for path in paths]
    return [each for path in here for each in (path, *path.parents) if each.is_relative_to(top)]


def _read(file: Path, separator: str | None = None) -> list[str]:
    """Return the parts of a small file; [""] if it is not there."""
    try:
        return file.read_text().split(separator) or [""]
    except OSError:
        return [""]


def _disk(name: str, folder: Path, other: str) -> Finding:
    """Report the free disk space for a folder, which may not exist yet."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = os.statvfs(there).f_bavail * os.statvfs(there).f_frsize
    text, data = f"{folder}: {in_bytes(free)} free", {"folder": str(folder), "free": free}
    if not there.is_dir() or not os.access(there, os.W_OK):
        return problem(name, f"{folder}: not writable", f"Choose another: {other}", **data)
    if free < GIB:
        return warning(name, text, f"Free some space, or choose another: {other}", **data)
    return ok(name, text, **data)
