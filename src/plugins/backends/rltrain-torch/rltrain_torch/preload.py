"""Imports what every rank with torch imports, once for all ranks of a node.

No suite: importing Warp opens a CUDA context. Every optimizer imports torch._dynamo, which takes as
long as importing torch. torch._inductor starts a thread in older versions.
"""

import os

# Where addresses have no names, torch's store would say so in each run's first line.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
import torch._dynamo
import torch.distributed

__all__ = ["torch"]
