import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_toys import EOS, SAMPLE, ByteTokenizer

from glimpse.engine.commit import Commit, Committer
from glimpse.engine.text import TextStream

MERGED = [b"ab", b"bca", "é".encode(), b"c\xc3", b"\xa9a"]
NEWLINE = ord("\n")


def committer(*, max_tokens=None, context_room=1000, skip_special_tokens=True, **options):
    stream = TextStream(ByteTokenizer(MERGED), skip_special_tokens=skip_special_tokens)
    return Committer(stream, max_tokens=max_tokens, context_room=context_room, **options)


def run(sizes, ids, **options):
    """Commit `ids` in rounds of these sizes (the last again and again) until they or the output end."""
    output = committer(**options)
    commits, start, sizes = [], 0, list(sizes)
    while start < len(ids) and not output.finish_reason:
        size = sizes.pop(0) if len(sizes) > 1 else max(1, sizes[0])
        commits.append(output.commit(ids[start : start + size]))
        start += size
    return output, commits


def run_late(sizes, ids, lag, **options):
    """As `run`, but texts are read `lag` rounds later."""
    output = committer(**options)
    taken, commits, start, sizes = [], [], 0, list(sizes)
    while start < len(ids) and not output.finish_reason:
        size = sizes.pop(0) if len(sizes) > 1 else max(1, sizes[0])
        taken.append(output.take(ids[start : start + size]))
        start += size
        if len(taken) > lag:
            commits.append(output.show(taken[len(commits)]))
    commits += [output.show(one) for one in taken[len(commits) :]]
    return output, commits


def ends(output):
    return list(output.token_ids), output.text, output.finish_reason, output.stop_reason


def ids_of(text):
    return list(text.encode())


def plain(ids, limit, min_tokens, eos, stop_tokens, stops, include):
    """What plain decoding gives, written as simply as can be: the whole text is searched anew after each token."""
    tokenizer = ByteTokenizer(MERGED)

    def text_of(count, final):
        data = b"".join(tokenizer.pieces[i] for i in ids[:count] if i != EOS)
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)

    for count in range(1, min(len(ids), limit) + 1):
        token = ids[count - 1]
        if count > min_tokens and (token in eos or token in stop_tokens):
            return ids[:count], text_of(count - (not include), True), "stop", None if token in eos else token
        before, text = len(text_of(count - 1, False)), text_of(count, False)
        found = [
            (start, -len(stop), stop)
            for stop in stops
            for start in range(len(text))
            if text.startswith(stop, start) and start + len(stop) > before and count > min_tokens
        ]
        if found:
            start, size, stop = min(found)
            return ids[:count], text[: start - size if include else start], "stop", stop
    count = min(len(ids), limit)
    return ids[:count], text_of(count, count == limit), "length" if count == limit else None, None


@given(data=st.data())
@settings(max_examples=600, deadline=None)
def test_any_rounds_give_what_plain_decoding_gives(data):
    token = st.sampled_from([*b"abc", EOS, 257, 258, 259, 260, 261, 0xC3, 0xA9, NEWLINE])
    ids = data.draw(st.lists(token, min_size=1, max_size=40))
    limit = data.draw(st.integers(1, 45))
    min_tokens = data.draw(st.integers(0, 6))
    eos = data.draw(st.sets(st.sampled_from([EOS, NEWLINE])))
    stop_tokens = data.draw(st.sets(st.sampled_from([EOS, 258, NEWLINE]), max_size=2))
    stops = data.draw(st.lists(st.text("abcé", min_size=1, max_size=5), max_size=3))
    include = data.draw(st.booleans())
    sizes = data.draw(st.lists(st.integers(0, 17), min_size=1, max_size=20))
    output, commits = run(
        sizes,
        ids,
        max_tokens=limit,
        min_tokens=min_tokens,
        eos_token_ids=eos,
        stop_token_ids=stop_tokens,
        stop_strings=stops,
        include_stop_str_in_output=include,
    )
    expected = plain(ids, limit, min_tokens, eos, stop_tokens, stops, include)
    tail = "" if output.finish_reason else output.abort().tail
    if expected[2]:
        assert ends(output) == expected
    else:  # the ids ran out: aborted, so all that was held back is shown
        whole = ByteTokenizer(MERGED).decode(ids, skip_special_tokens=True)
        assert ends(output) == (ids, whole, "abort", None)
    assert [token for commit in commits for token in commit.token_ids] == list(output.token_ids)
    assert all(len(commit.pieces) == len(commit.token_ids) for commit in commits)
    assert "".join(commit.text for commit in commits) + tail == output.text


