"""`rltrain report`: runs as one page and pictures."""
