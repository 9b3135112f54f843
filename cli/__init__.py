"""The command `mtlmon`."""

from mtlmon.cli.command import main

__all__ = ["main"]
