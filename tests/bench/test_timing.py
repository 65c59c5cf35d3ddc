"""The order in which arms are run."""

from glimpse.bench.timing import interleave, ratios, timed


def test_arms_alternate_and_warm_up_does_not_count():
    order = []
    arms = {name: (lambda name=name: order.append(name) or len(order)) for name in "abc"}
    values = interleave(arms, 2)
    assert "".join(order) == "cbaabccba"
    assert values == {"a": [4, 9], "b": [5, 8], "c": [6, 7]}


def test_timed_and_ratios():
    found = timed({"a": lambda: None, "b": lambda: sum(range(200_000))}, 3)
    assert all(ratio > 1 for ratio in ratios(found["b"], found["a"]))
