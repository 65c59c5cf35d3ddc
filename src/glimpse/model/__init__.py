"""The model: specs, the decoder, weights, the tokenizer and the demo checkpoint."""

from glimpse.model.build import build_decoder
from glimpse.model.checkpoint import Checkpoint
from glimpse.model.decoder import Attend, Decoder
from glimpse.model.load import load_checkpoint, resolve_model
from glimpse.model.spec import DecoderSpec
from glimpse.model.tokenizer import Tokenizer

__all__ = [
    "Attend",
    "Checkpoint",
    "Decoder",
    "DecoderSpec",
    "Tokenizer",
    "build_decoder",
    "load_checkpoint",
    "resolve_model",
]
