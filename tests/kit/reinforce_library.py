"""A complete library plugin in one module: REINFORCE with a learned baseline.

The kit's tests read it as text, and change one line to make it wrong.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from pathlib import Path

from rltrain import hookimpl
from rltrain.errors import StopTraining
from rltrain.records import Scalars
from rltrain.specs import LibrarySpec, Refusal
from rltrain.unpickling import load_data


def default_agent(task, algorithm):
    return {"reinforce": {"steps": 32, "discount": 0.95, "learning_rate": 0.01, "std": 0.5}}


def top_level_keys(path, trusted):
    return list(load_data(Path(path).read_bytes(), trusted))


@hookimpl
def rltrain_provides():
    return [
        LibrarySpec(
            name="reinforce",
            factory=f"{__name__}:ReinforceLibrary",
            frameworks=("torch",),
            algorithms=("reinforce",),
            default_agent=default_agent,
            required_keys=("reinforce.steps",),
            refuses=(
                Refusal(
                    "discrete actions",
                    applies=lambda config, task: task.action != "continuous",
                    reason="The policy is a Gaussian.",
                    instead="Take a task with continuous actions.",
                ),
            ),
            read_checkpoint=f"{__name__}:top_level_keys",
            checkpoint_keys=frozenset({"reinforce", "iteration"}),
        )
    ]


class ReinforceLibrary:
    @hookimpl
    def rltrain_train(self, session):
        agent = Agent(session)
        if session.checkpoint is not None:
            agent.load(session.checkpoint)
        session.seed("learner")
        left = session.iterations_left(session.config.max_iterations, agent.iteration)
        agent.run(left)
        return session.result()


class Agent:
    def __init__(self, session):
        import torch

        self.session, self.iteration = session, 0
        self.options = session.config.agent["reinforce"]
        (size,) = session.env.single_observation_space.shape
        (actions,) = session.env.single_action_space.shape
        self.policy = session.wrap_model(network(size, actions), "policy")
        self.value = session.wrap_model(network(size, 1), "value")
        self.normalizer = session.wrap_model(normalizer(size), "normalizer")
        models = [self.policy, self.value]
        self.synchronized = [p for model in models for p in model.parameters()]
        self.sync = session.gradient_sync(self.synchronized)
        parameters = [p for model in models for p in model.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=self.options["learning_rate"])

    def run(self, iterations):
        with contextlib.suppress(StopTraining):
            self.learn(iterations)
        self.session.save_checkpoint("last.pkl", self.save, self.iteration)

    def learn(self, iterations):
        session = self.session
        observations, _ = session.env.reset()
        last = self.iteration + iterations
        while self.iteration < last:
            self.iteration += 1
            observations, batch = self.rollout(observations)
            loss = self.update(*batch)
            session.record(Scalars(self.iteration, {"loss": loss}, last))
            if session.should_stop:
                raise StopTraining
            if session.should_save:
                session.save_checkpoint(f"{self.iteration}.pkl", self.save, self.iteration)

    def rollout(self, observations):
        import torch

        env, seen, taken, rewards, alive = self.session.env, [], [], [], []
        for _ in range(self.options["steps"]):
            self.measure(observations)
            with torch.no_grad():
                actions = torch.normal(self.policy(self.normal(observations)), self.options["std"])
            seen.append(observations)
            observations, reward, end, cut, _ = env.step(actions)
            taken.append(actions)
            rewards.append(reward)
            alive.append(1.0 - (end | cut).float())
        return observations, [torch.stack(x) for x in (seen, taken, rewards, alive)]

    def update(self, observations, actions, rewards, alive):
        from rltrain_torch.gradients import synchronize

        observations = self.normal(observations)
        values = self.value(observations).squeeze(-1)
        returns, following = rewards.clone(), values[-1].detach()
        for step in reversed(range(len(rewards))):
            following = rewards[step] + self.options["discount"] * alive[step] * following
            returns[step] = following
        advantages = (returns - values).detach()
        errors = (actions - self.policy(observations)) / self.options["std"]
        likelihood = -0.5 * errors.square().sum(-1)
        loss = (returns - values).square().mean() - (likelihood * advantages).mean()
        self.optimizer.zero_grad()
        loss.backward()
        synchronize(self.sync, self.synchronized)
        self.optimizer.step()
        return loss.item()

    def measure(self, observations):
        import torch

        x = observations.double()
        moments = torch.stack([torch.ones_like(x).sum(0), x.sum(0), x.square().sum(0)])
        self.normalizer.moments += self.session.group.all_reduce(moments)

    def normal(self, observations):
        count, total, squares = self.normalizer.moments
        mean = total / count
        std = (squares / count - mean.square()).clamp(min=1e-4).sqrt()
        return ((observations - mean) / std).float()

    def save(self, path):
        import torch

        state = io.BytesIO()
        torch.save([x.state_dict() for x in self.parts()], state)
        # Plain objects on the outside, so that the keys can be read without torch.
        path.write_bytes(pickle.dumps({"reinforce": state.getvalue(), "iteration": self.iteration}))

    def load(self, path):
        import torch

        saved = load_data(path.read_bytes())
        states = torch.load(io.BytesIO(saved["reinforce"]), weights_only=True)
        for part, state in zip(self.parts(), states, strict=True):
            part.load_state_dict(state)
        self.iteration = saved["iteration"]

    def parts(self):
        return self.policy, self.value, self.normalizer, self.optimizer


def network(inputs, outputs):
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def normalizer(size):
    import torch

    module = torch.nn.Module()
    module.register_buffer("moments", torch.zeros(3, size, dtype=torch.float64))
    return module
