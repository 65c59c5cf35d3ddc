"""The sampler: every option on every row at once, rows untouched by their neighbours, the caller's logits untouched."""

import itertools
import math

import pytest
import torch

from glimpse.errors import ArgumentError, GlimpseError
from glimpse.sampling import Nodes, Role, Sampler, SamplingParams, pick

VOCAB = 701
PROMPT = [5, 6, 7, 5, 6]

SETTINGS = [
    {"temperature": 0},
    {},
    {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
    {"top_p": 0.95},
    {"temperature": 1.3, "min_p": 0.05},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": -0.3, "top_k": 20},
    {"temperature": 0, "frequency_penalty": 1.5},
    {"logit_bias": {3: 5.0, 4: -100.0}, "suppress_tokens": [1, 2], "bad_words": [[8], [6, 9]]},
    {"min_tokens": 4, "stop_token_ids": [11], "temperature": 0.5},
]


def sampler_with(settings, vocab=VOCAB, **options):
    sampler = Sampler(len(settings), vocab, **options)
    for row, values in enumerate(settings):
        sampler.admit(row, SamplingParams(seed=row, **values).resolve({}), PROMPT, [0])
    return sampler


def chains(rows, drafts):
    """Verifying nodes with a draft of tokens 6, 9, ... in each of `rows`."""
    tokens = [6 + 3 * i for _ in rows for i in range(drafts)]
    parents = [i - 1 for _ in rows for i in range(drafts)]
    offsets = [i * drafts for i in range(len(rows) + 1)]
    return Nodes.verifying(rows, [len(PROMPT)] * len(rows), [0] * len(rows), tokens, parents, offsets)


def random_logits(n, vocab=VOCAB, seed=0):
    return torch.randn(n, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def test_rows_get_the_same_laws_alone_and_together():
    together = sampler_with(SETTINGS)
    rows = list(range(len(SETTINGS)))
    logits = random_logits(4 * len(rows))
    laws = together.laws(logits, chains(rows, 3)).to_dense()
    for row, values in enumerate(SETTINGS):
        own = sampler_with([values]).laws(logits[4 * row : 4 * row + 4], chains([0], 3))
        assert torch.equal(own.to_dense().logp, laws.logp[4 * row : 4 * row + 4]), values


def test_truncated_rows_alone_make_truncated_laws():
    some = [
        values for values in SETTINGS if {"top_k", "top_p", "min_p"} & set(values) or values.get("temperature") == 0
    ]
    laws = sampler_with(some).laws(random_logits(len(some)), chains(list(range(len(some))), 0))
    assert laws.ids is not None
    assert laws.ids.shape[1] < VOCAB // 2
    assert laws.greedy.tolist() == [values.get("temperature") == 0 for values in some]


def test_the_callers_logits_are_left_alone():
    sampler = sampler_with(SETTINGS)
    rows = list(range(len(SETTINGS)))
    logits = random_logits(3 * len(rows))
    before = logits.clone()
    laws = sampler.laws(logits, chains(rows, 2))
    pick(laws, sampler.seeds_of(chains(rows, 2)), chains(rows, 2).position, Role.TARGET)
    _ = laws.entropy
    assert torch.equal(logits, before)


def test_processors_are_skipped_without_a_copy_when_unused(monkeypatch):
    sampler = sampler_with([{"top_k": 5}, {"frequency_penalty": 1.0}])
    logits = random_logits(1)
    assert sampler._scores(logits, Nodes.plain([0], [5], [0])).data_ptr() == logits.data_ptr()
    assert sampler._scores(logits, Nodes.plain([1], [5], [0])).data_ptr() != logits.data_ptr()


def test_law_at_a_temperature():
    logits = random_logits(1)
    laws = sampler_with([{"temperature": 0.7}]).laws(logits, chains([0], 0))
    assert torch.allclose(laws.probs(), torch.softmax(logits.double() / 0.7, 1).float(), atol=1e-6)
    assert torch.allclose(laws.entropy, torch.distributions.Categorical(logits=logits).entropy(), atol=1e-5)


@pytest.mark.parametrize("values", [{"temperature": 0}, {"top_k": 1}, {"top_k": 50, "top_p": 0.9}])
def test_entropy_is_that_of_the_whole_law_at_temperature_one(values):
    logits = random_logits(2)
    laws = sampler_with([values]).laws(logits, chains([0], 1))
    assert torch.allclose(laws.entropy, torch.distributions.Categorical(logits=logits).entropy(), atol=1e-5)


def test_entropy_is_taken_after_the_processors():
    logits = torch.zeros(1, 8)
    laws = sampler_with([{"suppress_tokens": [0, 1, 2, 3, 4, 5]}], vocab=8).laws(logits, chains([0], 0))
    assert float(laws.entropy) == pytest.approx(math.log(2))


def test_greedy_ties_go_to_the_lowest_id_on_every_path():
    logits = torch.zeros(1, VOCAB)
    logits[0, [44, 9, 300]] = 2.0
    for neighbours in ([], [{}], [{"top_k": 5}]):
        sampler = sampler_with([{"temperature": 0}, *neighbours])
        rows = list(range(1 + len(neighbours)))
        laws = sampler.laws(logits.expand(len(rows), -1), chains(rows, 0))
        assert int(laws.probs()[0].argmax()) == 9
        assert float(laws.probs()[0, 9]) == 1.0


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k", "min_p"), list(itertools.product([0, 0.1, 1], [1, 0.9], [0, 1, 50], [0, 0.1]))
)
def test_case_a14_every_mix_of_options(temperature, top_p, top_k, min_p):
    values = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p}
    sampler = sampler_with([values])
    logits, nodes = random_logits(3), chains([0], 2)
    laws = sampler.laws(logits, nodes)
    assert torch.allclose(laws.probs().sum(1), torch.ones(3), atol=1e-5)
    picked = pick(laws, sampler.seeds_of(nodes), nodes.position, Role.TARGET)
    if temperature == 0 or top_k == 1:
        assert torch.equal(picked, logits.argmax(1))


