"""Play one episode with an exported policy: `python run_policy.py policy.onnx CartPole-v1 0`."""

import json
import sys

import gymnasium
import numpy as np
import onnxruntime


def play(file: str, env: gymnasium.Env, seed: int) -> float:
    """Return the sum of the rewards of an episode."""
    policy = onnxruntime.InferenceSession(file)
    inputs = json.loads(policy.get_modelmeta().custom_metadata_map["inputs"])
    zeros = {name: np.zeros((1, *x["shape"]), x["dtype"]) for name, x in inputs.items()}
    states = {name: x for name, x in zeros.items() if name.startswith("state_in.")}
    (observed, _), total, done = env.reset(seed=seed), 0.0, False
    while not done:
        groups = observed if isinstance(observed, dict) else {"policy": observed}
        seen = {name: groups[name][None] for name in zeros.keys() - states}
        seen = {name: x.astype(zeros[name].dtype) for name, x in seen.items()}
        actions, *after = policy.run(None, seen | states)
        states = dict(zip(states, after, strict=True))
        observed, reward, terminated, truncated, _ = env.step(actions[0])
        total, done = total + float(reward), terminated or truncated
    return total


if __name__ == "__main__":
    print(play(sys.argv[1], gymnasium.make(sys.argv[2]), int(sys.argv[3])))
