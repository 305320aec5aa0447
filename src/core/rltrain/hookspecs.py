"""Every hook: the contract between the core and its plugins, in one file.

A plugin is a module, named by an entry point of the group `rltrain`, that implements
`rltrain_provides`. The specs it returns name classes; of the classes chosen for a run the core
makes one object each, and calls the run hooks that they implement with `@rltrain.hookimpl`.

An implementation may leave out arguments that it does not need; `session` is always this rank's
side of the run. An observer wraps any hook with `@hookimpl(wrapper=True)`. `rltrain.specs.KINDS`
says which hooks each kind must implement. Of hooks that return something, the first result that is
not None counts, unless every plugin's is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from rltrain.config import Placement
    from rltrain.policy import Policy
    from rltrain.records import Record
    from rltrain.session import Session
    from rltrain.specs import Dialect, DoctorChecks, Spec
    from rltrain.types import GradientSync, ProcessGroup, Stream, TrainResult, World

__all__ = ["DeclarationHooks", "RunHooks", "hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("rltrain")
"""Marks the declaration of a hook. Only this file needs it."""
hookimpl = pluggy.HookimplMarker("rltrain")
"""Marks a plugin's implementation of a hook. `from rltrain import hookimpl` is the same object."""


class DeclarationHooks(Protocol):
    """The hooks of discovery. They run whenever plugins are listed, so they must be light."""

    @hookspec
    def rltrain_provides(self) -> Iterable[Spec]:
        """Return one spec for each thing that the plugin provides.

        Importing the plugin's module and calling this must import neither torch nor jax nor the
        library that is adapted: classes are named by import strings.

        Example:
            ```python
            @hookimpl
            def rltrain_provides():
                return [WriterSpec(name="csv", factory="my_plugin.csv:CsvWriter")]
            ```
        """

    @hookspec
    def rltrain_dialect(self) -> Dialect:
        """Return what users of another program type, and what it is here.

        Also asked of a plugin whose library is not installed, or not in a supported version.

        Example:
            ```python
            @hookimpl
            def rltrain_dialect():
                rows = [("tracker", "trackers are writers.", "Give --writer NAME.")]
                return Dialect(program="pocketrl", refuses=refusals(rows))
            ```
        """

    @hookspec
    def rltrain_checkup(self) -> DoctorChecks:
        """Return what is wrong on this machine, and what may help: for `rltrain doctor`.

        Example:
            ```python
            @hookimpl
            def rltrain_checkup():
                return DoctorChecks(remedies={"pocket": [{"POCKET_SOCKETS_ONLY": "1"}]})
            ```
        """


