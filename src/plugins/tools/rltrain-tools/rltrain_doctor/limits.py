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

MIB, GIB = 2**20, 2**30

LOW_SHM = 256 * MIB
"""NCCL's buffers take tens of MiB per pair of ranks; docker's default is 64 MiB."""

LOW_DISK = GIB
LOW_FILES = 1024


def limits(
    log_root: str, *, root: Path = Path("/"), infiniband: Path = Path("/sys/class/infiniband")
) -> Iterator[Finding]:
    """Report the machine's resources, and how much of them a run may use.

    Args:
        log_root: where run folders are created.
        root: the folder that contains /proc and /sys/fs/cgroup.
        infiniband: the folder of InfiniBand devices, which need locked memory.
    """
    yield _shared_memory()
    yield _files()
    yield _locked(infiniband)
    yield _processes()
    yield _memory(root)
    yield _cores(root)
    yield _disk("log root", Path(log_root))
    yield _temporary()


def _shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    hint = "docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir of medium Memory"
    try:
        found = os.statvfs(folder)
    except OSError:
        return warning("/dev/shm", "does not exist: NCCL needs it between GPUs", hint)
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    text = f"{in_bytes(free)} free of {in_bytes(size)}"
    data = {"size": size, "free": free}
    if free < LOW_SHM:
        return warning("/dev/shm", f"{text}: NCCL and simulators need more", hint, **data)
    return ok("/dev/shm", text, **data)


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_count(soft)} (hard {_count(hard)})"
    if 0 <= soft < LOW_FILES:
        text += ": few for several ranks"
        return warning("open files", text, "ulimit -n 4096", limit=soft)
    return ok("open files", text, limit=soft)


def _locked(infiniband: Path) -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    text = "unlimited" if soft < 0 else in_bytes(soft)
    if soft >= 0 and infiniband.is_dir() and any(infiniband.iterdir()):
        hint = "ulimit -l unlimited (docker run --ulimit memlock=-1): InfiniBand locks its memory"
        return warning("locked memory", text, hint, limit=soft)
    return ok("locked memory", text, limit=soft)


def _processes() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if 0 <= soft < LOW_FILES:
        hint = "ulimit -u 4096: threads count too"
        return warning("processes", f"{soft}: few for several ranks", hint, limit=soft)
    return ok("processes", _count(soft), limit=soft)


def _memory(root: Path) -> Finding:
    """Report how much memory is free, on the machine and in this process' cgroup."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    known = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if "kB" in line}
    total, free = known["MemTotal"], known.get("MemAvailable", known["MemFree"])
    for group in _cgroups(root, "memory"):
        limit = _read(group, "memory.max", "memory.limit_in_bytes")
        used = _read(group, "memory.current", "memory.usage_in_bytes")
        if limit is not None and limit < total:
            total, free = limit, max(min(free, limit - (used or 0)), 0)
    text, data = f"{in_bytes(free)} free of {in_bytes(total)}", {"total": total, "free": free}
    if free < GIB:
        hint = "Ranks that need more are killed. Use fewer ranks or a larger container limit."
        return warning("memory", text, hint, **data)
    return ok("memory", text, **data)


def _cores(root: Path) -> Finding:
    """Report how much CPU time this process' cgroup gets."""
    cores, quota = available_cores(), None
    for group in _cgroups(root, "cpu"):
        share = _quota(group)
        if share is not None:
            quota = share if quota is None else min(quota, share)
    if quota is None:
        return ok("CPU quota", f"none: all {cores} cores", cores=cores)
    text, data = f"CPU time of {quota:g} of {cores} cores", {"cores": cores, "quota": quota}
    if quota < cores:
        hint = f"Without GPUs: --nproc-per-node {max(1, int(quota))}"
        return warning("CPU quota", f"{text}: more ranks slow each other down", hint, **data)
    return ok("CPU quota", text, **data)


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process' cgroup and its parents, for cgroup versions 2 and 1."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if names else "")
        # In a container, the path is often the host's, while the top is the container's.
        here = top / path.strip("/")
        while True:
            if here.is_dir():
                yield here
            if here == top:
                break
            here = here.parent


def _read(group: Path, *names: str) -> int | None:
    """Return the number in the first of these files that has one; None for "max"."""
    for name in names:
        try:
            return int((group / name).read_text())
        except (OSError, ValueError):
            continue
    return None


def _quota(group: Path) -> float | None:
    """Return the CPU quota of a cgroup, in cores; None if unlimited."""
    try:
        limit, period = (group / "cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        limit_v1 = _read(group, "cpu.cfs_quota_us")
        period_v1 = _read(group, "cpu.cfs_period_us")
        return limit_v1 / period_v1 if period_v1 and limit_v1 and limit_v1 > 0 else None


def _disk(name: str, folder: Path) -> Finding:
    """Report the free disk space for a folder, which may not exist yet."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = os.statvfs(there).f_bavail * os.statvfs(there).f_frsize
    text, data = f"{folder}: {in_bytes(free)} free", {"folder": str(folder), "free": free}
    other = "--log-root DIR" if name == "log root" else "TMPDIR=DIR"
    if not there.is_dir() or not os.access(there, os.W_OK):
        return problem(name, f"{folder}: not writable", f"Choose another: {other}", **data)
    if free < LOW_DISK:
        return warning(name, text, f"Free some space, or choose another: {other}", **data)
    return ok(name, text, **data)


def _temporary() -> Finding:
    try:
        with private_folder() as folder:
            return _disk("temporary", folder.parent)
    except UsageError as error:
        return problem("temporary", str(error), "")


def _count(number: int) -> str:
    return "unlimited" if number < 0 else str(number)
