"""What is measured while training: episodes, scalars over ranks, divergence."""
