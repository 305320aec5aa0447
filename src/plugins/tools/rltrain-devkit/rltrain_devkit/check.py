"""Says what is wrong with an installed plugin: declarations, classes, and functions of specs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rltrain.clusters import StartedNode, StartedRank
from rltrain.commands import add_flags, command_of, make_parser, print_json, read_flags
from rltrain.config import RunConfig
from rltrain.errors import PluginError, RltrainError, UsageError, suggest
from rltrain.options import Group, Scope
from rltrain.plugins import PluginRecord, Registry, discover, usual_of
from rltrain.specs import (
    BackendSpec,
    ClusterSpec,
    CommandSpec,
    LibrarySpec,
    Spec,
    SuiteSpec,
    load_object,
)
from rltrain.terminal import one_line
from rltrain.testing import RunPlugins
from rltrain.types import ArrayInfo, Iteration, TaskInfo
from rltrain_devkit.kits.rules import heavy_imports

OWN = Group("options")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The command's options."""

    name: str = OWN.named(
        "", Scope.COMMAND, "a plugin, or what it provides", kind="word", required=True
    )
    json: bool = OWN.switch(Scope.COMMAND, "print JSON")


class CheckCommand:
    """Say what is wrong with an installed plugin; the status is 1 if anything is.

    It imports the plugin's classes, makes an object of each, and calls the functions that a plan
    calls. What only training shows, the conformance kits find.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=CheckOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print what is wrong, a line each."""
        own = read_flags(CheckOptions, arguments)
        if not own.name:
            raise UsageError("Name a plugin, or what it provides. `rltrain plugins` lists all.")
        registry, same = discover(), own.name.replace("_", "-")
        found: dict[str, list[str]] = {}
        for record in registry.records:
            names = {record.name.replace("_", "-"), record.distribution.replace("_", "-")}
            specs = [x for x in record.specs if same in names or x.name.replace("_", "-") == same]
            if same in names or specs:
                found[record.origin] = [*_wrong(record, specs, registry)]
        if not found:
            known = [record.name for record in registry.records]
            raise UsageError(f"check {own.name}: no such plugin.{suggest(own.name, known)}")
        if own.json:
            print_json(found)
        else:
            for origin, wrong in found.items():
                for each in wrong or ["nothing is wrong"]:
                    print(one_line(f"{origin}: {each}"))
        return int(any(found.values()))


def _wrong(record: PluginRecord, specs: Collection[Spec], registry: Registry) -> Iterator[str]:
    if record.status != "ready":
        yield f"is {record.status}: {record.reason.rstrip('.')}."
        return
    if heavy := heavy_imports(record):
        yield (
            f"its module imports {', '.join(heavy)} whenever plugins are listed. Import inside "
            "functions, or in the factory's module."
        )
    for spec in specs:
        checks = _Checks()
        checks.wrong += [*_declared(spec), *_of_backends(spec, registry)]
        checks.load(spec, registry)
        checks.ask(spec)
        yield from (f"{spec.kind} {spec.name}: {each}" for each in checks.wrong)


def _declared(spec: Spec) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", spec.name):
        yield "its name must be a word of letters, digits, '-' and '_', which users type."
    for name in ("frameworks", "algorithms"):
        if not isinstance(value := getattr(spec, name, ()), (tuple, list, set, frozenset)):
            yield f"{name} must be a tuple, such as ({value!r},)."
    if isinstance(spec, LibrarySpec) and not (spec.algorithms and spec.frameworks):
        yield "a library must name its algorithms and its frameworks."


def _of_backends(spec: Spec, registry: Registry) -> Iterator[str]:
    backends = registry.all(BackendSpec)
    known = sorted({each.framework for each in backends})
    for each in [each for each in getattr(spec, "frameworks", ()) if each not in known]:
        yield (
            f"no installed backend knows the framework {each!r}.{suggest(each, known)} They know "
            f"{', '.join(known)}: name one, or install a backend's plugin."
        )
    if isinstance(spec, BackendSpec):
        launcher = usual_of(registry, spec.framework, "launcher", spec.name)
        sync = usual_of(registry, spec.framework, "grad_sync", spec.name)
        for what in [*["launcher"] * (launcher is None), *["grad_sync"] * (sync is None)]:
            yield f"name a {what}: runs of the framework {spec.framework} have no usual one."


def _parser_of(spec: CommandSpec) -> None:
    _, loaded, _ = command_of([spec.name])
    if loaded.spec != spec:
        raise PluginError("rltrain has a command of this name, and runs that one. Rename yours.")
    for method in spec.requires:
        getattr(loaded.command, method)
    make_parser(loaded, spec.name)


class _Checks:
    """Does with a spec what a plan, a rank and a command do, and keeps what is wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def load(self, spec: Spec, registry: Registry) -> None:
        """Load what the spec names."""
        try:
            registry.get(type(spec), spec.name)
        except UsageError as error:
            self.wrong.append(str(error))
        for name, value in vars(spec).items():
            if isinstance(value, str) and re.fullmatch(r"[\w.]+:\w+", value):
                found = self.call(name, partial(load_object, value))
                if name == "options" and found and not found.__dataclass_params__.frozen:
                    self.wrong.append(f"{value}: make it @dataclass(frozen=True).")
        if isinstance(spec, CommandSpec):
            self.call("command", lambda: _parser_of(spec))
        elif spec.factory:
            self.call("factory", lambda: RunPlugins().choose(spec))

    def ask(self, spec: Spec) -> None:
        """Call the functions of the spec."""
        if isinstance(spec, SuiteSpec):
            tasks = self.call("tasks()", lambda: list(spec.tasks()))
            for task in ["no/such", *(tasks or ())[:1]]:
                self.call("describe()", partial(spec.describe, task, {}), TaskInfo, type(None))
        if isinstance(spec, ClusterSpec):
            self.call("find()", lambda: spec.find({}), StartedRank, StartedNode, type(None))
        if isinstance(spec, LibrarySpec) and spec.algorithms and spec.frameworks:
            self._ask_library(spec)

    def _ask_library(self, spec: LibrarySpec) -> None:
        group = {"policy": ArrayInfo((4,))}
        task = TaskInfo("any", "continuous", observations=group, actions=(1,))
        algorithm = spec.algorithms[0]
        agent = self.call("default_agent()", lambda: spec.default_agent(task, algorithm), Mapping)
        if agent is None:
            return
        names: dict[str, Any] = {"library": spec.name, "algorithm": algorithm}
        names["framework"] = spec.frameworks[0]
        names |= dict.fromkeys(("task", "suite", "backend", "grad_sync"), "any")
        run = RunConfig(agent=agent, num_envs=8, **names)
        if spec.iteration is not None:
            self.call("iteration()", lambda: spec.iteration and spec.iteration(run), Iteration)
        for refusal in spec.refuses:
            self.call(f"refusal {refusal.name!r}", partial(refusal.applies, run, task))

    def call(self, what: str, function: Callable[[], Any], *kinds: type) -> Any:
        """Return what a function returns; None if it raises, or returns another kind."""
        try:
            answer = function()
        except UsageError:  # It may refuse what it is asked for.
            return None
        except Exception as error:
            name = "" if isinstance(error, RltrainError) else f"raises {type(error).__name__}: "
            self.wrong.append(f"{what}: {name}{error}")
            return None
        if kinds and not isinstance(answer, kinds):
            wanted = " or ".join(each.__name__.removesuffix("Type") for each in kinds)
            self.wrong.append(f"{what} must return {wanted}, not {type(answer).__name__}.")
            return None
        return answer
