"""The MLflow writer for rltrain."""
