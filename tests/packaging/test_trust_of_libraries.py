"""What the libraries' options in a run folder say is taken only if it can do no harm."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
from messages import says
from omegaconf import OmegaConf
from test_trust import HOSTILE, plant

from rltrain.cli.train import read_options
from rltrain.errors import UsageError
from rltrain.files.dotted import texts
from rltrain.plan.files import with_options_of_run
from rltrain.plan.resolve import make_plan
from rltrain.plugins.registry import discover
from rltrain.policies.trained import find_trained
from rltrain.specs import LibrarySpec
from rltrain.storage.manifest import write_config
from rltrain.storage.run_folder import create_run_folder


def libraries():
    for spec in discover().all(LibrarySpec):
        for framework, algorithm in itertools.product(spec.frameworks, spec.algorithms):
            yield spec.name, framework, algorithm


LIBRARIES = [each for each in libraries() if each[0] != "stub"]


@pytest.fixture
def trained(tmp_path):

    def plan(library, framework, algorithm, **options):
        action = "rltrain/CartPole-v1" if "dqn" in algorithm else "rltrain/CartPoleContinuous-v1"
        return make_plan(
            {
                "library": library,
                "framework": framework,
                "algorithm": algorithm,
                "task": action,
                "device": "cpu",
                "log_root": str(tmp_path / "logs"),
                **options,
            },
            {},
            trains=False,
        )

    def begin(*which):
        config = plan(*which).config
        folder = create_run_folder(config.log_root, config.library, config.task, None)
        folder.write_manifest({"config": dict(vars(config)), "folder": os.getcwd()})
        write_config(folder, config)
        return folder.path

    return plan, begin


@pytest.mark.parametrize("which", LIBRARIES, ids="-".join)
def test_a_run_of_ones_own_is_read_without_a_word(trained, which, capsys):
    plan, begin = trained
    run = begin(*which)
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.pt").write_bytes(b"")
    (run / "checkpoints.json").write_text(
        '[{"name": "last.pt", "iteration": 1, "episode_return": null}]'
    )
    first = plan(*which).config
    found = [
        with_options_of_run({"resume": str(run)})[0],
        dict(find_trained(str(run), None, {}).options),
        read_options({"config": str(run / "config.yaml")}, []),
    ]
    for options in found:
        again = make_plan({**options, "resume": None, "checkpoint": None}, {}, trains=False).config
        assert (again.env, again.task) == (first.env, first.task)
        assert set(texts(again.agent)) >= set(texts(first.agent))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("which", LIBRARIES, ids="-".join)
def test_no_text_of_a_librarys_options_takes_a_hostile_value(trained, which):
    plan, begin = trained
    run = begin(*which)
    before = (run / "agent.yaml").read_text()
    original = OmegaConf.to_container(OmegaConf.load(run / "agent.yaml"))
    keys = [key for key, text in texts(original) if not key.endswith(f".{text}") and key != text]
    added = ["class_name", "data_augmentation_func", "added.nested.class_name", "0"]
    plants = itertools.cycle(HOSTILE.items())
    rounds = [plants] if len(keys) > 12 else [plants, plants]
    for key in [key for _ in rounds for key in (*keys, *added)]:
        what, value = next(plants)
        (run / "agent.yaml").write_text(before)
        plant(run, key, value, "agent.yaml")
        with pytest.raises(UsageError, match="--trust") as caught:
            plan(*which, agent_config=str(run / "agent.yaml"))
        assert key.rpartition(".")[2] in str(caught.value), what
    # The names of options are passed on as well.
    (run / "agent.yaml").write_text(before)
    plant(run, "models" if which[0] == "skrl" else "model", {HOSTILE["code"]: 1}, "agent.yaml")
    with pytest.raises(UsageError, match="--trust"):
        plan(*which, agent_config=str(run / "agent.yaml"))


def test_the_user_may_replace_what_is_refused(trained):
    plan, begin = trained
    run = begin("rsl_rl", "torch", "ppo")
    plant(run, "actor.class_name", "planted:Class", "agent.yaml")
    file = {"agent_config": str(run / "agent.yaml")}
    with says(UsageError):
        plan("rsl_rl", "torch", "ppo", **file)
    mine = plan("rsl_rl", "torch", "ppo", **file, agent={"actor.class_name": "MLPModel"})
    assert mine.config.agent["actor"]["class_name"] == "MLPModel"
    trusted = plan("rsl_rl", "torch", "ppo", **file, trust=True)
    assert trusted.config.agent["actor"]["class_name"] == "planted:Class"


HARMLESS = [
    ("rsl_rl", "torch", "ppo", "actor.class_name", "rsl_rl.models:MLPModel"),
    ("rsl_rl", "torch", "ppo", "algorithm.class_name", "rsl_rl.algorithms.ppo.PPO"),
    ("skrl", "torch", "ppo", "models.policy.network.0.input", "concatenate([STATES, ACTIONS])"),
    ("skrl", "torch", "ppo", "models.policy.output", "2 * tanh(ACTIONS) - 1.0"),
    ("skrl", "torch", "ppo", "models.policy.network.0.input", 'OBSERVATIONS["policy"] / 255'),
]


@pytest.mark.parametrize(("library", "framework", "algorithm", "key", "value"), HARMLESS)
def test_what_a_library_declares_harmless_is_taken(
    trained, library, framework, algorithm, key, value
):
    plan, begin = trained
    run = begin(library, framework, algorithm)
    plant(run, key, value, "agent.yaml")
    agent = plan(library, framework, algorithm, agent_config=str(run / "agent.yaml")).config.agent
    assert (key, value) in set(texts(agent))


NOT_HARMLESS = [
    ("rsl_rl", "actor.class_name", "rsl_rl.utils.utils:importlib.import_module"),
    ("rsl_rl", "algorithm.class_name", "rsl_rl.planted"),
    ("skrl", "models.policy.output", "exec(ACTIONS)"),
    ("skrl", "models.policy.output", "ACTIONS.__class__"),
    ("skrl", "models.policy.output", "tanh(ACTIONS, out=exec)"),
    ("skrl", "models.policy.output", "[x for x in ACTIONS]"),
    ("skrl", "models.policy.output", "(lambda: ACTIONS)()"),
    ("skrl", "models.policy.network.0.input", "OBSERVATIONS['a.b']"),
    ("skrl", "models.policy.network.0.activations", "tanh(OBSERVATIONS)"),
    ("skrl", "models.policy.network.0.name", "net = exec"),
]


@pytest.mark.parametrize(("library", "key", "value"), NOT_HARMLESS)
def test_what_only_looks_harmless_is_refused(trained, library, key, value):
    plan, begin = trained
    run = begin(library, "torch", "ppo")
    plant(run, key, value, "agent.yaml")
    with says(UsageError):
        plan(library, "torch", "ppo", agent_config=str(run / "agent.yaml"))


LIVE = {
    "skrl": (
        "models.policy.output",
        "ACTIONS + 0 * len([__import__('pathlib').Path('planted').touch()])",
    ),
    "rsl_rl": ("actor.class_name", "planted_module:Model"),
}


@pytest.mark.slow
@pytest.mark.parametrize("library", LIVE)
def test_what_is_planted_for_a_real_library_does_not_run(tmp_path, library):
    (tmp_path / "planted_module.py").write_text("import pathlib\npathlib.Path('planted').touch()\n")

    def rltrain(*words):
        command = [sys.executable, "-m", "rltrain", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)

    small = ["--library", library, "--num-envs", "4", "--max-iterations", "1", "--device", "cpu"]
    assert not (done := rltrain(*small, "--writer", "console")).returncode, done.stderr
    (run,) = (path.parent for path in tmp_path.glob("logs/*/*/*/agent.yaml"))
    own = rltrain("evaluate", str(run), "--episodes", "1", "--num-envs", "1", "--device", "cpu")
    assert (own.returncode, "not taken" in own.stderr) == (0, False), own.stderr
    plant(run, *LIVE[library], "agent.yaml")
    commands = [
        ["--resume", str(run), "--max-iterations", "2"],
        ["--resume", str(run), "--max-iterations", "2", "--dry-run"],
        ["evaluate", str(run)],
        ["play", str(run), "--viewer", "none", "--steps", "1"],
        ["export", str(run), "--format", "jit"],
        [*small, "--agent-config", str(run / "agent.yaml")],
        ["--config", str(run / "config.yaml")],
    ]
    for command in commands:
        done = rltrain(*command)
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1, done.stderr
        assert LIVE[library][0] in done.stderr
        assert not (tmp_path / "planted").exists(), command
    # The plant is a live one.
    rltrain("evaluate", str(run), "--episodes", "1", "--num-envs", "1", "--trust")
    assert (tmp_path / "planted").exists()
