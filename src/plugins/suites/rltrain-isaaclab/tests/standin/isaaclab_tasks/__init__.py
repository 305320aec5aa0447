"""The tasks, registered with Gymnasium as Isaac Lab's are."""

from __future__ import annotations

import gymnasium as gym
import isaaclab.envs  # noqa: F401 - like Isaac Lab, needs the app to run

DIRECT = f"{__name__}.cartpole_direct"
YAML = f"{__name__}.agents:%s_cfg.yaml"
CLASS = f"{__name__}.agents.rsl_rl_ppo_cfg:%s"


def register(name, entry_point, cfg, **agents):
    kwargs = {f"{library}_cfg_entry_point": place for library, place in agents.items()}
    kwargs["env_cfg_entry_point"] = f"{__name__}.cartpole_cfg:{cfg}"
    gym.register(id=name, entry_point=entry_point, disable_env_checker=True, kwargs=kwargs)


register(
    "Isaac-Cartpole-v0",
    *("isaaclab.envs:ManagerBasedRLEnv", "CartpoleEnvCfg"),
    rl_games=YAML % "rl_games_ppo",
    rsl_rl=CLASS % "CartpolePPORunnerCfg",
    skrl=YAML % "skrl_ppo",
)
register("Isaac-Cartpole-Play-v0", "isaaclab.envs:ManagerBasedRLEnv", "CartpolePlayEnvCfg")
register(
    "Isaac-Cartpole-Asymmetric-Direct-v0",
    *(f"{DIRECT}:CartpoleAsymmetricEnv", "CartpoleAsymmetricEnvCfg"),
    rl_games=YAML % "rl_games_asymmetric_ppo",
    rsl_rl=CLASS % "CartpoleAsymmetricRunnerCfg",
    skrl=YAML % "skrl_asymmetric_ppo",
)
CAMERA = f"{DIRECT}:CartpoleCameraEnv", "CartpoleRGBCameraEnvCfg"
register(
    "Isaac-Cartpole-RGB-Camera-Direct-v0",
    *CAMERA,
    rl_games=YAML % "rl_games_camera_ppo",
    skrl=YAML % "skrl_camera_ppo",
)
register("Isaac-Cartpole-Seen-Direct-v0", *CAMERA)
register(
    "Isaac-Cartpole-Discrete-Direct-v0", f"{DIRECT}:CartpoleDiscreteEnv", "CartpoleDiscreteEnvCfg"
)
AGENTS = "isaaclab.envs:DirectMARLEnv"
register("Isaac-Cart-Double-Pendulum-Direct-v0", AGENTS, "CartDoublePendulumEnvCfg")
register("Isaac-Cart-Choosing-Pendulum-Direct-v0", AGENTS, "ChoosingPendulumEnvCfg")