@given(ids=st.lists(st.sampled_from([*b"abc", 257, 258, 259, 0xC3, 0xA9]), min_size=1, max_size=30), data=st.data())
@settings(max_examples=200, deadline=None)
def test_pieces_do_not_depend_on_the_rounds(ids, data):
    options = {"max_tokens": 25, "stop_strings": ["abc", "cb", "é"]}
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=10))
    _, by_one = run([1], ids, **options)
    _, by_rounds = run(sizes, ids, **options)
    assert [p for c in by_one for p in c.pieces] == [p for c in by_rounds for p in c.pieces]


@given(ids=st.lists(st.sampled_from([*b"aab", 257, 258]), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_text_is_only_appended_to_and_never_shows_a_removed_stop(ids):
    output = committer(stop_strings=["aab", "bb"])
    shown = ""
    for token in ids:
        if output.finish_reason:
            break
        shown += output.commit([token]).text
        assert output.text == shown
        assert "aab" not in shown
        assert "bb" not in shown


@pytest.mark.parametrize("slot", range(9))
@pytest.mark.parametrize("size", [1, 4, 8, 9])
def test_eos_inside_a_round_ends_there(slot, size):
    """A23."""
    output, _ = run([size], [*b"abcdefghi"[:slot], EOS, *b"never"], eos_token_ids=[EOS])
    assert ends(output) == ([*b"abcdefghi"[:slot], EOS], "abcdefghi"[:slot], "stop", None)


def test_eos_as_the_first_token():
    """A05."""
    output, (first,) = run([4], [EOS, 0x61], eos_token_ids=[EOS])
    assert first == Commit((EOS,), ("",), "stop", None)
    assert output.room == 0


@pytest.mark.parametrize("limit", [1, 2, 3, 13])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_exactly_max_tokens(limit, size):
    """A05, A29; and without any EOS, A25."""
    output, _ = run([size], ids_of("abc" * 10), max_tokens=limit)
    assert ends(output) == (ids_of("abc" * 10)[:limit], ("abc" * 10)[:limit], "length", None)


def test_context_end_is_length():
    output, _ = run([16], ids_of("abcdef"), max_tokens=None, context_room=4)
    assert ends(output) == (ids_of("abcd"), "abcd", "length", None)
    assert run([16], ids_of("abcdef"), max_tokens=2, context_room=4)[0].text == "ab"
    assert run([16], ids_of("abcdef"), max_tokens=5, context_room=4)[0].text == "abcd"


def test_no_room_is_finished_from_the_start():
    """A30."""
    assert ends(committer(max_tokens=0)) == ([], "", "length", None)
    assert committer(context_room=0).room == 0


def test_every_eos_id_stops_and_ignore_eos_ignores_all():
    """A26."""
    ids = ids_of("abcabc")
    assert run([8], ids, eos_token_ids=[0x62, 0x63])[0].text == "a"
    output, _ = run([8], ids, eos_token_ids=[0x62, 0x63], ignore_eos=True, max_tokens=6)
    assert ends(output) == (ids, "abcabc", "length", None)
    output, _ = run([8], ids, eos_token_ids=[0x62], ignore_eos=True, stop_token_ids=[0x62])
    assert ends(output) == (ids[:2], "a", "stop", 0x62)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_min_tokens_come_before_any_stop(size):
    """A26."""
    ids = ids_of("abcabcabc")
    assert run([size], ids, eos_token_ids=[0x61, 0x63], min_tokens=4)[0].token_ids == ids[:6]
    assert run([size], ids, stop_token_ids=[0x62], min_tokens=4)[0].token_ids == ids[:5]
    output, _ = run([size], ids, stop_strings=["ca"], min_tokens=4)
    assert ends(output) == (ids[:7], "abcab", "stop", "ca"), "the first ca ends with token 4"
    output, _ = run([size], ids, stop_strings=["ca"], min_tokens=3)
    assert ends(output) == (ids[:4], "ab", "stop", "ca"), "it may begin before min_tokens"


def test_stop_inside_the_budget_though_the_round_crosses_the_cap():
    """A27."""
    output, _ = run([9], ids_of("abEN|more"), max_tokens=7, stop_strings=["N|"])
    assert ends(output) == (ids_of("abEN|"), "abE", "stop", "N|")
    output, _ = run([9], ids_of("abcdefgN|"), max_tokens=7, stop_strings=["N|"])
    assert ends(output) == (ids_of("abcdefg"), "abcdefg", "length", None)


@pytest.mark.parametrize(("options", "reason"), [({"stop_strings": ["c"]}, "c"), ({"stop_token_ids": [0x63]}, 0x63)])
def test_stop_exactly_at_the_cap_says_stop(options, reason):
    output, _ = run([5], ids_of("abcab"), max_tokens=3, **options)
    assert ends(output) == (ids_of("abc"), "ab", "stop", reason)


@pytest.mark.parametrize("offset", range(14))
@pytest.mark.parametrize("first", [1, 5, 16])
def test_stop_at_every_offset_of_a_long_round(offset, first):
    """A28."""
    text = "x" * offset + "END" + "y" * 20
    output, _ = run([first, 16], ids_of(text), stop_strings=["END"])
    assert ends(output) == (ids_of(text)[: offset + 3], "x" * offset, "stop", "END")


def test_stop_string_in_the_middle_of_a_token():
    output, _ = run([4], [*b"a", 258, *b"zz"], stop_strings=["c"])  # a, bca
    assert ends(output) == ([0x61, 258], "ab", "stop", "c")
    output, _ = run([4], [*b"a", 258, *b"zz"], stop_strings=["c"], include_stop_str_in_output=True)
    assert output.text == "abc"


def test_include_stop_str_shows_without_holding_back():
    output = committer(stop_strings=["abc"], include_stop_str_in_output=True)
    assert output.commit(ids_of("ab")).pieces == ("a", "b")
    assert output.commit(ids_of("cd")) == Commit((0x63,), ("c",), "stop", "abc")


def test_text_of_stop_tokens_is_shown_on_request_only():
    assert run([4], ids_of("ab"), stop_token_ids=[0x62])[0].text == "a"
    assert run([4], ids_of("ab"), stop_token_ids=[0x62], include_stop_str_in_output=True)[0].text == "ab"
    options = {"eos_token_ids": [EOS], "include_stop_str_in_output": True}
    assert run([4], [0x61, EOS], **options)[0].text == "a"
    assert run([4], [0x61, EOS], skip_special_tokens=False, **options)[0].text == "a<eos>"
    assert run([4], [0x61, EOS], skip_special_tokens=False, eos_token_ids=[EOS])[0].text == "a"


def test_held_text_comes_with_a_later_token_or_the_last():
    output = committer(stop_strings=["abX"], max_tokens=5)
    assert output.commit(ids_of("ab")).pieces == ("", "")
    assert output.commit(ids_of("c")).pieces == ("abc",)
    assert output.commit(ids_of("ab")) == Commit((0x61, 0x62), ("", "ab"), "length", None)


@pytest.mark.parametrize("size", range(1, 40))
def test_every_cut_streams_the_same_text(size):
    """A57, A58."""
    output, commits = run([size], [*ids_of(SAMPLE), EOS], eos_token_ids=[EOS])
    assert "".join(commit.text for commit in commits) == output.text == SAMPLE


def test_ending_inside_a_character_flushes_it_once():
    """A58."""
    output, commits = run([2], [*b"ab\xc3\xa9"], max_tokens=3)
    assert [commit.pieces for commit in commits] == [("a", "b"), ("\ufffd",)]
    assert output.text == "ab\ufffd"
    assert run([4], [0x61, 0xC3, EOS], eos_token_ids=[EOS])[1][0].pieces == ("a", "", "\ufffd")


def test_stop_string_that_only_the_flush_completes():
    output, _ = run([4], [*b"ab\xc3"], max_tokens=3, stop_strings=["\ufffd"])
    assert ends(output) == ([*b"ab\xc3"], "ab", "stop", "\ufffd")


@pytest.mark.parametrize("end", [EOS, NEWLINE])
@pytest.mark.parametrize(("stop", "shown"), [("\ufffd", "a"), ("a\ufffd", "")])
def test_stop_string_that_only_the_flush_before_a_stop_token_completes(end, stop, shown):
    ids = [ord("a"), "é".encode()[0], end]
    for size in (1, 3):
        output, _ = run([size], ids, eos_token_ids=[EOS], stop_token_ids=[NEWLINE], stop_strings=[stop])
        assert ends(output) == (ids, shown, "stop", stop)


def test_abort_shows_what_was_held_back():
    output = committer(stop_strings=["abX"])
    output.commit([*b"cab", 0xC3])
    assert output.text == "c"
    assert output.abort() == Commit((), (), "abort", None, "ab\ufffd")
    assert output.text == "cab\ufffd"
    assert output.abort() == Commit((), (), "abort", None)


def test_abort_after_the_end_changes_nothing():
    output, _ = run([4], ids_of("ab"), stop_token_ids=[0x62])
    assert output.abort() == Commit((), (), "stop", 0x62)


def test_commit_after_the_end_raises():
    output, _ = run([4], ids_of("ab"), max_tokens=1)
    with pytest.raises(RuntimeError, match="ended already"):
        output.commit([0x61])


def test_empty_round_is_legal():
    output = committer()
    assert output.commit([]) == Commit((), ())
    assert output.finish_reason is None


def test_room_bounds_drafting():
    output = committer(max_tokens=5)
    output.commit(ids_of("ab"))
    assert output.room == 3


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_texts_may_be_read_later(data):
    """Of whatever ids and limits: the same commits, and what is kept is known before its text."""
    token = st.sampled_from([*b"abc", EOS, 257, 258, 259, 260, 261, 0xC3, 0xA9, NEWLINE])
    ids = data.draw(st.lists(token, min_size=1, max_size=40))
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
    options = {
        "max_tokens": data.draw(st.integers(1, 45)), "min_tokens": data.draw(st.integers(0, 6)),
        "eos_token_ids": data.draw(st.sampled_from([(), (EOS,)])),
        "stop_token_ids": data.draw(st.sampled_from([(), (NEWLINE, 258)])),
        "stop_strings": data.draw(st.sampled_from([(), (), ("ab",), ("é", "ca")])),
        "include_stop_str_in_output": data.draw(st.booleans()),
    }  # fmt: skip
    right, commits = run(sizes, ids, **options)
    output, late = run_late(sizes, ids, data.draw(st.integers(0, 5)), **options)
    assert late == commits
    assert ends(output) == ends(right)


def test_what_ids_end_is_known_before_its_text():
    output = committer(max_tokens=3)
    first, last = output.take(ids_of("a")), output.take([0xC3, 0xC3, ord("b")])
    assert (last.token_ids, last.finish_reason, output.finish_reason) == ((0xC3, 0xC3), "length", "length")
    assert output.text == ""
    assert output.show(last).text == "\ufffd\ufffd"
    assert output.show(first).text == "a"
    assert output.text == "a\ufffd\ufffd"


def test_an_abort_shows_what_was_taken_before():
    output = committer()
    taken = output.take([ord("a"), 0xC3])
    assert output.abort().tail == "\ufffd"
    assert (output.text, output.show(taken).text, output.finish_reason) == ("a\ufffd", "a", "abort")
