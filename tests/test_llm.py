"""The face: what is refused, streams, compare, pinned prompts, and that nothing is left behind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
IDS = list(range(40, 140))


@pytest.fixture(scope="module")
def llm(tiny):
    return tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=4)


@pytest.fixture(autouse=True)
def ledger(tiny):
    """Every test gives back every page."""
    yield
    assert tiny._loaded.pool.free_pages == tiny._loaded.pool.pages


def small(folder, **options) -> LLM:
    """One row, a cache of exactly one context of 128 tokens."""
    return LLM(folder, **{"max_batch_size": 1, "max_context": 128, "budget_floor": 8} | options)


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
        ({"budget_floor": -1}, "negative"),
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


def test_compare_of_a_whole_context_in_a_cache_of_one(tiny_folder):
    """The pinned prompt is part of the request's own pages, so there is room."""
    result = small(tiny_folder, drafter="sparse").compare(IDS, SamplingParams(temperature=0.0))
    assert result.identical
    assert len(result.baseline.token_ids) == 28


def test_no_room_beside_a_pinned_prompt_is_an_error(tiny_folder):
    llm = small(tiny_folder)
    with llm.pinned(IDS):
        with pytest.raises(GlimpseError, match="cache"):
            llm.generate([9] * 100, GREEDY)
        assert len(llm.generate(IDS, GREEDY)[0].token_ids) == 12
    assert len(llm.generate([9] * 100, GREEDY)[0].token_ids) == 12


def test_variants_share_the_cache_without_overfilling_it(tiny_folder):
    """Two engines over a cache of one context: the second waits or says that there is no room; nothing breaks."""
    llm = small(tiny_folder)
    stream = llm.stream(IDS, GREEDY)
    first = next(stream)
    with pytest.raises(GlimpseError, match="cache"):
        llm.variant(drafter="none").generate(IDS[::-1], GREEDY)
    tokens = [*first.token_ids, *(token for chunk in stream for token in chunk.token_ids)]
    assert tuple(tokens) == llm.generate(IDS, GREEDY)[0].token_ids
    assert llm._loaded.pool.free_pages == llm._loaded.pool.pages


def test_a_pin_dropped_while_a_row_reads_it(tiny_folder):
    """The row goes on holding the shared pages: they are not free for anyone else."""
    llm = small(tiny_folder)
    right = llm.generate(IDS, GREEDY)[0].token_ids
    with llm.pinned(IDS):
        stream = llm.stream(IDS, GREEDY)
        tokens = list(next(stream).token_ids)
    with pytest.raises(GlimpseError, match="cache"):
        llm.variant(drafter="none").generate([9] * 30, GREEDY)
    for chunk in stream:
        tokens += chunk.token_ids
    assert tuple(tokens) == right


def test_an_interrupted_pin_keeps_nothing(tiny_folder, monkeypatch):
    """What was half read must not be taken for a prefix."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 32)
    llm = small(tiny_folder)
    right = llm.generate(IDS, GREEDY)[0].token_ids
    llm._progress = interrupt
    with pytest.raises(KeyboardInterrupt), llm.pinned(IDS):
        pass
    llm._progress = lambda *_: None
    assert llm._loaded.pool.free_pages == llm._loaded.pool.pages
    assert llm.variant().generate(IDS, GREEDY)[0].token_ids == right


def test_pins_may_be_nested(llm, tiny):
    pool = tiny._loaded.pool
    with llm.pinned(IDS):
        held = pool.pages - pool.free_pages
        with llm.pinned(IDS), llm.pinned([5] * 512):
            assert pool.pages - pool.free_pages >= held
        assert pool.pages - pool.free_pages == held > 0


def test_a_pinned_prompt_is_read_once(llm):
    steps = []
    llm.generate(IDS, GREEDY)
    with llm.pinned(IDS):
        out = llm.generate(IDS, GREEDY)[0]
        steps.append(out)
    assert out.token_ids == llm.generate(IDS, GREEDY)[0].token_ids


def test_dynamic_rope_and_a_pinned_prompt(altered):
    """Keys of a longer prompt have another base, so what a shorter one left must not be used for it."""
    folder = altered(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    llm = LLM(folder, drafter="none", pacer="fixed")
    right = llm.generate([IDS[:90]], GREEDY)[0].token_ids
    with llm.pinned(IDS[:48]):
        assert llm.generate([IDS[:90]], GREEDY)[0].token_ids == right


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
