"""Each manifest is what its operator accepts, and its pods train together."""

from __future__ import annotations

import copy
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from messages import check_said
from operators import pods_of

from rltrain.cli.main import main

ROOT = Path(__file__).parents[5]
SCHEMAS = Path(__file__).parent / "schemas"
KINDS = ("trainjob", "pytorchjob", "jobset")
GPUS = "--library rsl_rl --distributed --nnodes 3 --num-gpus 4"
CPU = "--library skrl --framework jax --distributed --nnodes 2 --nproc-per-node 2 --device cpu"
RUNS = {
    "three nodes": (GPUS, 3, 4, 4),
    "one node": ("--distributed --num-gpus 2", 1, 2, 2),
    "processes": ("--library rsl_rl --distributed --nproc-per-node 8", 1, 8, 8),
    "the CPU": (CPU, 2, 0, 2),
    "one node on the CPU": ("--distributed --nproc-per-node 2 --device cpu", 1, 0, 2),
    "one process": ("Pendulum-v1 --library skrl agent.agent.learning_rate=1e-4", 1, 1, 1),
    "one process on the CPU": ("--device cpu", 1, 0, 1),
}
"""Command lines with their nodes, GPUs of a node and ranks of a node."""


def errors(manifest):
    """Return what the published schema finds wrong."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((SCHEMAS / f"{manifest['kind'].lower()}.json").read_text())
    return [
        error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", [GPUS, CPU], ids=["GPUs", "CPU"])
def test_a_manifest_has_the_form_that_is_published(manifest, kind, run):
    assert errors(manifest(kind, run)) == []
    whole = ("--volume", "runs:/runs", "--env", "A=1", "--env", "B=$(A)")
    written = manifest(kind, run, *whole)
    assert errors(written) == []
    assert written["metadata"] == {"name": "walk"}


def walk(value, path):
    yield path, copy.deepcopy(value)
    items = value.items() if isinstance(value, dict) else ()
    for key, below in enumerate(value) if isinstance(value, list) else items:
        yield from walk(below, (*path, key))


@pytest.fixture
def plan(monkeypatch, capsys):
    """Run a pod's command with --dry-run, on a machine with some GPUs; return what it prints."""

    def dry_run(pod, gpus):
        capsys.readouterr()
        with monkeypatch.context() as inside:
            for name, value in pod.environ.items():
                inside.setenv(name, value)
            inside.setattr("rltrain.placement.backend.preflight", lambda *_, **__: gpus)
            status = main([*pod.words[1:], "--dry-run"])
        out, err = capsys.readouterr()
        assert status == 0, err
        (ranks,) = (line for line in out.splitlines() if line.startswith("ranks "))
        return ranks.removeprefix("ranks").strip()

    return dry_run


