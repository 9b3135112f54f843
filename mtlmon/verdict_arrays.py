"""Verdicts as arrays: the public place of `mtlmon.verdicts.arrays`."""

from mtlmon.verdicts.arrays import *  # noqa: F403
from mtlmon.verdicts.arrays import __all__  # noqa: F401
