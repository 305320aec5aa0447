"""For fake worlds: what they keep for each rank, and an observer that acts in a rollout."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl

RANK_LOCAL = {"skrl": ["skrl:config.torch", "skrl:config.jax"]}
"""By library, what a fake world must keep for each rank."""


class InStep:
    """Does something on rank 1, in its step number `at`."""

    def __init__(self, at, do):
        self.at, self.do = at, do

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, done = env.step, 0

        def counted(actions):
            nonlocal done
            done += 1
            if session.world.rank == 1 and done == self.at:
                self.do()
            return step(actions)

        env.step = counted
        return env
