"""What a loaded checkpoint is: decoder, tokenizer and the defaults that come with them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from glimpse.errors import ModelError
from glimpse.model.decoder import Decoder
from glimpse.model.spec import DecoderSpec
from glimpse.model.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model ready to run."""

    name: str
    decoder: Decoder
    tokenizer: Tokenizer
    generation_defaults: dict[str, Any]
    """What generation_config.json sets (temperature, top_k, do_sample, ...), under its own names; {} without one."""
    fingerprint: str = ""
    """See `glimpse.model.fingerprint`; "" for one put together by hand."""

    @property
    def spec(self) -> DecoderSpec:
        """The decoder's spec. Its `eos_token_ids` are those of config, generation config and tokenizer together."""
        return self.decoder.spec


def with_eos(spec: DecoderSpec, ids: tuple[int, ...], tokenizer: Tokenizer) -> DecoderSpec:
    """The spec with every end-of-text id known from anywhere. Refuses a tokenizer larger than the model."""
    if tokenizer.vocab_size > spec.vocab_size:
        raise ModelError(
            f"the tokenizer has {tokenizer.vocab_size} tokens but the model only {spec.vocab_size}: "
            "they do not belong together"
        )
    union = sorted({*spec.eos_token_ids, *ids, *tokenizer.eos_token_ids})
    return dataclasses.replace(spec, eos_token_ids=tuple(union))
