"""Efficiency analysis before anything runs (`plan`), and the measurements it can be based on (`calibrate`)."""

from glimpse.planning.advice import Advice, advise
from glimpse.planning.devices import DEVICES, Device, find_device
from glimpse.planning.lossy import LossyPlan, lossy_plan
from glimpse.planning.models import read_spec
from glimpse.planning.plan import Memory, Plan, Setting, make_plan
from glimpse.planning.speedup import (
    Acceptance,
    Best,
    ByDepth,
    Chances,
    best_length,
    break_even,
    draft_cost,
    parse_acceptance,
    speedup,
)

__all__ = [
    "DEVICES",
    "Acceptance",
    "Advice",
    "Best",
    "ByDepth",
    "Chances",
    "Device",
    "LossyPlan",
    "Memory",
    "Plan",
    "Setting",
    "advise",
    "best_length",
    "break_even",
    "draft_cost",
    "find_device",
    "lossy_plan",
    "make_plan",
    "parse_acceptance",
    "read_spec",
    "speedup",
]
