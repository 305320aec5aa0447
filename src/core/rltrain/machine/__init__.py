"""This machine: its cores, memory, network, disks and folders."""
