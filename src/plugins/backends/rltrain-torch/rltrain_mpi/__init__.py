"""Runs where mpiexec started ranks, starts them by it, and averages by MPI."""
