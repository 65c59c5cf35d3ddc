"""The models of the case list, and REF: plain decoding, one token at a time, each request alone.

M-tiny is the checkpoint of `tests.tiny`: weights of the kind that lesson 1 asks for, 6 query and 2 KV heads (lesson 3),
float32; its vocabulary is 300 and not 97, so that it has the 256 bytes and any text is its tokens. SmolLM2-135M is the
demo model. The number vectors need a model whose logits are the same after any text: `write_constant`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.tiny import tiny_config, tiny_weights, write_json, write_tokenizer, write_weights

from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

VOCAB = 300
GREEDY = SamplingParams(max_tokens=40, temperature=0.0)


def prompt(length: int, seed: object = 0) -> list[int]:
    """Random ids (no special token), the same for the same arguments."""
    return random.Random(f"cases {length} {seed}").choices(range(3, VOCAB), k=length)


def copied(length: int, seed: object = 0) -> list[int]:
    """A prompt whose second half is its first, so that LOOKUP has something to find."""
    half = prompt((length + 1) // 2, seed)
    return (half + half)[:length]


def narrow(params: SamplingParams = GREEDY, allowed: Sequence[int] = (40, 41, 42)) -> SamplingParams:
    """With few tokens that may be written, so that n-grams repeat and LOOKUP drafts, rightly and wrongly."""
    return replace(params, suppress_tokens=[token for token in range(VOCAB) if token not in allowed])


def plain(llm: LLM) -> LLM:
    """The same weights without speculation."""
    return llm.variant(
        drafter="none", pacer="fixed", draft_tokens=None, budget=None, budget_floor=None, acceptance="coupled"
    )


def ref(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams | Sequence[SamplingParams] = GREEDY
) -> list[tuple[int, ...]]:
    """REF: the tokens of each prompt, decoded plainly and alone."""
    each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
    alone = plain(llm)
    return [alone.generate([ids], own)[0].token_ids for ids, own in zip(prompts, each, strict=True)]


def texts_of(llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams = GREEDY) -> list[tuple]:
    """Prompts and their REF outputs: what ORACLE and NOISY replay."""
    return list(zip(prompts, ref(llm, prompts, params), strict=True))


def smollm2(dtype: str = "float32", **options: object) -> LLM:
    """SmolLM2-135M, plainly decoding, in a context of 512; skips the test where it is not to be had."""
    given = {"drafter": "none", "pacer": "fixed", "max_context": 512, "max_batch_size": 4, "device": "cpu"} | options
    try:
        return LLM("demo", dtype=dtype, **given)
    except GlimpseError as error:
        pytest.skip(f"no demo model: {error}")


def write_constant(folder: Path, logits: Mapping[int, float]) -> Path:
    """A checkpoint whose logits are these after any text; tokens that are not named are never written.

    The layers add nothing, and all tokens are the same vector of ones, so that the head alone says the logits.
    """
    config = tiny_config(vocab_size=VOCAB, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=1, num_key_value_heads=1)  # fmt: skip
    weights = {name: torch.zeros_like(weight) for name, weight in tiny_weights(config).items()}
    for name in weights:
        if "norm" in name or "embed" in name:
            weights[name] = torch.ones_like(weights[name])
    head = torch.full((VOCAB,), -1e4)
    for token, logit in logits.items():
        head[token] = logit
    weights["lm_head.weight"] = head[:, None].expand(-1, 8).contiguous() / 8 * math.sqrt(1 + 1e-5)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config | {"bos_token_id": 1, "eos_token_id": None})
    write_weights(folder, weights)
    write_tokenizer(folder, VOCAB)
    without = json.loads((folder / "tokenizer_config.json").read_text()) | {"eos_token": None}
    write_json(folder / "tokenizer_config.json", without)
    return folder


def constant(folder: Path, logits: Mapping[int, float], **options: object) -> LLM:
    """An LLM of `write_constant`, plainly decoding, 40 rows of up to 512 tokens."""
    given = {"drafter": "none", "pacer": "fixed", "max_batch_size": 40, "device": "cpu"} | options
    return LLM(write_constant(folder, logits), **given)


def log_of(law: Sequence[float], first: int = 0) -> dict[int, float]:
    """The logits of a number vector, its outcomes being the tokens from `first` on."""
    return {first + index: math.log(p) for index, p in enumerate(law) if p > 0}
