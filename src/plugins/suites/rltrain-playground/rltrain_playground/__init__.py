"""MuJoCo Playground's tasks for rltrain."""
