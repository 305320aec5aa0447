"""The command `rltrain manifest`: Kubernetes manifests of rltrain's runs."""
