"""What is measured during training: episodes, scalars merged over ranks, divergence."""
