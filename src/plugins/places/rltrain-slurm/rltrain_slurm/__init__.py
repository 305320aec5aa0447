"""Submits runs to SLURM."""
