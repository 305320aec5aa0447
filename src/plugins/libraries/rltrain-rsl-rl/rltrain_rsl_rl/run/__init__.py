"""Training with rsl_rl on the ranks of a session."""

import os

# On machines without git, GitPython, which rsl_rl imports, would fail.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
