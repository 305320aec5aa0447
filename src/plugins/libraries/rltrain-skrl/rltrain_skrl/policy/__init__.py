"""Inference with a trained agent of skrl."""
