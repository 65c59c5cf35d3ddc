"""Laws along the exact path are those that the engine draws from."""

import pytest
import torch

from glimpse.bench.tradeoff.path import law_of, perplexity, sparse_laws
from glimpse.bench.tradeoff.slowfast_path import Reader, slowfast_laws, slowfast_sweep
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector
from glimpse.pacing.sentence_ends import sentence_ends
from glimpse.sampling import SamplingParams

PROMPT = [(37 * i) % 250 + 3 for i in range(60)]
PARAMS = SamplingParams(max_tokens=24, temperature=0.9, top_k=40, seed=4)
WHOLE, NARROW = RecallBudget(1.0), RecallBudget(1e-9, 24, 4, 8)


@pytest.fixture(scope="module")
def output(tiny):
    return tiny.generate([PROMPT], PARAMS)[0].token_ids


@pytest.fixture(scope="module")
def law(tiny):
    return law_of(tiny, PARAMS.resolve({}))


def test_a_budget_of_everything_never_strays(tiny, output, law):
    for laws in (sparse_laws(tiny, PROMPT, output, law, 4, WHOLE), slowfast_laws(tiny, PROMPT, output, law, WHOLE)):
        assert laws.target.shape == (24, 300)
        assert torch.allclose(laws.draft, laws.target, atol=1e-4)


def test_the_targets_laws_are_those_of_plain_decoding(tiny, output, law):
    logged = tiny.generate([PROMPT], SamplingParams(max_tokens=24, temperature=0.9, top_k=40, seed=4, logprobs=300))[0]
    tables = [sorted(entry.top) for entry in logged.logprobs]
    logits = torch.tensor([[logprob for _, logprob in table] for table in tables])
    for laws in (sparse_laws(tiny, PROMPT, output, law, 4, NARROW), slowfast_laws(tiny, PROMPT, output, law, NARROW)):
        assert torch.allclose(laws.target, law(logits), atol=1e-4)
        assert not torch.allclose(laws.draft, laws.target, atol=1e-2)


def test_slow_steps_are_where_the_pacer_has_them(tiny, output, law):
    laws = slowfast_laws(tiny, PROMPT, output, law, NARROW, 5)
    ends, since, expected = sentence_ends(tiny.tokenizer), 0, [True]
    for token in output[:-1]:
        due = since == 5 or token in ends
        expected.append(due)
        since = 0 if due else since + 1
    assert list(laws.slow) == expected


@pytest.mark.parametrize("shares", [False, True])
def test_readers_side_by_side_say_what_each_says_alone(tiny, output, law, shares):
    """Their lengths and sets differ; the text is long enough for the prompt to have a whole page to share."""
    readers = [Reader(NARROW), Reader(RecallBudget(1e-9, 40, 4, 8)), Reader(NARROW, Selector(key_norm=3, reach=4))]
    together = slowfast_sweep(tiny, PROMPT, output, law, readers, shares=shares)
    for reader, laws in zip(readers, together, strict=True):
        (alone,) = slowfast_sweep(tiny, PROMPT, output, law, [reader])
        assert torch.allclose(laws.draft, alone.draft, atol=1e-5)
        assert torch.allclose(laws.target, alone.target, atol=1e-5)
        assert laws.slow == alone.slow
    assert not torch.allclose(together[0].draft, together[1].draft, atol=1e-2)
    assert not torch.allclose(together[0].draft, together[2].draft, atol=1e-2)


def test_fast_laws_are_those_that_the_engine_draws_from(tiny, law):
    """The engine's own lossy text: its logprobs are of the laws that it drew from. The last token has no room for a
    draft and comes of a slow step."""
    fast = tiny.variant(drafter="slowfast", pacer=None, lossy="slowfast", draft_tokens=5)
    fast._engine.parts.drafter._budget = NARROW
    params = SamplingParams(max_tokens=24, temperature=0.9, top_k=40, seed=4, logprobs=300)
    out = fast.generate([PROMPT], params)[0]
    logits = torch.tensor([[logprob for _, logprob in sorted(entry.top)] for entry in out.logprobs])
    laws = slowfast_laws(tiny, PROMPT, out.token_ids, law, NARROW, 5)
    assert torch.allclose(laws.draft[:-1], law(logits)[:-1], atol=2e-3)


def test_perplexity(tiny, output):
    logged = tiny.generate([PROMPT], SamplingParams(max_tokens=24, temperature=0.9, top_k=40, seed=4, logprobs=0))[0]
    right = torch.tensor([-entry.logprob for entry in logged.logprobs]).mean().exp()
    assert perplexity(tiny, PROMPT, output) == pytest.approx(float(right), rel=1e-3)
