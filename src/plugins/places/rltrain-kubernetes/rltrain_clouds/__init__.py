"""Clusters that clouds start: AWS Batch, SageMaker, SkyPilot, Vertex AI."""
