"""Logits that are not numbers: found before anything is picked from them."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.errors import GlimpseError
from glimpse.sampling.nodes import Nodes


def nonfinite_rows(logits: Tensor, nodes: Nodes) -> dict[int, GlimpseError]:
    """The rows with NaN, +inf or nothing but -inf in logits [N, V], each with an error that names it and its first such
    node. Empty when all is well. One pass over the logits; single -inf logits are legal.
    """
    # The maximum of a row is NaN as soon as one element is.
    bad = torch.isfinite(logits.amax(dim=1)).logical_not_().nonzero().flatten().tolist()
    found: dict[int, GlimpseError] = {}
    for node in bad:
        row = nodes.rows[node]
        found.setdefault(row, not_finite(row, node - nodes.rows.index(row), int(nodes.position[node])))
    return found


def not_finite(row: int, node: int, position: int) -> GlimpseError:
    """The error of a row whose logits after `node` (0: its last committed token) are not finite."""
    return GlimpseError(
        f"the model's logits for row {row}, node {node} (position {position}) are not finite numbers; "
        "the weights or the dtype overflow: try float32 or bfloat16"
    )
