"""The decoder against transformers: logits of every family, head layout and rotary scaling, in float32."""

import pytest
import torch

from tests.model.dense import DenseRun, logits_of
from tests.model.peer import peer_logits, random_tokens, transformers_model
from tests.tiny import NAMES, tiny_config, tiny_decoder

HEADS = {
    "mha": {"num_attention_heads": 6, "num_key_value_heads": 6},
    "gqa": {"num_attention_heads": 6, "num_key_value_heads": 2},
    "mqa": {"num_attention_heads": 6, "num_key_value_heads": 1},
    "wide": {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16},
}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "yarn-attention": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "attention_factor": 1.3,
        "beta_fast": 16.0,
    },
}


def compare(architecture, tokens, **overrides):
    ours = logits_of(tiny_decoder(architecture, **overrides), tokens)
    theirs = peer_logits(transformers_model(tiny_config(architecture, **overrides)), tokens)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("architecture", NAMES)
def test_logits_equal_transformers(architecture, heads, tied):
    compare(architecture, random_tokens(24), tie_word_embeddings=tied, **HEADS[heads])


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_biases_everywhere(architecture):
    overrides = {"mlp_bias": True} if architecture == "llama" else {}
    compare(architecture, random_tokens(24), attention_bias=True, **overrides)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("style", ["rope_parameters", "rope_scaling"])
def test_rotary_scaling_past_the_trained_length(scaling, style):
    parameters = dict(SCALINGS[scaling])
    overrides = {"rope_scaling": parameters}
    if style == "rope_parameters":
        overrides = {"rope_parameters": parameters | {"rope_theta": 10000.0}, "rope_theta": None}
    length = 16 if "original_max_position_embeddings" not in parameters else 64
    compare("llama", random_tokens(50), max_position_embeddings=length, **overrides)


def test_old_spelling_of_the_scaling_kind():
    compare("llama", random_tokens(20), rope_scaling={"type": "linear", "factor": 2.0})


@pytest.mark.parametrize("prompt_length", [5, 31, 32, 40])
def test_dynamic_scaling_equals_transformers_generate(prompt_length):
    """Case A73: with a cache, each key keeps the base of the length at which it was computed."""
    overrides = {"max_position_embeddings": 32, "rope_scaling": SCALINGS["dynamic"]}
    prompt = random_tokens(prompt_length)
    model = transformers_model(tiny_config("llama", **overrides))
    made = model.generate(torch.tensor([prompt]), max_new_tokens=60, do_sample=False, pad_token_id=0)
    decoder = tiny_decoder("llama", **overrides)
    assert DenseRun(decoder, prompt).greedy(60) == made[0, prompt_length:].tolist()
    assert decoder.spec.context_length == 128


@pytest.mark.parametrize("scaling", [None, "dynamic"])
def test_cutting_a_sequence_anywhere_changes_nothing(scaling):
    """Tokens fed in blocks and one by one give the logits of a single forward, also across the trained length."""
    overrides = {"rope_scaling": SCALINGS[scaling]} if scaling else {}
    decoder = tiny_decoder("llama", max_position_embeddings=32, **overrides)
    prompt, rest = random_tokens(20), random_tokens(30, seed=2)
    one_by_one, blocks = DenseRun(decoder, prompt), DenseRun(decoder, prompt)
    singles = torch.cat([one_by_one.feed([token]) for token in rest])
    blocked = torch.cat([blocks.feed(rest[at : at + 7]) for at in range(0, 30, 7)])
    torch.testing.assert_close(singles, blocked, rtol=0, atol=5e-5)


def test_a_long_request_leaves_no_trace():
    """Case A74."""
    decoder = tiny_decoder("llama", max_position_embeddings=32, rope_scaling=SCALINGS["dynamic"])
    short, long = random_tokens(10), random_tokens(100, seed=3)
    first = logits_of(decoder, short)
    logits_of(decoder, long)
    assert torch.equal(logits_of(decoder, short), first)


def test_tokens_of_two_requests_in_one_batch_do_not_mix():
    """Only `attend` knows who belongs together: positions and lengths are each token's own."""
    decoder = tiny_decoder("llama", max_position_embeddings=8, rope_scaling=SCALINGS["dynamic"])
    first, second = random_tokens(6), random_tokens(20, seed=4)
    runs = [DenseRun(decoder, first[:-1]), DenseRun(decoder, second[:-1])]

    def attend(layer, q, k, v):
        rows = [run.attend(layer, q[i : i + 1], k[i : i + 1], v[i : i + 1]) for i, run in enumerate(runs)]
        return torch.cat(rows)

    with torch.inference_mode():
        hidden = decoder.forward(
            torch.tensor([first[-1], second[-1]]), torch.tensor([5, 19]), torch.tensor([6, 20]), attend
        )
    alone = [DenseRun(decoder, tokens[:-1]).feed(tokens[-1:])[0] for tokens in (first, second)]
    # Lengths of the prompts above are one short of the whole, as in a real step.
    torch.testing.assert_close(decoder.logits(hidden), torch.stack(alone), rtol=0, atol=5e-5)


def test_greedy_text_of_tiny_models_varies():
    """Lesson 1 of the cases: a model that repeats itself hides cache faults."""
    assert len(set(DenseRun(tiny_decoder(), random_tokens(8)).greedy(48))) > 15


@pytest.mark.parametrize("architecture", NAMES)
def test_bfloat16_stays_near_float32(architecture):
    tokens = random_tokens(16)
    exact, rough = tiny_decoder(architecture), tiny_decoder(architecture, dtype=torch.bfloat16)
    assert rough.dtype == torch.bfloat16
    gap = (logits_of(rough, tokens) - logits_of(exact, tokens)).abs().mean()
    assert gap < 0.1 * logits_of(exact, tokens).std()


def test_no_rows_give_no_logits():
    decoder = tiny_decoder()
    assert decoder.logits(torch.empty(0, 48)).shape == (0, 97)
