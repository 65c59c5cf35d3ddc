"""A69, A72: ids without a text, and the chat template's one BOS."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tests.cases.doubles import Fixed, drafting, with_parts
from tests.cases.mini import write_mini
from tests.cases.models import GREEDY, prompt, ref
from tests.cases.verdicts import eq
from tests.tiny import write_json, write_tiny_checkpoint, write_weights

from glimpse.errors import ModelError
from glimpse.llm import LLM

DEAD = range(293, 300)
IDS = prompt(12, "a69")
TALK = [{"role": "user", "content": "Hi the é"}]
WITH_BOS = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    "{% endfor %}"
)


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    """Seven rows more than the tokenizer has texts, which would have the highest logits."""
    folder = write_mini(tmp_path_factory.mktemp("padded"), tokenizer={"dead_ids": 7})
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][list(DEAD)] = torch.cat(
        [weights["lm_head.weight"][5:8] * 50, -weights["lm_head.weight"][5:9] * 50]
    )
    write_weights(folder, weights)
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=4, device="cpu")


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("name", ["plain", "LOOKUP", "SELF", "dead"])
def test_a69_ids_without_a_text_are_never_written(padded, name, temperature):
    """Though the model would, and though a drafter proposes nothing else."""
    params = replace(GREEDY, max_tokens=40, temperature=temperature, seed=2, logprobs=1)
    llm = {
        "plain": lambda: padded,
        "dead": lambda: with_parts(padded, Fixed(list(DEAD)[:4], [299]), draft_tokens=4),
    }.get(name, lambda: drafting(padded, name))()
    out = llm.generate([IDS], params)[0]
    eq([out], ref(padded, [IDS], params))
    assert max(out.token_ids) < DEAD[0]
    assert name != "dead" or (out.speculation.drafted, out.speculation.accepted) == (out.speculation.drafted, 0)
    assert name != "dead" or out.speculation.drafted > 40
    assert "".join(chunk.text for chunk in llm.stream(IDS, params)) == out.text


def test_a69_the_model_would_write_them(padded):
    """Or the test above would prove nothing."""
    head = padded.loaded.checkpoint.decoder
    with torch.inference_mode():
        best = head.logits(torch.randn(50, 48, generator=torch.Generator().manual_seed(0))).argmax(1)
    assert sum(int(token) in DEAD for token in best) > 25


@pytest.mark.parametrize("dead", [-1, -4])
def test_a69_the_reverse_is_refused(tmp_path, dead):
    """More texts than the model has rows."""
    folder = write_tiny_checkpoint(tmp_path, dead_ids=dead)
    with pytest.raises(ModelError, match=f"tokenizer has {300 - dead} tokens but the model only 300"):
        LLM(folder)


@pytest.mark.parametrize("add_bos", [False, True])
@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_a72_the_template_as_text_and_as_ids(tmp_path, add_bos, drafter):
    """Both routes give the same ids with one BOS, and so the same text."""
    folder = write_mini(tmp_path, tokenizer={"add_bos": add_bos})
    path = folder / "tokenizer_config.json"
    write_json(path, json.loads(path.read_text()) | {"chat_template": WITH_BOS})
    llm = LLM(folder, drafter=drafter, max_batch_size=2, device="cpu")
    ids = llm.tokenizer.chat(TALK)
    text = llm.tokenizer.render(TALK)
    assert llm.tokenizer.encode(text, parse_special=True) == ids
    assert (ids[0], ids.count(1)) == (1, 1)
    params = replace(GREEDY, max_tokens=10)
    outs = llm.chat(TALK, params), llm.generate(llm.tokenizer.encode(text, parse_special=True), params)[0]
    assert outs[0].token_ids == outs[1].token_ids
    assert outs[0].prompt_token_ids == outs[1].prompt_token_ids == tuple(ids)


@pytest.mark.parametrize("add_bos", [False, True])
def test_a72_a_plain_prompt_has_the_bos_that_the_checkpoint_asks_for(tmp_path, add_bos):
    llm = LLM(write_mini(tmp_path, tokenizer={"add_bos": add_bos}), max_batch_size=1, device="cpu")
    ids = llm.generate("hello", replace(GREEDY, max_tokens=1))[0].prompt_token_ids
    assert ids.count(1) == int(add_bos)
    assert (ids[0] == 1) == add_bos
