"""The plain path of a device over a given text: its picks are the engine's, and a wrong token is one difference."""

from __future__ import annotations

from benchmarks.million_judges import DevicePlain, Text, judged

from engine.device.engines import prompts_of, tiny_folder
from glimpse.bench.decode.cell import params_of
from glimpse.llm import LLM
from glimpse.sampling.resolve import resolve


def test_every_position_of_a_text_is_judged(tmp_path):
    llm = LLM(tiny_folder(tmp_path), drafter="none", pacer="fixed", max_batch_size=2, device="cpu")
    texts = []
    for row, ids in enumerate(prompts_of(llm, 6, 6)):
        params = params_of(0.8 * row, row, 2)
        texts.append(
            Text([*ids, 40 + row], list(llm.generate([[*ids, 40 + row]], params)[0].token_ids), resolve(params))
        )
    texts[1].output[1] = (texts[1].output[1] + 1) % 300
    plain = DevicePlain(llm, texts)
    count, found = judged(plain, texts, llm.tokenizer.vocab_size)
    plain.close()
    assert count == 4
    assert [(one.row, one.position) for one in found] == [(1, 1)]
    assert found[0].margin > 0.01
