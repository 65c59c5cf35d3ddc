"""Whole texts, plain against speculative, with other seeds: do both come from one law?

Few tokens may come, so that texts meet again. Chi-square of homogeneity over each pair of neighbouring tokens and over
whole texts. Under `rejection` no text need be the plain one of its seed: only laws can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import torch

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

LENGTH = 6
ALLOWED = 4
COMMON = 20
"""What was seen less often, in both samples together, is one cell."""
ARMS = {
    "rejection, sparse": {"acceptance": "rejection", "drafter": "sparse", "budget_floor": 36},
    "rejection, lookup": {"acceptance": "rejection", "drafter": "lookup"},
    "matched, sparse": {"acceptance": "matched", "drafter": "sparse", "budget_floor": 36},
    "matched, racer": {"acceptance": "matched", "drafter": "racer"},
    "coupled, sparse": {"acceptance": "coupled", "drafter": "sparse", "budget_floor": 36},
}
"""Drafts of three tokens (or nodes) by the fixed pacer."""
Text = tuple[int, ...]


def likeliest(llm: LLM, prompt: Sequence[int], count: int = ALLOWED) -> list[int]:
    """The `count` likeliest first tokens."""
    params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=count)
    entries = llm.generate([list(prompt)], params)[0].logprobs
    assert entries is not None
    return [token for token, _ in entries[0].top]


def texts(
    llm: LLM, prompt: Sequence[int], allowed: Sequence[int], count: int, seed: int, temperature: float = 0.9
) -> list[Text]:
    """`count` texts of one prompt, of the allowed tokens only."""
    gone = sorted({*range(llm.tokenizer.vocab_size)} - {*allowed})
    params = SamplingParams(
        max_tokens=LENGTH, temperature=temperature, n=count, seed=seed, suppress_tokens=gone, frequency_penalty=0.3,
        ignore_eos=True,
    )  # fmt: skip
    return [out.token_ids for out in llm.generate([list(prompt)], params)]


def one_law(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """The chance of two samples at least as unlike as these, if both come from one law."""
    counts = Counter(first), Counter(second)
    together = counts[0] + counts[1]
    cells = [(counts[0][value], counts[1][value]) for value, count in together.items() if count >= COMMON]
    rest = len(first) - sum(a for a, _ in cells), len(second) - sum(b for _, b in cells)
    if sum(rest):
        cells.append(rest)
    share = len(first) / (len(first) + len(second))
    statistic = 0.0
    for a, b in cells:
        for seen, expected in ((a, share * (a + b)), (b, (1 - share) * (a + b))):
            statistic += (seen - expected) ** 2 / expected
    freedom = len(cells) - 1
    if not freedom:
        return 1.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def least_p(first: Sequence[Text], second: Sequence[Text]) -> float:
    """The least of `one_law` over each pair of neighbours, and over whole texts."""
    pairs = [one_law([text[at : at + 2] for text in first], [text[at : at + 2] for text in second])
             for at in range(LENGTH - 1)]  # fmt: skip
    return min(*pairs, one_law(first, second))
