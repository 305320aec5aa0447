"""The command `rltrain manifest`: its flags, their checks, and where the manifest goes."""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError, suggest
from rltrain.options import Group, Scope, hide_words
from rltrain_kubernetes.inside import read_inside
from rltrain_kubernetes.manifests import KINDS, Job
from rltrain_kubernetes.patching import read_patch

OWN, COMMAND = Group("options"), Scope.COMMAND

RUNTIME = "torch-distributed"
"""The runtime that Kubeflow Trainer installs for torch."""

_RESTARTS = 3
"""How often all pods are started again, if nothing is said."""

_QUANTITY = re.compile(r"\d+(\.\d+)?([numkMGTPE]|[KMGTPE]i)?")
_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 40
"""Kubernetes makes the names of pods and hosts from the job's, with 63 characters at most."""

_OF_THE_CLUSTER = (
    *("PET_*", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX"),
)
"""Variables by which a pod finds its place."""


@dataclass(frozen=True, kw_only=True)
class ManifestOptions:
    """The command's own options."""

    kind: str = OWN.option("", COMMAND, ", ".join(KINDS), metavar="KIND", required=True)
    name: str = OWN.named("", COMMAND, "name of the job", required=True)
    image: str = OWN.option(
        "", COMMAND, "image that has the command rltrain", metavar="IMAGE", required=True
    )
    namespace: str | None = OWN.named(None, COMMAND, "namespace", default_text="kubectl's own")
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
        "how often all pods are started again after a failure or an eviction; the run goes on from "
        "its newest checkpoint",
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
        kind = own.kind
        if kind not in KINDS:
            raise UsageError(
                f"--kind {kind}: must be one of {', '.join(KINDS)}.{suggest(kind, KINDS)}"
            )
        if own.runtime is not None and kind != "trainjob":
            raise UsageError(f"--runtime: a {kind} has none. Leave it out.")
        _check_name("--name", own.name)
        if own.namespace is not None:
            _check_name("--namespace", own.namespace)
        if any(letter.isspace() for letter in own.image):
            raise UsageError(f"--image {own.image!r}: must be the name of an image.")
        if own.queue is not None:
            _check_name("--queue", own.queue)
        claim, path = _volume(own.volume)
        restarts = _restarts(own.restarts, kind, claim)
        job = Job(
            name=own.name,
            image=own.image,
            inside=read_inside(rest, path, own.name, restarts),
            namespace=own.namespace,
            env=_env(own.env),
            claim=claim,
            volume=path,
            runtime=own.runtime or RUNTIME,
            restarts=restarts,
            requests=_requests(own.cpus, own.memory),
            queue=own.queue,
            patch=read_patch(own.patch),
        )
        _warn_of_secrets([*own.env, *rest])
        _write(KINDS[kind](job), job, own.output)
        return 0


def _warn_of_secrets(words: list[str]) -> None:
    for word, hidden in zip(words, hide_words(words), strict=True):
        if word != hidden:
            print(
                f"rltrain: {hidden}: the manifest holds this secret in plain text. Leave it out, "
                "and take it from a Secret of Kubernetes (envFrom).",
                file=sys.stderr,
            )


def _check_name(flag: str, name: str) -> None:
    if not _LABEL.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"{flag} {name}: must have small letters, digits and dashes, begin with a letter, not "
            f"end with a dash, and have {_LONGEST} characters at most."
        )


def _restarts(given: int | None, kind: str, claim: str | None) -> int:
    """Return how often the job is started again."""
    if given is None:
        return _RESTARTS if claim else 0
    if given and claim is None:
        raise UsageError(
            f"--restarts {given}: without --volume CLAIM:PATH its checkpoints are lost with a pod."
        )
    if kind == "trainjob":
        raise UsageError(
            f"--restarts {given}: a trainjob has the policy of its runtime. Choose one with "
            "--runtime; the run goes on from its newest checkpoint."
        )
    return given


def _requests(cpus: str | None, memory: str | None) -> Mapping[str, str]:
    """Return what each pod requests."""
    for flag, value in (("--cpus", cpus), ("--memory", memory)):
        if value is not None and not _QUANTITY.fullmatch(value):
            raise UsageError(
                f"{flag} {value}: must be a quantity of Kubernetes, such as 8 or 64Gi."
            )
    return {name: each for name, each in (("cpu", cpus), ("memory", memory)) if each is not None}


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
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _OF_THE_CLUSTER):
            raise UsageError(
                f"--env {setting}: a pod finds its place by this variable, which Kubernetes or the "
                "manifest sets. Leave it out."
            )
        if name in found:
            raise UsageError(f"--env {setting}: {name} is given twice. Give it once.")
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
        print(f"Wrote {output}: {_size(manifest, job)}.\nNext: kubectl apply -f {output}")
    if job.claim is None:
        print(
            "Note: without --volume CLAIM:PATH the run folder is lost with its pod.",
            file=sys.stderr,
        )


def _size(manifest: Mapping[str, object], job: Job) -> str:
    """Describe what the manifest asks for: "TrainJob walk, 2 pods with 4 GPUs each"."""
    pods = f"{job.inside.nodes} pod" + ("s" if job.inside.nodes > 1 else "")
    gpus = f"{job.inside.gpus} GPU" + ("s" if job.inside.gpus > 1 else "")
    each = " each" if job.inside.nodes > 1 else ""
    what = f"{pods} with {gpus}{each}" if job.inside.gpus else f"{pods} without GPUs"
    return f"{manifest['kind']} {job.name}, {what}"
