"""Attention over the paged cache: rows that read everything, and rows that read a recall set."""

from glimpse.attention.plan import Plan, Refresh, RowSpec, plan_batch
from glimpse.attention.reference import attend

__all__ = ["Plan", "Refresh", "RowSpec", "attend", "plan_batch"]
