"""The tasks, registered with Gymnasium as Isaac Lab's are."""

from __future__ import annotations

import gymnasium as gym
import isaaclab.envs  # noqa: F401 - like Isaac Lab, needs the app to run

from . import agents

ENVS = "isaaclab.envs:ManagerBasedRLEnv"

gym.register(
    id="Isaac-Cartpole-v0",
    entry_point=ENVS,
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleEnvCfg",
        "rl_games_cfg_entry_point": f"{agents.__name__}:rl_games_ppo_cfg.yaml",
        "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:CartpolePPORunnerCfg",
        "skrl_cfg_entry_point": f"{agents.__name__}:skrl_ppo_cfg.yaml",
    },
)
gym.register(
    id="Isaac-Cartpole-Play-v0",
    entry_point=ENVS,
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpolePlayEnvCfg"},
)
gym.register(
    id="Isaac-Cartpole-Asymmetric-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct:CartpoleAsymmetricEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleAsymmetricEnvCfg",
        "rl_games_cfg_entry_point": f"{agents.__name__}:rl_games_asymmetric_ppo_cfg.yaml",
        "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:CartpoleAsymmetricRunnerCfg",
        "skrl_cfg_entry_point": f"{agents.__name__}:skrl_ppo_cfg.yaml",
    },
)
gym.register(
    id="Isaac-Cartpole-RGB-Camera-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct:CartpoleCameraEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleRGBCameraEnvCfg",
        "rl_games_cfg_entry_point": f"{agents.__name__}:rl_games_camera_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{agents.__name__}:skrl_camera_ppo_cfg.yaml",
    },
)
gym.register(
    id="Isaac-Cartpole-Seen-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct:CartpoleCameraEnv",
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleRGBCameraEnvCfg"},
)
gym.register(
    id="Isaac-Cartpole-Depth-Camera-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct:CartpoleCameraEnv",
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleDepthCameraEnvCfg"},
)
gym.register(
    id="Isaac-Cartpole-Discrete-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct:CartpoleDiscreteEnv",
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartpoleDiscreteEnvCfg"},
)
gym.register(
    id="Isaac-Cart-Double-Pendulum-Direct-v0",
    entry_point="isaaclab.envs:DirectMARLEnv",
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:CartDoublePendulumEnvCfg"},
)
gym.register(
    id="Isaac-Cart-Choosing-Pendulum-Direct-v0",
    entry_point="isaaclab.envs:DirectMARLEnv",
    disable_env_checker=True,
    kwargs={"env_cfg_entry_point": f"{__name__}.cartpole_cfg:ChoosingPendulumEnvCfg"},
)
