"""The command `rltrain manifest`: its flags, the run that the pods start, and their checks."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rltrain.commands import add_flags, read_flags, read_run, resolve_run
from rltrain.errors import UsageError, suggest
from rltrain.options import Group, RunOptions, Scope, hide_words, load_yaml, scoped
from rltrain_kubernetes.manifests import KINDS, Job

OWN, COMMAND = Group("options"), Scope.COMMAND

RUNTIME = "torch-distributed"
"""The runtime that Kubeflow Trainer installs for torch."""

_RESTARTS = 3
"""How often all pods are started again, if nothing is said."""

_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 40
"""Kubernetes makes the names of pods and hosts from the job's, with 63 characters at most."""

_MEET = "Kubernetes numbers the pods, and they meet at the first one."
_REFUSED = {
    **dict.fromkeys(scoped(RunOptions, Scope.MEETING), _MEET),
    "launcher": "Kubernetes starts the nodes, and the backend's own launcher the ranks of each.",
    "gpu_ids": "a pod sees only the GPUs that it requests. Give --nproc-per-node N, and for the "
    "CPU --device cpu.",
}
"""Options that a pod must not have, and why."""

_JOIN_TIMEOUT = "1800"
"""Seconds in which all pods must have met: one may have an image of 20 GB to pull."""


@dataclass(frozen=True, kw_only=True)
class ManifestOptions:
    """The command's own options."""

    kind: str = OWN.option("", COMMAND, ", ".join(KINDS), metavar="KIND", required=True)
    name: str = OWN.named("", COMMAND, "name of the job", required=True)
    image: str = OWN.option(
        "", COMMAND, "image that has the command rltrain", metavar="IMAGE", required=True
    )
    volume: str | None = OWN.option(
        None,
        COMMAND,
        "PersistentVolumeClaim to mount at PATH, where the run folders go; pods on several "
        "machines need one with ReadWriteMany",
        metavar="CLAIM:PATH",
    )
    env: tuple[str, ...] = OWN.option(
        (),
        COMMAND,
        "environment variable of the pods; may be repeated",
        kind="append",
        metavar="NAME=VALUE",
    )
    restarts: int | None = OWN.number(
        None,
        COMMAND,
        "how often all pods are started again after a failure or an eviction; the run continues "
        "from its newest checkpoint",
        0,
        default_text=f"{_RESTARTS}; without --volume 0",
    )
    cpus: str | None = OWN.option(None, COMMAND, "CPUs that each pod requests", metavar="N")
    memory: str | None = OWN.option(
        None, COMMAND, "memory of each pod, such as 64Gi", metavar="SIZE"
    )
    queue: str | None = OWN.named(None, COMMAND, "queue of Kueue, which starts all pods or none")
    patch: str | None = OWN.option(
        None,
        COMMAND,
        "YAML file that is merged into the pods' spec: tolerations, imagePullSecrets, nodeSelector "
        "and others",
        names="path",
    )
    runtime: str | None = OWN.named(
        None, COMMAND, "ClusterTrainingRuntime of a trainjob", default_text=RUNTIME
    )
    output: str = OWN.option("-", COMMAND, "file to write", names="path", default_text="stdout")


