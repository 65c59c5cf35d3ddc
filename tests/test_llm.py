"""The face: what is refused, streams, compare, pinned prompts, and that nothing is left behind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.outputs import BrokenOff
from glimpse.sampling import SamplingParams
from small_llm import GREEDY, IDS, small


@pytest.fixture(scope="module")
def llm(tiny):
    return tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=4)


@pytest.fixture(autouse=True)
def ledger(tiny):
    """Every test gives back every page."""
    yield
    assert tiny._loaded.pool.free_pages == tiny._loaded.pool.pages


@pytest.mark.parametrize(
    ("prompt", "said"), [("", "empty"), ([], "empty"), ([[]], "empty"), ([300], "300"), ([[5] * 513], "513")]
)
def test_bad_prompts_are_refused_and_the_next_request_works(llm, prompt, said):
    """A36, A42."""
    with pytest.raises(ArgumentError, match=said):
        llm.generate(prompt, GREEDY)
    assert len(llm.generate([[5]], GREEDY)[0].token_ids) == 12


def test_an_overlong_prompt_names_both_lengths(llm):
    with pytest.raises(ArgumentError, match=r"513.*512"):
        llm.generate([[5] * 513], GREEDY)


def test_as_many_params_as_prompts(llm):
    with pytest.raises(ArgumentError, match="2 prompts but 1 SamplingParams"):
        llm.generate([[5], [6]], [GREEDY])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"drafter": "nothing"}, "lookup"),
        ({"pacer": "nothing"}, "entropy"),
        ({"acceptance": "nothing"}, "coupled"),
        ({"draft_tokens": -1}, "-1"),
        ({"draft_tokens": 257}, "257"),
        ({"budget": 0.0}, "budget"),
        ({"draft_token": 4}, "unknown option 'draft_token'; known: drafter, pacer, acceptance, draft_tokens"),
        ({"budget_floor": -1}, "budget_floor"),
    ],
)
def test_wrong_options_are_refused(tiny, options, said):
    with pytest.raises(ArgumentError, match=said):
        tiny.variant(**options)


@pytest.mark.parametrize("options", [{"max_context": 513}, {"max_context": 0}, {"max_batch_size": 0}, {"threads": 0}])
def test_wrong_sizes_are_refused(tiny_folder, options):
    with pytest.raises(ArgumentError, match=str(next(iter(options.values())))):
        LLM(tiny_folder, **options)


@pytest.mark.parametrize("options", [{"dtype": "int3"}, {"device": "tpu"}])
def test_unknown_dtypes_and_devices_are_refused(tiny_folder, options):
    with pytest.raises(ArgumentError, match=next(iter(options.values()))):
        LLM(tiny_folder, **options)


def test_settings_are_the_effective_ones(tiny):
    """A34: what was asked for is used, and told."""
    llm = tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=3, budget=0.5)
    out = llm.generate(IDS, GREEDY)[0]
    assert out.settings["draft_tokens"] == 3
    assert out.settings["budget"] == 0.5
    assert out.settings["temperature"] == 0.0
    assert len(out.speculation.acceptance_by_position) == 3


@pytest.mark.parametrize("length", [1, 4, 16])
@pytest.mark.parametrize("drafter", ["sparse", "lookup"])
def test_drafts_have_the_length_asked_for(tiny, drafter, length):
    """A34: the prompt is a loop, so lookup always finds the longest draft."""
    llm = tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=length)
    loop = SamplingParams(max_tokens=60, temperature=0.0, logit_bias={7: 1000.0})
    assert max(llm.generate([7] * 50, loop)[0].speculation.draft_lengths) == length


def test_a_stream_joins_to_the_output(llm):
    """A57, A63: chunks hold every token once; the last one has the whole output."""
    right = llm.generate(IDS, GREEDY)[0]
    chunks = list(llm.stream(IDS, GREEDY))
    assert "".join(chunk.text for chunk in chunks) == right.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == right.token_ids
    assert tuple(piece.token_id for chunk in chunks for piece in chunk.pieces) == right.token_ids
    assert [chunk.output is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    drafted = sum(piece.drafted for chunk in chunks for piece in chunk.pieces)
    assert drafted == chunks[-1].output.speculation.accepted == right.speculation.accepted


def test_streams_may_be_read_in_turns(llm):
    """Each gets all of its chunks, whoever ran the step that made them."""
    prompts = [IDS, IDS[:30], IDS[:5]]
    right = [out.token_ids for out in llm.generate(prompts, GREEDY)]
    got = [[] for _ in prompts]
    outputs = [None] * len(prompts)
    for chunks in itertools.zip_longest(*(llm.stream(ids, GREEDY) for ids in prompts)):
        for index, chunk in enumerate(chunks):
            if chunk:
                got[index] += chunk.token_ids
                outputs[index] = chunk.output
    assert [tuple(tokens) for tokens in got] == right
    assert [out.token_ids for out in outputs] == right


def test_a_stream_goes_on_after_a_generate_in_between(llm):
    right = llm.generate(IDS, GREEDY)[0].token_ids
    stream = llm.stream(IDS, GREEDY)
    tokens = list(next(stream).token_ids)
    assert llm.generate(IDS, GREEDY)[0].token_ids == right
    last = None
    for last in stream:
        tokens += last.token_ids
    assert tuple(tokens) == last.output.token_ids == right


@pytest.mark.parametrize("read", [0, 1, 3])
def test_closing_a_stream_frees_its_row_and_pages(tiny_folder, read):
    """A59: 50 times with 2 rows; then a normal request."""
    llm = small(tiny_folder, max_batch_size=2, drafter="sparse", pacer="fixed", draft_tokens=4)
    pool = llm._loaded.pool
    for _ in range(50):
        stream = llm.stream(IDS[:40], GREEDY)
        for _ in range(read):
            next(stream)
        stream.close()
        assert pool.free_pages == pool.pages
        assert not llm._engine.busy
    assert len(llm.generate(IDS[:40], GREEDY)[0].token_ids) == 12


@pytest.mark.parametrize("prompt", [IDS, [5] * 512])
def test_nothing_to_write_still_ends_a_stream(llm, prompt):
    """A30: max_tokens 0, or a prompt as long as the context: an empty output, with no forward."""
    steps = llm._engine.steps
    (chunk,) = list(llm.stream(prompt, SamplingParams(max_tokens=0 if len(prompt) < 512 else 5)))
    assert (chunk.text, chunk.token_ids) == ("", ())
    assert (chunk.output.token_ids, chunk.output.finish_reason) == ((), "length")
    assert llm._engine.steps == steps
    assert not llm._engine.busy
    assert llm.compare(prompt, SamplingParams(max_tokens=0)).identical


CALLS = {
    "generate": lambda llm, prompt: llm.generate([prompt]),
    "stream": lambda llm, prompt: llm.stream(prompt),
    "compare": lambda llm, prompt: llm.compare(prompt),
    "pinned": lambda llm, prompt: llm.pinned(prompt).__enter__(),
    "chat": lambda llm, prompt: llm.chat(prompt),
}


@pytest.mark.parametrize("prompt", [b"abc", [5.5], [[5]], {"a": 1}, "a\ud800", [10**30]])
@pytest.mark.parametrize("call", CALLS)
def test_prompts_of_a_wrong_type_are_refused_by_every_call(llm, call, prompt):
    with pytest.raises(ArgumentError):
        CALLS[call](llm, prompt)


@pytest.mark.parametrize("prompt", [None, 5])
@pytest.mark.parametrize("call", ["generate", "stream", "compare", "chat"])
def test_what_is_no_prompt_at_all_is_refused(llm, call, prompt):
    with pytest.raises(ArgumentError):
        getattr(llm, call)(prompt)


@pytest.mark.parametrize("call", ["stream", "compare", "chat"])
def test_calls_with_one_output_refuse_n(llm, call):
    prompt = [{"role": "user", "content": "hi"}] if call == "chat" else IDS
    with pytest.raises(ArgumentError, match="n must be 1"):
        getattr(llm, call)(prompt, SamplingParams(max_tokens=3, n=2))


def test_an_interrupted_generate_frees_everything(llm, tiny, monkeypatch):
    def interrupt(*_: object) -> None:
        if llm._engine.steps >= start + 3:
            raise KeyboardInterrupt

    start = llm._engine.steps
    monkeypatch.setattr(llm._engine.parts.pacer, "observe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        llm.generate([IDS, IDS[:7]], GREEDY)
    assert not llm._engine.busy
    assert tiny._loaded.pool.free_pages == tiny._loaded.pool.pages


def test_options_that_leave_no_token_leave_no_row_behind(tiny_folder):
    llm = small(tiny_folder)
    with pytest.raises(ArgumentError, match="leave a token"):
        llm.generate([IDS, IDS[:9]], SamplingParams(max_tokens=3, suppress_tokens=list(range(300))))
    assert llm._loaded.pool.free_pages == llm._loaded.pool.pages
    assert len(llm.generate(IDS, GREEDY)[0].token_ids) == 12


def test_n_outputs_with_seeds_of_their_own(llm, tiny):
    """Each of the n is what a single request with its seed gives; the first has the request's own seed."""
    params = SamplingParams(max_tokens=10, temperature=1.0, seed=5, n=4)
    outs = llm.generate([IDS, IDS[:9]], params)
    assert [out.index for out in outs] == [0, 1, 2, 3] * 2
    assert len({out.token_ids for out in outs[:4]}) == 4
    assert [out.token_ids for out in outs] == [out.token_ids for out in tiny.generate([IDS, IDS[:9]], params)]
    single = SamplingParams(max_tokens=10, temperature=1.0, seed=5)
    assert outs[0].token_ids == tiny.generate(IDS, single)[0].token_ids


