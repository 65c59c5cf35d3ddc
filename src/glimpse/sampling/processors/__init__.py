"""Logits processors, one concept a file, in the order in which they act."""

from glimpse.sampling.processors.base import Admission, Processor
from glimpse.sampling.processors.bias import Bias
from glimpse.sampling.processors.masks import BadWords, MinTokens, Suppress
from glimpse.sampling.processors.penalties import Penalties
from glimpse.sampling.processors.structure import Structure

ORDER = (Penalties, Bias, Suppress, BadWords, MinTokens, Structure)

__all__ = ["ORDER", "Admission", "BadWords", "Bias", "MinTokens", "Penalties", "Processor", "Structure", "Suppress"]
