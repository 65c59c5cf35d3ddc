"""Attention over the paged cache: rows that read everything, and rows that read a recall set."""

from glimpse.attention.plan import Plan, RowSpec, plan_batch
from glimpse.attention.reference import attend

__all__ = ["Plan", "RowSpec", "attend", "plan_batch"]
