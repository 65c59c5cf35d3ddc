"""Tasks: what is hidden is in the prompt, and scores tell right answers from wrong ones."""

from glimpse.bench.tradeoff.tasks import DEPTHS, tasks_of


def test_scores(tiny):
    passage = tiny.tokenizer.encode("the cat sat on the mat and the rat ate the hat of the man in the den " * 8)
    tasks = {task.kind: task for task in tasks_of(tiny.tokenizer, [passage], 300)}
    assert set(tasks) == {*(f"needle {depth:g}" for depth in DEPTHS), "lookup", "copy", "format"}
    text = tiny.tokenizer.decode(tasks["needle 0.5"].prompt)
    number = text.split(" is ")[1][:4]
    assert number.isdigit()
    assert tasks["needle 0.5"].score(f"It is {number}.") == 1
    assert tasks["needle 0.5"].score("I do not know.") == 0
    places = [tiny.tokenizer.decode(tasks[f"needle {depth:g}"].prompt).find("The secret number") for depth in DEPTHS]
    assert places == sorted(places)
    assert tasks["format"].score("6 * 7 = 42\n#### 42") == 1
    assert tasks["format"].score("The answer is 42.") == 0
    copied = tiny.tokenizer.decode(passage[:48])
    assert tasks["copy"].score(copied) == 1
    assert tasks["copy"].score("x" * 40) < 0.1
