"""The agents of skrl that are adapted, by the name that `agent.class` has for them."""

from __future__ import annotations

from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.off_policy import (
    SessionDDPG,
    SessionDDQN,
    SessionDQN,
    SessionSAC,
    SessionTD3,
)
from rltrain_skrl.torch.on_policy import SessionA2C, SessionPPO, SessionRPO

__all__ = ["AGENTS"]

AGENTS: dict[str, type[TorchAgent]] = {
    "ppo": SessionPPO,
    "rpo": SessionRPO,
    "a2c": SessionA2C,
    "sac": SessionSAC,
    "td3": SessionTD3,
    "ddpg": SessionDDPG,
    "dqn": SessionDQN,
    "ddqn": SessionDDQN,
}
"""By lower-case name, the class that is made in place of skrl's own. It takes `session` too."""
