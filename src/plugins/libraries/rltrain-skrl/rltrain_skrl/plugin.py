"""What this plugin provides. It must not import skrl, which can start a process group."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Spec
from rltrain_skrl.declare.choices import choices, only_computes
from rltrain_skrl.declare.iteration import iteration
from rltrain_skrl.declare.keys import ignored, keys
from rltrain_skrl.declare.options import ALGORITHMS, RESTORED, default_agent, in_jax
from rltrain_skrl.declare.refusals import REFUSES


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library skrl."""
    return [
        LibrarySpec(
            name="skrl",
            factory="rltrain_skrl.run.library:SkrlLibrary",
            summary="skrl's agents, with the options of its Runner",
            frameworks=("torch", "jax"),
            algorithms=ALGORITHMS,
            default_agent=default_agent,
            convert_defaults={"jax": in_jax},
            schema=OptionSchema(
                required=("models", "agent.class", "trainer"),
                check_types=True,
                keys=keys,
                choices=choices,
                ignored=ignored,
                is_safe_value=only_computes,
                run_keys={"seed": "seed"},
                restored=RESTORED,
            ),
            refuses=REFUSES,
            iteration=iteration,
            checkpoint=CheckpointFormat(
                "rltrain_skrl.run.checkpoints:parts", frozenset({"an agent of skrl"})
            ),
            # For torch: ranks of jax are not forked.
            preload=dict.fromkeys(("cpu", "cuda"), "rltrain_skrl.run.torch.runner"),
        )
    ]
