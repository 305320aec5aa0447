"""A whole run on the ranks of a fake world: only the process group and launcher are replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.metrics.divergence import leaves
from rltrain.plan.draft import Plan
from rltrain.plan.resolve import make_plan
from rltrain.plugins.registry import discover
from rltrain.run.session import RankSession
from rltrain.run.worker import make_session
from rltrain.specs import ObserverSpec
from rltrain.testing.fake.group import FakeGroup
from rltrain.types import TrainResult, World


@dataclass(frozen=True)
class RankRun:
    """The outcome of training on one rank."""

    result: TrainResult
    """What the library returned on this rank."""
    models: Mapping[str, Any]
    """The wrapped models by role, after training: torch modules or jax pytrees."""
    observers: Sequence[Any]
    """This rank's observers, in the order in which they were given."""

    def state(self) -> dict[str, Any]:
        """Return every tensor of the models' state, buffers included, by "role.name"."""
        return {
            f"{role}.{name}": tensor
            for role, model in self.models.items()
            for name, tensor in (
                model.state_dict() if hasattr(model, "state_dict") else leaves(model)
            ).items()
        }


def differing(runs: Sequence[RankRun]) -> list[str]:
    """Return the names of the tensors that are not equal on all ranks.

    Args:
        runs: what `FakeWorld.train` returned.
    """
    first, *others = (run.state() for run in runs)
    names = dict.fromkeys([*first, *(name for other in others for name in other)])

    def same(name: str) -> bool:
        if not all(name in state for state in (first, *others)):
            return False
        x = first[name]
        return all(x.shape == state[name].shape and (x == state[name]).all() for state in others)

    return [name for name in names if not same(name)]


def plan_for(options: Mapping[str, Any], environ: Mapping[str, str]) -> Plan:
    """Plan a distributed run on the CPU for ranks that already exist."""
    for name in ("launcher", "nnodes", "nproc_per_node"):
        if options.get(name) is not None:
            raise UsageError(f"{name}={options[name]}: a fake world has its ranks. Leave it out.")
    chosen = {"writers": (), **options, "distributed": True}
    if not options.get("backend"):
        chosen.setdefault("device", "cpu")
    return make_plan(chosen, environ)


def named(observer: Any) -> Any:
    """Return the name of a class that a plugin declares with options; anything else as it is."""
    path = f"{getattr(observer, '__module__', '')}:{getattr(observer, '__qualname__', '')}"
    specs = discover().all(ObserverSpec)
    return next((x.name for x in specs if x.options and x.factory == path), observer)


def train_rank(
    plan: Plan, group: FakeGroup, observers: Sequence[Callable[[], object] | str] = ()
) -> RankRun:
    """Train on one rank of a fake world, with an ordinary session."""
    replacement = _StandIn(group)
    names = [x if isinstance(x, str) else f"observer {i}" for i, x in enumerate(observers)]
    made = {n: x() for n, x in zip(names, observers, strict=True) if not isinstance(x, str)}
    more = [("fake group", replacement), *made.items()]
    session = make_session(plan.config, group.world, plan.registry, more)
    watching = [made.get(x) or session._plugins[f"observer:{x}"] for x in names]
    result = session.run()
    models = {role: current(session, role, model) for role, model in replacement.models.items()}
    return RankRun(result, models, watching)


def current(session: RankSession, role: str, model: Any) -> Any:
    """Return the current state of a wrapped model.

    A module changes in place. A tree of arrays does not: its adapter registers a callable with a
    method `get_tree` with the divergence check, under the same role.
    """
    get_tree = getattr(session.recorder.watched.get(role), "get_tree", None)
    return model if get_tree is None else get_tree()


class _StandIn:
    """Returns the process group in the backend's place, and keeps the models."""

    def __init__(self, group: FakeGroup) -> None:
        self._group = group
        self.models: dict[str, Any] = {}

    @hookimpl(tryfirst=True)
    def rltrain_init_distributed(self, world: World) -> FakeGroup:
        return self._group

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role: str) -> Any:
        model = yield
        self.models[role] = model
        return model