class ManifestCommand:
    r"""Write a Kubernetes manifest that trains: the run's own flags follow the --.

    The run is checked like any other before anything is written. --nnodes becomes the number of
    pods, --nproc-per-node the GPUs that each requests. Libraries, suites and files
    of options are looked up here: use an environment like the image's, or the image itself.

    Examples:
      rltrain manifest --kind trainjob --name walk --image IMAGE --volume runs:/runs \
        --output walk.yaml -- --library rsl_rl --distributed --nnodes 2 --nproc-per-node 4
      kubectl apply -f walk.yaml

    Kinds:
      trainjob     Kubeflow Trainer 2.2 and later
      pytorchjob   Kubeflow Training Operator 1.x
      jobset       JobSet, without Kubeflow
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        parser.usage = (
            "rltrain manifest --kind KIND --name NAME --image IMAGE [options] -- FLAGS OF THE RUN"
        )
        add_flags(parser, of=ManifestOptions)

    def run(self, arguments: argparse.Namespace, rest: list[str]) -> int:
        """Check everything, then write the manifest."""
        own = read_flags(ManifestOptions, arguments)
        if own.kind not in KINDS:
            raise UsageError(
                f"--kind {own.kind}: must be one of {', '.join(KINDS)}.{suggest(own.kind, KINDS)}"
            )
        if own.runtime is not None and own.kind != "trainjob":
            raise UsageError(f"--runtime: a {own.kind} has none. Leave it out.")
        for flag, name in (("--name", own.name), ("--queue", own.queue)):
            if name is not None and (not _LABEL.fullmatch(name) or len(name) > _LONGEST):
                raise UsageError(
                    f"{flag} {name}: must have small letters, digits and dashes, begin with a "
                    f"letter, not end with a dash, and have {_LONGEST} characters at most."
                )
        claim, volume = _volume(own.volume)
        restarts = _restarts(own, claim)
        requests = {"cpu": own.cpus, "memory": own.memory}
        job = Job(
            name=own.name,
            image=own.image,
            env=_env(own.env),
            claim=claim,
            volume=volume,
            runtime=own.runtime or RUNTIME,
            restarts=restarts,
            requests={name: each for name, each in requests.items() if each is not None},
            queue=own.queue,
            patch=_patch(own.patch) if own.patch is not None else {},
            **_inside(rest, volume, own.name, restarts),
        )
        _warn_of_secrets([*own.env, *rest])
        _write(KINDS[own.kind](job), job, own.output)
        return 0


def _inside(words: list[str], volume: str | None, name: str, restarts: int) -> dict[str, Any]:
    """Check a run's command line, as far as this machine can, and return what the pods need for it.

    `words` are those after `rltrain`; `volume` is the folder that outlives the pods, where run
    folders go. The run has the job's name unless it has its own.
    """
    if not words:
        raise UsageError(
            "No run is given. Write its flags after --, as in: rltrain manifest ... -- --library "
            "rsl_rl --distributed --nnodes 2 --nproc-per-node 4"
        )
    if words[0] == "rltrain":
        raise UsageError("rltrain: leave it out. Only the run's flags follow the --.")
    given = read_run(words)
    for option, reason in _REFUSED.items():
        if option in given:
            leave = "" if option == "gpu_ids" else " Leave it out."
            raise UsageError(f"--{option.replace('_', '-')}: {reason}{leave}")
    gpus = _gpus(RunOptions.from_mapping(given))
    run = resolve_run(given, gpus=gpus)
    if volume is not None and (log_root := given.get("log_root")) is None:
        words = [*words, "--log-root", volume]
    elif volume is not None and not PurePosixPath(str(log_root)).is_relative_to(volume):
        raise UsageError(
            f"--log-root {log_root}: is not on the volume, which is mounted at {volume}. Leave it "
            f"out, or name a folder below {volume}."
        )
    if restarts and "resume" not in given:
        words = [
            *words,
            *([] if given.get("auto_resume") else ["--auto-resume"]),
            *([] if "run_name" in given else ["--run-name", name]),
        ]
    if run.nnodes > 1 and "join_timeout" not in given:
        words = [*words, "--join-timeout", _JOIN_TIMEOUT]
    return {
        "words": tuple(words),
        "nodes": run.nnodes,
        "gpus": 0 if run.device_kind == "cpu" else gpus,
        "distributed": run.distributed,
    }


def _gpus(asked: RunOptions) -> int:
    """Return how many GPUs a pod needs, unless the run is on the CPU."""
    if isinstance(asked.nproc_per_node, int):
        return asked.nproc_per_node
    if not asked.distributed:
        return 1
    given = f"--nproc-per-node {asked.nproc_per_node}" if asked.nproc_per_node else "--distributed"
    raise UsageError(
        f"{given}: a manifest requests a number of GPUs for each node. Give --nproc-per-node "
        "N, and for the CPU --device cpu."
    )


def _warn_of_secrets(words: list[str]) -> None:
    for word, hidden in zip(words, hide_words(words), strict=True):
        if word != hidden:
            print(
                f"rltrain: {hidden}: the manifest holds this secret in plain text. Leave it out, "
                "and take it from a Secret of Kubernetes (envFrom).",
                file=sys.stderr,
            )


def _restarts(own: ManifestOptions, claim: str | None) -> int:
    """Return how often the job is started again."""
    if own.restarts is None:
        return _RESTARTS if claim else 0
    if own.restarts and claim is None:
        raise UsageError(
            f"--restarts {own.restarts}: without --volume CLAIM:PATH its checkpoints are lost with "
            "a pod."
        )
    if own.kind == "trainjob":
        raise UsageError(
            f"--restarts {own.restarts}: a trainjob has the policy of its runtime. Choose one with "
            "--runtime; the run continues from its newest checkpoint."
        )
    return own.restarts


def _patch(path: str) -> Mapping[str, Any]:
    """Read a part of a pod's specification."""
    patch = load_yaml(path, "--patch")
    if "spec" in patch:
        raise UsageError(
            f"--patch {path}: begin with what is below `spec:` of a pod, such as tolerations: or "
            "imagePullSecrets:."
        )
    for name in ("containers", "volumes"):
        found = patch.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise UsageError(f"--patch {path}: {name}: must be a list of mappings.")
    return patch


def _volume(text: str | None) -> tuple[str | None, str | None]:
    """Return the claim and the folder where it is mounted."""
    if text is None:
        return None, None
    claim, _, path = text.partition(":")
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", claim) or not path.startswith("/"):
        raise UsageError(
            f"--volume {text}: must be CLAIM:PATH, with the name of a PersistentVolumeClaim and an "
            "absolute path, as in runs:/runs."
        )
    if ":" in path or str(PurePosixPath(path)) in ("/", "/dev/shm"):
        raise UsageError(f"--volume {text}: cannot be mounted there. Name another folder.")
    return claim, path


def _env(settings: Iterable[str]) -> Mapping[str, str]:
    """Return the variables by name."""
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"--env {setting}: must be NAME=VALUE.")
        found[name] = value
    return found


def _write(manifest: Mapping[str, object], job: Job, output: str) -> None:
    """Write the manifest, and say what to do with it."""
    import yaml

    text = yaml.safe_dump(manifest, sort_keys=False, width=100)
    if output == "-":
        print(text, end="")
    else:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--output {output}: cannot be written ({error.strerror}). Name another file."
            ) from error
        several, gpus = job.nodes > 1, job.gpus
        what = f"{manifest['kind']} {job.name}, {job.nodes} pod{'s' if several else ''}"
        with_gpus = f"with {gpus} GPU{'s' if gpus > 1 else ''}{' each' if several else ''}"
        print(f"Wrote {output}: {what} {with_gpus if gpus else 'without GPUs'}.")
        print(f"Next: kubectl apply -f {output}")
    if job.claim is None:
        print(
            "Note: without --volume CLAIM:PATH the run folder is lost with its pod.",
            file=sys.stderr,
        )
