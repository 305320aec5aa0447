"""A backend of plain sockets, for rltrain."""
