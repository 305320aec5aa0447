"""Sessions of ranks whose library does what a test says."""

from __future__ import annotations

import stub_parts

from rltrain.hookspecs import hookimpl
from rltrain.plugins.manager import RunPlugins
from rltrain.run.session import RankSession
from rltrain.testing import make_config
from rltrain.types import World


class Body:
    """A rank's group as its backend, and as its library a function of the session."""

    def __init__(self, group, body, learns_nothing=True):
        self.group, self.body, self.learns_nothing = group, body, learns_nothing

    @hookimpl
    def rltrain_init_distributed(self):
        return self.group

    @hookimpl
    def rltrain_wrap_model(self, model):
        return model

    @hookimpl
    def rltrain_gradient_sync(self):
        return lambda gradients: gradients

    @hookimpl
    def rltrain_train(self, session):
        if self.learns_nothing:
            session.watch("nothing", dict)
        self.body(session)
        return session.result()


def session_of(group, body, plugins=None, *, arrays=None, learns_nothing=True, **options):
    """Return a rank's session, in which `body` trains; each rank is on a node of its own."""
    registered, rank, ranks = RunPlugins(), group.rank, group.world_size
    named = {"suite": stub_parts.StubSuite(), **(plugins or {})}
    for name, plugin in {"library": Body(group, body, learns_nothing), **named}.items():
        registered.register(plugin, name)
    config = make_config(distributed=True, **{"num_envs": 2, **options})
    return RankSession(config, World(rank, 0, rank, ranks, 1, ranks), registered, arrays=arrays)
