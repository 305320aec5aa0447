"""Installed packages that do not work together."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rltrain.plugins import PluginRecord
from rltrain_doctor.findings import Finding, warning


@dataclass(frozen=True)
class Conflict:
    """Installed packages that do not work together, although their metadata does not say so."""

    packages: Mapping[str, str]
    """The affected versions by distribution: "<9.8", or "" for any. They conflict if all of them
    are installed."""
    reason: str
    """What goes wrong."""
    instead: str
    """What to do."""


KNOWN = (
    Conflict(
        {"gym": "", "numpy": ">=2"},
        "gym has had no release since 2022 and uses names that numpy 2 removed; older versions of "
        "rl_games need gym.",
        "pip install 'rl-games>=1.6.5', which uses gymnasium, or pip install 'numpy<2'",
    ),
    Conflict(
        {"isaacsim": "<6", "numpy": ">=2"},
        "Isaac Sim 4 and 5 are built for numpy 1.26: their extensions do not load with numpy 2.",
        "pip install 'numpy<2'",
    ),
    Conflict(
        {"jax-cuda12-plugin": ">=0.6", "nvidia-cudnn-cu12": "<9.8"},
        "jax is built for cuDNN 9.8 and fails on the GPU with the older one that torch brought.",
        "pip install 'jax[cuda12]<0.6' 'flax<0.10.7', or a torch that brings cuDNN 9.8 (2.8)",
    ),
    *(
        Conflict(
            {f"nvidia-{name}-cu12": "", f"nvidia-{name}-cu13": ""},
            f"Both install their library into the folder nvidia/{name}: torch and jax load the one "
            "that was installed last, whichever they were built for.",
            "pip uninstall both, and reinstall torch (or jax) for one version of CUDA.",
        )
        for name in ("nccl", "cudnn")
    ),
)
"""Conflicts that packages do not declare themselves. Plugins find more: `rltrain_checkup`."""


@dataclass(frozen=True)
class _Installed:
    """One installed distribution."""

    version: str
    requires: tuple[str, ...]


def conflicts(records: Iterable[PluginRecord], watched: Iterable[str]) -> list[Finding]:
    """Find known conflicts, names that two plugins provide, and unmet requirements.

    Args:
        records: the installed plugins.
        watched: requirements by or on these distributions are checked. Broken packages that have
            nothing to do with training are ignored.
    """
    records, installed = tuple(records), _installed()
    return [
        *_known(KNOWN, installed),
        *_provided_twice(records),
        *_unmet({canonicalize_name(name) for name in watched}, installed),
    ]


def _installed() -> dict[str, _Installed]:
    """Return every distribution by its canonical name."""
    found: dict[str, _Installed] = {}
    for each in importlib.metadata.distributions():
        # Read it once: each access to a property of a distribution parses its whole metadata.
        metadata = each.metadata
        if "Name" in metadata:
            requires = tuple(metadata.get_all("Requires-Dist") or ())
            # If there are two, the first is the one that is imported.
            name = canonicalize_name(metadata["Name"])
            found.setdefault(name, _Installed(metadata["Version"], requires))
    return found


def _known(known: Iterable[Conflict], installed: Mapping[str, _Installed]) -> Iterator[Finding]:
    for conflict in known:
        found = {canonicalize_name(name): wanted for name, wanted in conflict.packages.items()}
        if all(
            name in installed
            and SpecifierSet(wanted).contains(installed[name].version, prereleases=True)
            for name, wanted in found.items()
        ):
            both = " and ".join(f"{name} {installed[name].version}" for name in found)
            yield warning("conflict", f"{both}: {conflict.reason}", conflict.instead)


def _provided_twice(records: Iterable[PluginRecord]) -> Iterator[Finding]:
    providers: dict[tuple[str, str], list[PluginRecord]] = {}
    for record in records:
        for spec in record.specs:
            if not spec.gives_way:
                providers.setdefault((spec.kind, spec.name), []).append(record)
    for (kind, name), by in providers.items():
        if len(by) > 1:
            origins = " and ".join(record.origin for record in by)
            hint = f"Uninstall one, or block it: --no-plugin {by[-1].distribution}"
            yield warning("conflict", f"The {kind} {name!r} is provided twice, by {origins}.", hint)


def _unmet(watched: set[str], installed: Mapping[str, _Installed]) -> Iterator[Finding]:
    """Check the requirements of every package, as `pip check` does."""
    for name, package in installed.items():
        for requirement in _plain_requirements(package.requires):
            other = canonicalize_name(requirement.name)
            if not {name, other} & watched:
                continue
            there, wanted = installed.get(other), f"{requirement.name}{requirement.specifier}"
            if there is None:
                text = f"{name} {package.version} needs {wanted}, which is not installed."
            elif not requirement.specifier.contains(there.version, prereleases=True):
                text = f"{name} {package.version} needs {wanted}, but {there.version} is installed."
            else:
                continue
            hint = f"pip install '{wanted}', or another version of {name}"
            yield warning("requirement", text, hint)


def _plain_requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """Parse a package's requirements, without those of its extras."""
    for text in texts:
        try:
            requirement = Requirement(text)
            applies = not requirement.marker or requirement.marker.evaluate({"extra": ""})
        except InvalidRequirement:  # Old packages can have these.
            continue
        if applies:
            yield requirement
