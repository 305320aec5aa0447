"""A complete library plugin in one module: REINFORCE with a learned baseline.

The kit's tests read it as text, and change one line to make it wrong.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from pathlib import Path

from rltrain import hookimpl
from rltrain.errors import StopTraining
from rltrain.policy import PolicyModule
from rltrain.records import Scalars
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Refusal
from rltrain.types import ArrayInfo
from rltrain_adapters.unpickling import load_data


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
            schema=OptionSchema(required=("reinforce.steps",)),
            refuses=(
                Refusal(
                    "discrete actions",
                    applies=lambda config, task: task.action != "continuous",
                    reason="The policy is a Gaussian.",
                    instead="Take a task with continuous actions.",
                ),
            ),
            checkpoint=CheckpointFormat(
                f"{__name__}:top_level_keys",
                frozenset({"reinforce", "iteration"}),
            ),
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

    @hookimpl
    def rltrain_load_policy(self, session):
        return ReinforcePolicy(session)


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
            self.measure(batch[0].flatten(0, 1))
            session.record(Scalars(self.iteration, {"loss": loss}, last))
            if session.should_stop:
                raise StopTraining
            if session.should_save:
                session.save_checkpoint(f"{self.iteration}.pkl", self.save, self.iteration)

    def rollout(self, observations):
        import torch

        env, seen, taken, rewards, alive = self.session.env, [], [], [], []
        for _ in range(self.options["steps"]):
            with torch.no_grad():
                means = self.policy(normal(observations, self.normalizer.moments))
                actions = torch.normal(means, self.options["std"])
            seen.append(observations)
            observations, reward, end, cut, _ = env.step(actions)
            taken.append(actions)
            rewards.append(reward)
            alive.append(1.0 - (end | cut).float())
        return observations, [torch.stack(x) for x in (seen, taken, rewards, alive)]

    def update(self, observations, actions, rewards, alive):
        from rltrain_torch.gradients import synchronize

        observations = normal(observations, self.normalizer.moments)
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

    def save(self, path):
        import torch

        state = io.BytesIO()
        torch.save([x.state_dict() for x in self.parts()], state)
        # Plain objects on the outside, so that the keys can be read without torch.
        path.write_bytes(pickle.dumps({"reinforce": state.getvalue(), "iteration": self.iteration}))

    def load(self, path):
        states, self.iteration = load(path)
        for part, state in zip(self.parts(), states, strict=True):
            part.load_state_dict(state)

    def parts(self):
        return self.policy, self.value, self.normalizer, self.optimizer


class ReinforcePolicy:
    groups = ("policy",)

    def __init__(self, session):
        (size,) = session.env.single_observation_space.shape
        (actions,) = session.env.single_action_space.shape
        self.policy, self.normalizer = network(size, actions), normalizer(size)
        states, _ = load(session.checkpoint)
        self.policy.load_state_dict(states[0])
        self.normalizer.load_state_dict(states[2])
        self.std = session.config.agent["reinforce"]["std"]

    def act(self, observations, deterministic=True):
        import torch

        with torch.no_grad():
            means = self.policy(normal(observations, self.normalizer.moments))
            return means if deterministic else torch.normal(means, self.std)

    def reset(self, done=None):
        pass

    def module(self):
        policy = copy.deepcopy(self.policy)
        return PolicyModule(
            function=exported(policy, self.normalizer.moments.clone()),
            inputs={"policy": ArrayInfo((policy[0].in_features,))},
            output=ArrayInfo((policy[2].out_features,)),
        )


def exported(policy, moments):
    from torch import nn

    class Exported(nn.Module):
        def __init__(self):
            super().__init__()
            self.policy = policy
            self.register_buffer("moments", moments)

        def forward(self, observations):
            return (self.policy(normal(observations, self.moments)),)

    return Exported()


def load(path):
    import torch

    saved = load_data(path.read_bytes())
    return torch.load(io.BytesIO(saved["reinforce"]), weights_only=True), saved["iteration"]


def normal(observations, moments):
    count, total, squares = moments
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=1e-4).sqrt()
    return ((observations - mean) / std).float()


def network(inputs, outputs):
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def normalizer(size):
    import torch

    module = torch.nn.Module()
    start = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)  # One observation, of mean 0.
    module.register_buffer("moments", start[:, None].repeat(1, size))
    return module
