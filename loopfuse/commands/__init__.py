"""The bodies of the command line's commands: each takes parsed arguments and prints.

Also what `kernel.verify` and `kernel.reference` do. Nothing below the pipeline imports this room.
"""
