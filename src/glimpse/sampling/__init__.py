"""Sampling: the options of a request, the logits pipeline, laws, and counter-based noise."""

from glimpse.sampling.finite import nonfinite_rows
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.logprobs import TokenLogprobs, token_logprobs
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import Role, child_seed, draft_salt
from glimpse.sampling.params import ResolvedParams, SamplingParams
from glimpse.sampling.pipeline import Sampler
from glimpse.sampling.resolve import resolve

__all__ = [
    "Laws",
    "Nodes",
    "ResolvedParams",
    "Role",
    "Sampler",
    "SamplingParams",
    "TokenLogprobs",
    "child_seed",
    "draft_salt",
    "nonfinite_rows",
    "pick",
    "resolve",
    "token_logprobs",
]
