"""What holds for every exact rule: shapes, empty rows, greedy rows, padding."""

import torch

from glimpse.acceptance import NodeNoise
from glimpse.sampling import Laws, Role

V = 6


def noise_for(laws, seed=0, first_position=10):
    n = len(laws)
    return NodeNoise(torch.full((n,), seed), torch.arange(first_position, first_position + n))


def greedy_laws(*tokens):
    return Laws.point(torch.tensor(tokens), V)


def test_flags(rule):
    assert rule.lossless
    assert rule.name in ("coupled", "matched", "rejection")
    assert rule.needs_law == (not rule.trees) == (rule.name == "rejection")
    assert rule.draft_role is (Role.TARGET if rule.name == "coupled" else Role.DRAFT)


def test_greedy_rows_accept_exactly_the_argmax(rule, make_draft):
    laws = greedy_laws(3, 4, 5, 1, 2, 0, 0, 2)
    #            row 0: wants 3 4 5 1; row 1: wants 2 then 0; row 2: wants 0 then 2
    got = rule.accept(make_draft([[3, 4, 0], [2], [1]]), laws, noise_for(laws))
    assert got.paths() == [[0, 1], [0], []]
    assert got.token_lists() == [[3, 4, 5], [2, 0], [0]]
    assert got.counts == (2, 1, 0)


def test_greedy_rows_accept_a_sampled_draft_only_where_it_is_the_argmax(rule, make_draft):
    q = Laws.dense(torch.full((2, V), 1 / V).log())
    laws = greedy_laws(3, 4, 5)
    for draft, right in [([3, 4], [3, 4, 5]), ([3, 5], [3, 4]), ([1, 4], [3])]:
        for seed in range(20):
            got = rule.accept(make_draft([draft], law=q), laws, noise_for(laws, seed))
            assert got.token_lists() == [right]


def test_case_a04_a_wrong_single_token_is_always_refused(rule, make_draft):
    laws = greedy_laws(3, 1)
    for wrong in (0, 1, 2, 4, 5):
        assert rule.accept(make_draft([[wrong]]), laws, noise_for(laws)).token_lists() == [[3]]


def test_case_a32_empty_rows_and_a_batch_of_them(rule, make_draft):
    laws = greedy_laws(3, 1, 4, 0)
    got = rule.accept(make_draft([[], [1], []]), laws, noise_for(laws))
    assert got.token_lists() == [[3], [1, 4], [0]]
    empty = rule.accept(make_draft([[], []]), greedy_laws(3, 1), noise_for(greedy_laws(3, 1)))
    assert empty.token_lists() == [[3], [1]]
    assert empty.paths() == [[], []]


def test_case_a12_never_more_than_draft_plus_one_and_only_real_tokens(rule, make_draft):
    logp = torch.log_softmax(torch.randn(6, V, generator=torch.Generator().manual_seed(0)), 1)
    q = Laws.dense(torch.log_softmax(torch.randn(4, V, generator=torch.Generator().manual_seed(1)), 1))
    for seed in range(300):
        for law in (None, q):
            got = rule.accept(make_draft([[1, 2, 3], [4]], law=law), Laws.dense(logp), noise_for(logp, seed))
            assert [len(row) for row in got.token_lists()] == [count + 1 for count in got.counts]
            assert all(count <= most for count, most in zip(got.counts, (3, 1), strict=True))
            assert all(0 <= token < V for row in got.token_lists() for token in row)
            assert got.token_lists()[0][: got.counts[0]] == [1, 2, 3][: got.counts[0]]


def test_rows_do_not_depend_on_their_neighbours(rule, make_draft):
    logp = torch.log_softmax(torch.randn(7, V, generator=torch.Generator().manual_seed(3)), 1)
    drafts = [[1, 2], [], [3, 0]]
    laws, noise = Laws.dense(logp), noise_for(logp, seed=5)
    together = rule.accept(make_draft(drafts), laws, noise)
    for row, (start, end) in enumerate([(0, 3), (3, 4), (4, 7)]):
        own = NodeNoise(noise.seeds[start:end], noise.positions[start:end])
        alone = rule.accept(make_draft([drafts[row]]), laws.select(slice(start, end)), own)
        assert alone.token_lists()[0] == together.token_lists()[row]


def test_case_a19_a_forbidden_token_may_be_drafted_and_is_refused(rule, make_draft):
    p = torch.tensor([[0.5, 0.5, 0, 0, 0, 0], [0, 0, 1.0, 0, 0, 0]])
    laws = Laws.dense(p.log())
    for seed in range(200):
        got = rule.accept(make_draft([[4]]), laws, noise_for(laws, seed))
        assert got.counts == (0,)
        assert got.token_lists()[0][0] in (0, 1)


def test_tokens_outside_the_laws_vocabulary_are_refused(rule, make_draft):
    laws = greedy_laws(V - 1, 4)
    assert rule.accept(make_draft([[V + 3]]), laws, noise_for(laws)).token_lists() == [[V - 1]]
