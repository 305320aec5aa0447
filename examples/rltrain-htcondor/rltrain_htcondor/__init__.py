"""The nodes of an HTCondor job, for rltrain."""
