"""Configurations of the tasks."""

from __future__ import annotations

from isaaclab.envs import DirectMARLEnvCfg, DirectRLEnvCfg, ManagerBasedRLEnvCfg, SceneCfg
from isaaclab.utils import configclass


@configclass
class GroupCfg:
    size: int = 4


@configclass
class ObservationsCfg:
    policy: GroupCfg = GroupCfg()


@configclass
class JointEffortCfg:
    asset_name: str = "robot"
    joint_names: list = ["slider_to_cart"]
    scale: float = 1.0
    class_type: object = print


@configclass
class ActionsCfg:
    joint_effort: JointEffortCfg = JointEffortCfg()


@configclass
class RewardTermCfg:
    weight: float = 1.0
    params: dict = {"target": 0.0, "limits": (-1.0, 1.0)}


@configclass
class RewardsCfg:
    alive: RewardTermCfg = RewardTermCfg()
    pole_pos: RewardTermCfg = RewardTermCfg(weight=-1.0)


@configclass
class CartpoleEnvCfg(ManagerBasedRLEnvCfg):
    scene: SceneCfg = SceneCfg(num_envs=64)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    rewards: RewardsCfg = RewardsCfg()

    def __post_init__(self):
        self.decimation = 2
        self.episode_length_s = 5


@configclass
class CartpolePlayEnvCfg(CartpoleEnvCfg):
    pass


@configclass
class CartpoleAsymmetricEnvCfg(DirectRLEnvCfg):
    scene: SceneCfg = SceneCfg(num_envs=64)
    action_space: int = 1
    observation_space: int = 2
    state_space: int = 4


@configclass
class CameraCfg:
    data_types: list = ["rgb"]
    width: int = 36
    height: int = 36


@configclass
class CartpoleRGBCameraEnvCfg(DirectRLEnvCfg):
    scene: SceneCfg = SceneCfg(num_envs=16)
    action_space: int = 1
    observation_space: list = [36, 36, 3]
    tiled_camera: CameraCfg = CameraCfg()


@configclass
class CartpoleDiscreteEnvCfg(DirectRLEnvCfg):
    scene: SceneCfg = SceneCfg(num_envs=64)
    action_space: object = {3}
    observation_space: int = 4


@configclass
class CartDoublePendulumEnvCfg(DirectMARLEnvCfg):
    scene: SceneCfg = SceneCfg(num_envs=64)
    possible_agents: list = ["cart", "pendulum"]
    action_spaces: dict = {"cart": 1, "pendulum": 1}
    observation_spaces: dict = {"cart": 4, "pendulum": 3}


@configclass
class ChoosingPendulumEnvCfg(CartDoublePendulumEnvCfg):
    action_spaces: dict = {"cart": {3}, "pendulum": 1}
