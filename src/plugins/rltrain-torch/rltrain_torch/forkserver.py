"""Imported by the server from which torch elastic's ranks are forked, and by nothing else.

What a terminal or timeout(1) sends to the launcher's process group is for the launcher, which goes
on until its ranks have saved a checkpoint. If the server ended, the launcher would take its ranks
for dead. It ends when the launcher does.
"""

import os

os.setpgid(0, 0)
