"""This machine: its cores, memory, network and folders."""