class RunHooks(Protocol):
    """The hooks of a run, in the order in which they are called.

    They live on a plugin manager that holds exactly the plugins chosen for the run and the
    observers, so that dispatch does not depend on the order of installation.
    """

    @hookspec(firstresult=True)
    def rltrain_init_distributed(self, world: World, config: Placement) -> ProcessGroup:
        """Make the process group: distributed init. A backend must implement it.

        Called once on every rank of a run started with `--distributed`, before anything else.
        Nothing else makes the group: a library adapter keeps its library from doing it again.
        `world` is this rank's place, its device included; `config` is where the run runs.

        Example:
            ```python
            @hookimpl
            def rltrain_init_distributed(self, world):
                return TorchProcessGroup("gloo", world)
            ```
        """

    @hookspec
    def rltrain_seed(self, stream: Stream, seed: int) -> None:
        """Seed every random generator that the plugin owns: seeding. A backend must implement it.

        Every plugin's implementation is called as a `stream` begins: `environment` (by global rank)
        before the environments are made, `model` (the same on all ranks) before the models are, and
        `learner` (by global rank) when the library's adapter says that its constructors are done.
        `seed` is 0 to 2**31 - 1.

        Example:
            ```python
            @hookimpl
            def rltrain_seed(self, seed):
                torch.manual_seed(seed)
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_make_env(self, session: Session) -> VectorEnv[Any, Any, Any]:
        """Make this rank's environments. A suite must implement it.

        The session gives `config.task`, `config.num_envs`, `config.env` (the `env.` options),
        `world.device`, and `seeds.environment`, with which the environments are to be seeded when
        they are first reset.

        Returns:
            A `gymnasium.vector.VectorEnv` with `num_envs` environments, whose arrays are of the
            session's framework (`session.framework`) on its device, with SAME_STEP autoreset.

        Raises:
            UsageError: what only a made environment shows is wrong with the options.

        Example:
            ```python
            @hookimpl
            def rltrain_make_env(self, session):
                return MyVectorEnv(session.config.num_envs, device=session.world.device)
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_wrap_model(self, session: Session, model: Any, role: str) -> Any:
        """Make a model one of the run's: model wrapping. A backend must implement it.

        Called through `session.wrap_model` once for each model that is trained or copied (target
        networks too), before the first rollout, on every rank in the same order. `model` is a
        module of torch or a pytree of jax; `role` its name in the library: "policy", "value".

        Returns:
            An object with the same interface, normally the same object, with rank 0's state,
            registered with the divergence check (`session.watch`). jax's arrays never change: of
            a pytree, the library's adapter registers what a step leaves.

        Example:
            ```python
            @hookimpl
            def rltrain_wrap_model(self, session, model, role):
                for tensor in model.state_dict().values():
                    tensor.copy_(session.group.broadcast(tensor))
                return model
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_gradient_sync(self, session: Session, parameters: Any, extras: int) -> GradientSync:
        """Make what averages gradients over ranks: gradient sync. Such a plugin must implement it.

        Called through `session.gradient_sync` once per optimizer, over all its `parameters`: a list
        of torch's, a pytree of jax's. The last `extras` of them are no parameters, but numbers that
        are averaged in the same call, such as a KL divergence or a count: a sync that rounds or
        clips gradients must not do so with these. The object that it returns is called in every
        optimization step, without a hook between.

        Example:
            ```python
            @hookimpl
            def rltrain_gradient_sync(self, session, parameters):
                mean = session.group.all_reduce
                return lambda gradients: [mean(g, "mean") for g in gradients]
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_train(self, session: Session) -> TrainResult:
        """Run the library until its iterations are done. A library must implement it.

        `session.env` has been made, and the stream `model` seeded. The adapter calls
        `session.seed("learner")` after the library's constructors, wraps every model, asks for a
        gradient sync for every optimizer, calls `session.record(Scalars(...))` once an iteration,
        and returns `session.result()`.

        Example:
            ```python
            @hookimpl
            def rltrain_train(self, session):
                agent = Agent(session.env, **session.config.agent)
                session.wrap_model(agent.policy, "policy")
                session.seed("learner")
                for iteration in range(1, session.config.max_iterations + 1):
                    session.record(Scalars(iteration, agent.learn()))
                    if session.should_stop:
                        break
                return session.result()
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_load_policy(self, session: Session) -> Policy:
        """Load a trained policy: for play, evaluate and export. A library should implement it.

        Nothing is trained: there is one rank, no optimizer is needed, and nothing may be written.
        `session.checkpoint` is the file to load, which may be one that the library's own scripts
        wrote; `session.config.agent` has the options of the run that wrote it. `session.env` has
        been made, with any number of environments: batches and mini-batches need not fit it. It may
        be reset, but not stepped.

        Raises:
            UsageError: the checkpoint does not fit the options or the task.

        Example:
            ```python
            @hookimpl
            def rltrain_load_policy(self, session):
                agent = Agent(session.env, **session.config.agent)
                agent.load(session.checkpoint)
                return MyPolicy(agent)
            ```
        """

    @hookspec(firstresult=True)
    def rltrain_describe_task(self, session: Session) -> Mapping[str, Any]:
        """Describe the task to whoever runs an exported policy without it: `rltrain export`.

        A suite that knows more than the spaces and `step_dt` of its environments implements it.
        `session.env` has been made.

        Returns:
            What JSON can hold, by name, such as the joints in the order of the actions. It is
            written to `policy.json`, under the suite's name. Values that are text also become
            metadata of an ONNX file, each under its own name.

        Example:
            ```python
            @hookimpl
            def rltrain_describe_task(self, session):
                robot = session.env.unwrapped.robot
                return {"joint_names": ",".join(robot.joints), "stiffness": robot.stiffness}
            ```
        """

    @hookspec
    def rltrain_save_state(self, session: Session) -> Any:
        """Return what this plugin needs on this rank so that a resumed run continues bit for bit.

        Every plugin's implementation is called on every rank when a checkpoint is saved. A backend
        gives the states of its generators. What is equal on all ranks and belongs to the model is
        in the library's own checkpoint. The result is picklable, on the host; the same state must
        give the same bytes.

        Example:
            ```python
            @hookimpl
            def rltrain_save_state(self):
                return torch.get_rng_state().numpy()
            ```
        """

    @hookspec
    def rltrain_load_state(self, session: Session, state: Any) -> None:
        """Continue from the `state` that `rltrain_save_state` returned on this rank.

        Called right after the stream `learner` is seeded, of a plugin that saved a state, where
        nothing has changed since: the same ranks, environments, task and seed.

        Example:
            ```python
            @hookimpl
            def rltrain_load_state(self, state):
                torch.set_rng_state(torch.from_numpy(state))
            ```
        """

    @hookspec
    def rltrain_write(self, record: Record) -> None:
        """Record one thing: rank-0 I/O. A writer must implement it.

        `record` is one of the union in `rltrain.records`. The core calls it on rank 0 only, with
        values already merged over ranks. `RunStarted` comes first and names the run folder, below
        which a writer writes.

        Example:
            ```python
            @hookimpl
            def rltrain_write(self, record):
                if isinstance(record, Scalars):
                    print(record.iteration, record.episode_return)
            ```
        """

    @hookspec
    def rltrain_shutdown(self, session: Session, error: BaseException | None) -> None:
        """Release what the plugin holds. Called last, always, on every rank.

        Every plugin's implementation is called, also when one of them raises. The process group is
        closed after it. After a failure parts of the session may be missing. `error` is what ended
        the run, or None: after an error, peers may be gone, so do not call collectives.

        Example:
            ```python
            @hookimpl
            def rltrain_shutdown(self):
                self.file.close()
            ```
        """