def test_seeds(tiny_folder, llm):
    """A21: the same seed the same text, others others; a seed of the LLM makes runs repeat."""
    free = SamplingParams(max_tokens=8, temperature=1.0)
    texts = [llm.generate(IDS, replace(free, seed=seed))[0].token_ids for seed in (7, 7, 8, 9)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    runs = [[out.token_ids for out in LLM(tiny_folder, seed=3).generate([IDS, IDS], free)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]
    assert llm.generate(IDS, free)[0].token_ids != llm.generate(IDS, free)[0].token_ids


def test_a_closed_llm_says_so_and_others_over_its_cache_go_on(tiny):
    llm = tiny.variant(drafter="lookup")
    stream = llm.stream([5], GREEDY)
    next(stream)
    llm.close()
    llm.close()
    for use in (
        lambda: llm.generate([[5]], GREEDY),
        lambda: llm.generate("a", GREEDY),
        lambda: next(llm.stream([5], GREEDY)),
        lambda: llm.compare([5], GREEDY),
        lambda: llm.variant(drafter="none"),
        lambda: llm.settings,
        lambda: llm.tokenizer,
        lambda: list(stream),
    ):
        with pytest.raises(GlimpseError, match="this LLM has been closed"):
            use()
    assert len(tiny.generate([[5]], GREEDY)[0].token_ids) == 12


def test_chat_ends_at_the_templates_end(tiny):
    out = tiny.chat([{"role": "user", "content": "hello"}], GREEDY)
    assert out.prompt_token_ids == tuple(tiny.tokenizer.chat([{"role": "user", "content": "hello"}]))
    assert len(out.token_ids) == 12


def test_compare_reads_the_prompt_once_and_hears_the_first_run(llm):
    heard = []
    result = llm.compare(IDS, SamplingParams(max_tokens=10, temperature=0.9), pairs=2, on_chunk=heard.append)
    assert result.identical
    assert result.first_divergence is None
    assert "".join(chunk.text for chunk in heard) == result.speculative.text
    assert result.baseline.speculation.drafted == 0 < result.speculative.speculation.drafted
    assert result.predicted_speedup > 0


def test_what_a_stream_has_written_is_there_when_it_is_closed(llm):
    """Ctrl-C keeps the text so far with its seed, its counts and its times."""
    right = llm.generate(IDS, replace(GREEDY, seed=3))[0]
    stream = llm.stream(IDS, replace(GREEDY, seed=3))
    assert (stream.output.token_ids, stream.output.finish_reason) == ((), "abort")
    chunks = [next(stream), next(stream)]
    stream.close()
    written, read = stream.output, [token for chunk in chunks for token in chunk.token_ids]
    assert (written.finish_reason, written.settings["seed"]) == ("abort", 3)
    assert list(written.token_ids[: len(read)]) == read
    assert right.token_ids[: len(written.token_ids)] == written.token_ids
    assert written.usage.completion_tokens == len(written.token_ids)
    assert written.timing.prefill_s > 0


def test_outputs_that_ended_are_kept_where_another_broke_off(llm):
    """One token's embedding is not a number; it stands in one of three prompts."""
    weight, right = llm.loaded.checkpoint.decoder.embedding.weight, llm.generate([IDS, IDS[:9]], GREEDY)
    spoiled = next(token for token in range(3, 300) if not any(token in (*IDS, *out.token_ids) for out in right))
    kept = weight[spoiled].clone()
    try:
        with torch.inference_mode():
            weight[spoiled] = torch.nan
        with pytest.raises(BrokenOff, match=r"1 of 3 texts broke off: .* not finite") as caught:
            llm.generate([IDS, [spoiled, 50], IDS[:9]], GREEDY)
        with pytest.raises(GlimpseError, match=r"^the model's logits|^step") as alone:
            llm.generate([spoiled, 50], GREEDY)
    finally:
        with torch.inference_mode():
            weight[spoiled] = kept
    assert not isinstance(alone.value, BrokenOff)
    first, second, third = caught.value.outputs
    assert second is None
    assert (first.token_ids, third.token_ids) == (right[0].token_ids, right[1].token_ids)


def test_bitwise_is_refused_before_a_model_is_opened():
    with pytest.raises(ArgumentError, match="exact 'bitwise' needs a CUDA GPU"):
        LLM("no/such/model", device="cpu", exact="bitwise")