MEET = {
    "trainjob": ("kubeflow", "walk-node-0-0.walk:29500"),
    "pytorchjob": ("kubeflow", "walk-master-0:23456"),
    "jobset": ("indexed-job", "walk-node-0-0.walk:29500"),
}
"""The cluster that is found, and where the nodes meet."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("run", "nodes", "gpus", "ranks"), RUNS.values(), ids=RUNS)
def test_the_ranks_join_inside(manifest, plan, kind, run, nodes, gpus, ranks):
    written = manifest(kind, run)
    pods = pods_of(written)
    assert len(pods) == nodes
    cluster, meeting = MEET[kind]
    for number, pod in enumerate(pods):
        assert pod.words[0] == "rltrain"
        expected = f"one process, on {'cuda:0' if gpus else 'cpu'}"
        if "--distributed" in run:
            expected = f"{ranks} on this node, started by processes"
        if nodes > 1:
            expected += f"; node {number} of {nodes}, as {cluster} says, meeting at {meeting}"
        assert plan(pod, gpus) == expected
    if nodes > 1:
        assert pods[0].host == meeting.partition(":")[0]
    asked = [
        each["nvidia.com/gpu"] for path, each in walk(written, ()) if path and path[-1] == "limits"
    ]
    assert set(asked) == ({gpus} if gpus else set())


@pytest.mark.parametrize("kind", KINDS)
def test_pods_have_shared_memory_variables_and_the_volume(manifest, kind):
    written = manifest(kind, GPUS, "--volume", "runs:/data/runs", "--env", "A=$(B)$$")
    found = dict(walk(written, ()))
    volumes = [each for path, each in found.items() if path and path[-1] == "volumes"]
    mounts = [each for path, each in found.items() if path and path[-1] == "volumeMounts"]
    assert volumes
    assert len(volumes) == len(mounts)
    for each in volumes:
        assert each == [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}},
        ]
    for each in mounts:
        assert each == [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "runs", "mountPath": "/data/runs"},
        ]
    for pod in pods_of(written):
        assert pod.words == ["rltrain", *GPUS.split(), "--log-root", "/data/runs", *GOING_ON, *PULL]
        assert pod.environ["A"] == "$(B)$$"


GOING_ON, PULL = ["--auto-resume", "--run-name", "walk"], ["--join-timeout", "1800"]
RUNS_KEPT = ("--volume", "runs:/runs")


def policies(written) -> tuple[set, list]:
    """Return the restart policies of the pods, and how often all are started again."""
    found = dict(walk(written, ()))
    often = [value for path, value in found.items() if path and path[-1] in LIMITS]
    return {each for path, each in found.items() if path and path[-1] == "restartPolicy"}, often


LIMITS = ("maxRestarts", "backoffLimit")


def test_pods_are_started_again_and_the_run_goes_on(manifest):
    # A JobSet starts all of its pods again together, so that none of them may be started alone.
    assert policies(manifest("jobset", GPUS, *RUNS_KEPT)) == ({"Never"}, [3, 0])
    assert policies(manifest("pytorchjob", GPUS, *RUNS_KEPT)) == ({"OnFailure"}, [3])
    # A TrainJob has the policy of its runtime.
    assert policies(manifest("trainjob", GPUS, *RUNS_KEPT)) == (set(), [])
    named = f"{GPUS} --run-name mine --join-timeout 60"
    words = pods_of(manifest("jobset", named, *RUNS_KEPT, "--restarts", "5"))[0].words
    assert words == ["rltrain", *named.split(), "--log-root", "/runs", "--auto-resume"]
    # What was learned is lost with a pod, or it is not wanted.
    for more in ((), (*RUNS_KEPT, "--restarts", "0")):
        written = manifest("pytorchjob", GPUS, *more)
        assert policies(written) == ({"Never"}, [0])
        assert "--auto-resume" not in pods_of(written)[0].words


PATCH = """
nodeSelector: {gpu: h100}
imagePullSecrets: [{name: registry}]
tolerations: [{key: gpu, operator: Exists}]
terminationGracePeriodSeconds: 600
volumes: [{name: shared-memory, emptyDir: {sizeLimit: 8Gi}}, {name: data, emptyDir: {}}]
containers: [{volumeMounts: [{name: data, mountPath: /data}]}]
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_patch_requests_and_a_queue_have_the_form_that_is_published(manifest, kind, tmp_path):
    path = tmp_path / "patch.yaml"
    path.write_text(PATCH)
    asked = ("--cpus", "8", "--memory", "64Gi", "--queue", "q" * 40, "--patch", str(path))
    written = manifest(kind, GPUS, *RUNS_KEPT, *asked)
    assert errors(written) == []
    assert written["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q" * 40}
    last = {path[-1]: value for path, value in walk(written, ()) if path}
    assert last["requests"] == {"cpu": "8", "memory": "64Gi"}
    assert last["limits"] == {"nvidia.com/gpu": 4, "memory": "64Gi"}
    assert last["nodeSelector"] == {"gpu": "h100"}
    assert last["imagePullSecrets"] == [{"name": "registry"}]
    assert last["terminationGracePeriodSeconds"] == 600
    assert [each["name"] for each in last["volumes"]] == ["shared-memory", "runs", "data"]
    assert last["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert [each["name"] for each in last["volumeMounts"]] == ["shared-memory", "runs", "data"]
    assert len(pods_of(written)) == 3


def test_a_trainjob_passes_what_the_operator_checks_besides(manifest):
    """By jobset.go of Kubeflow Trainer 2.3."""
    (patch,) = manifest("trainjob", GPUS)["spec"]["runtimePatches"]
    assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9_.-]+", patch["manager"])
    # The pods and the container of the runtime torch-distributed.
    (jobs,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    (container,) = jobs["template"]["spec"]["template"]["spec"]["containers"]
    assert (jobs["name"], container["name"]) == ("node", "node")


def test_a_trainjob_has_the_runtime_that_is_named(manifest):
    assert manifest("trainjob", GPUS)["spec"]["runtimeRef"] == {"name": "torch-distributed"}
    written = manifest("trainjob", GPUS, "--runtime", "ours")
    assert written["spec"]["runtimeRef"] == {"name": "ours"}


def test_run_folders_may_be_below_the_volume(manifest):
    written = manifest("jobset", f"{GPUS} --log-root /runs/mine", "--volume", "runs:/runs")
    assert pods_of(written)[0].words[-7:-5] == ["--log-root", "/runs/mine"]


def test_a_manifest_goes_to_stdout_and_the_file_is_the_same(manifest, capsys):
    manifest("jobset", GPUS, "--volume", "runs:/runs")
    out, err = capsys.readouterr()
    check_said(out)
    assert err == ""
    manifest("jobset", GPUS)
    check_said(capsys.readouterr().err)
    words = ("--kind", "jobset", "--name", "walk", "--image", "me/train:1", "--", *GPUS.split())
    assert main(["manifest", *words]) == 0
    assert capsys.readouterr().out == Path("walk.yaml").read_text()


def test_a_secret_in_a_manifest_is_warned_of(manifest, capsys):
    manifest("jobset", GPUS, "--volume", "runs:/runs", "--env", "WANDB_API_KEY=mine")
    check_said(capsys.readouterr().err)


def test_the_page_on_clusters_shows_what_happens(plan, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "clusters.md").read_text()
    section = page.partition("## On Kubernetes")[2].partition("\n## ")[0]
    (line,) = re.findall(r"^    rltrain (manifest .*\\\n.*)$", section, re.MULTILINE)
    wrote, ranks = re.findall(r"```text\n(.*)\n```", section)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line.replace("\\\n", ""))) == 0
    assert capsys.readouterr().out.splitlines() == [wrote, "Next: kubectl apply -f walk.yaml"]
    written = yaml.safe_load(Path("walk.yaml").read_text())
    assert errors(written) == []
    assert plan(pods_of(written)[1], 4) == ranks