def test_case_a69_dead_vocabulary_rows_have_no_law():
    logits = torch.zeros(1, 104)
    logits[0, 97:] = 50.0
    for values in ({"temperature": 0}, {}, {"top_k": 3}, {"frequency_penalty": 1.0}):
        laws = sampler_with([values], vocab=104, tokens=97).laws(logits, chains([0], 0))
        assert laws.vocab == 97
        assert laws.probs().shape == (1, 97)
        assert laws.logp_of(torch.tensor([100])).tolist() == [-math.inf]


def test_a_prompt_may_hold_dead_ids():
    sampler = Sampler(1, 104, tokens=97)
    params = SamplingParams(repetition_penalty=1.2, bad_words=[[1, 100], [100, 1]]).resolve({})
    sampler.admit(0, params, [100, 3], [0])
    sampler.commit(0, [4])
    laws = sampler.laws(torch.zeros(2, 104), Nodes.verifying([0], [3], [1], [100], [-1], [0, 1]))
    assert laws.probs()[1, 1] == 0, "100 then 1 is a bad word"


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}])
@pytest.mark.parametrize(
    "extreme", [{"temperature": 1e-6}, {"temperature": 1e6}, {"repetition_penalty": 1e-3}, {"repetition_penalty": 1e3}]
)
def test_the_bounds_of_options_give_laws_without_nan_and_keep_masked_tokens_out(extreme, cut):
    sampler = sampler_with([{**extreme, **cut, "suppress_tokens": [0, 5]}])
    logits = random_logits(1) * 100
    logits[0, 0] = 1e4
    logits[0, 9] = -torch.inf
    probs = sampler.laws(logits, chains([0], 0)).probs()
    assert probs.sum().item() == pytest.approx(1, abs=1e-4)
    assert probs[0, [0, 5, 9]].tolist() == [0, 0, 0]


def test_slots_are_freed_and_used_again():
    sampler = sampler_with([{"frequency_penalty": 1.0, "suppress_tokens": [4], "bad_words": [[1, 2]], "min_tokens": 3}])
    with pytest.raises(GlimpseError, match="row 0 is still in use"):
        sampler.admit(0, SamplingParams().resolve({}), PROMPT, [0])
    sampler.retire(0)
    with pytest.raises(GlimpseError, match="row 0 has no request"):
        sampler.laws(random_logits(1), chains([0], 0))
    assert all(not processor.states for processor in sampler._processors)
    sampler.admit(0, SamplingParams(seed=9).resolve({}), PROMPT, [0])
    logits = random_logits(1)
    assert torch.equal(sampler.laws(logits, chains([0], 0)).logp, torch.log_softmax(logits, 1))
    assert sampler.seeds_of(chains([0], 0)).tolist() == [9]


def test_seeds_of_the_whole_range():
    sampler = Sampler(2, 8)
    for row, seed in enumerate(((1 << 64) - 1, -(1 << 63))):
        sampler.admit(row, SamplingParams(seed=seed).resolve({}), [1], [0])
    assert sampler.seeds.tolist() == [-1, -(1 << 63)]


def test_bad_admissions_are_refused():
    sampler = Sampler(1, 8)
    with pytest.raises(ArgumentError, match="suppress_tokens must be below the vocabulary size 8"):
        sampler.admit(0, SamplingParams(suppress_tokens=[8]).resolve({}), [1], [0])
    with pytest.raises(ArgumentError, match="must leave a token to write"):
        sampler.admit(0, SamplingParams(suppress_tokens=range(1, 8), min_tokens=2).resolve({}), [1], [0])
    sampler.admit(0, SamplingParams(suppress_tokens=range(1, 8)).resolve({}), [1], [0])