# Mistakes: each is one message, and nothing is written.

JOB = "--kind jobset --name walk --image me/train:1 --output walk.yaml"
WRONG = [
    ("", "the following arguments are required: --kind, --name, --image"),
    (JOB, "No run is given. Write its flags after --"),
    (f"{JOB} --library rsl_rl", "Unknown argument '--library'. See rltrain manifest --help."),
    (f"{JOB} --kind jobs -- --seed 1", "must be one of trainjob, pytorchjob, jobset. Did you mean"),
    (f"{JOB} --runtime r -- --seed 1", "--runtime: a jobset has none."),
    (f"{JOB} --name My_Run -- --seed 1", "--name My_Run: must have small letters"),
    (f"{JOB} --name {'a' * 41} -- --seed 1", "40 characters at most"),
    (f"{JOB} --image= -- --seed 1", "--image '': must be text, not empty"),
    (f"{JOB} --volume runs -- --seed 1", "--volume runs: must be CLAIM:PATH"),
    (f"{JOB} --volume runs:logs -- --seed 1", "must be CLAIM:PATH"),
    (f"{JOB} --volume Runs:/logs -- --seed 1", "must be CLAIM:PATH"),
    (f"{JOB} --volume runs:/dev/shm -- --seed 1", "cannot be mounted there"),
    (f"{JOB} --volume runs:/ -- --seed 1", "cannot be mounted there"),
    (f"{JOB} --restarts 2 -- --seed 1", "--restarts 2: without --volume"),
    (
        f"{JOB} --volume runs:/runs --kind trainjob --restarts 2 -- --seed 1",
        "policy of its runtime",
    ),
    (f"{JOB} --queue Q -- --seed 1", "--queue Q: must have small letters"),
    (f"{JOB} --patch none.yaml -- --seed 1", "--patch none.yaml: there is no such file"),
    (f"{JOB} --env A -- --seed 1", "--env A: must be NAME=VALUE"),
    (f"{JOB} --env 1A=2 -- --seed 1", "--env 1A=2: must be NAME=VALUE"),
    (f"{JOB} --output none/walk.yaml -- --seed 1", "--output none/walk.yaml: cannot be written"),
    (f"{JOB} -- rltrain --seed 1", "rltrain: leave it out"),
    (f"{JOB} -- tasks", "rltrain tasks: does not train"),
    (f"{JOB} -- --library rslrl", "Unknown library 'rslrl'. Did you mean 'rsl_rl'"),
    (f"{JOB} -- --framework jax --distributed --num-gpus 2", "rl_games runs on torch only"),
    (f"{JOB} -- --distributed", "--distributed: a manifest requests a number of GPUs"),
    (f"{JOB} -- --distributed --nproc-per-node gpu", "--nproc-per-node gpu: a manifest requests"),
    (f"{JOB} -- --distributed --gpu-ids 0 1", "--gpu-ids: a pod sees only the GPUs"),
    (f"{JOB} -- {GPUS} --node-rank 0", "--node-rank: Kubernetes numbers the pods"),
    (f"{JOB} -- {GPUS} --master-addr a", "--master-addr: Kubernetes numbers the pods"),
    (f"{JOB} -- {GPUS} --master-port 1", "--master-port: Kubernetes numbers the pods"),
    (f"{JOB} -- {GPUS} --coordinator-address a:1", "--master-addr: Kubernetes numbers the pods"),
    (f"{JOB} -- {GPUS} --rdzv-backend c10d", "--rdzv-backend: nodes that number"),
    (f"{JOB} -- {GPUS} --cluster none", "--cluster: Kubernetes numbers the pods"),
    (f"{JOB} -- {GPUS} --launcher processes", "--launcher: Kubernetes starts the nodes"),
    (f"{JOB} --volume runs:/runs -- {GPUS} --log-root logs", "--log-root logs: is not on the vol"),
]


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line for line, _ in WRONG])
def test_what_is_wrong_is_reported_in_one_message(tmp_path, monkeypatch, capsys, line, message):
    monkeypatch.chdir(tmp_path)
    assert main(["manifest", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rltrain: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
