"""Bugs of the server's answers and of grammars, whose tests need the extra `serve`."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GUIDE, _COMPLETION = "glimpse.sampling.grammar:Guide", "glimpse.serve.completions:CompletionForm"
_SIBLINGS = "sampling/test_grammar.py::test_nodes_of_a_tree_each_have_their_own_prefix"
_ALIKE = "serve/test_forms.py::test_a_stream_says_what_the_whole_answer_says"

MUTANTS = (
    Mutant(
        "grammar: drafts not taken back", "the matcher goes on behind a draft that was rejected",
        f"{_GUIDE}.commit", "self._back_to(0)", "self._ahead.clear()",
        "sampling/test_grammar.py::test_a_text_of_a_schema_is_valid_with_every_drafter[0.0-lookup]",
    ),
    Mutant(
        "grammar: any prefix is shared", "a sibling is read as though it were the one before it",
        f"{_GUIDE}._move", "and draft[shared] == self._ahead[shared]", "",
        _SIBLINGS,
    ),
    Mutant(
        "grammar: a draft that left it is masked", "behind an illegal draft token the mask is that of before it",
        f"{_GUIDE}._move", "return False", "return True",
        _SIBLINGS,
    ),
    Mutant(
        "server: held text lost", "what may have begun a tag is dropped where a stream ends",
        "glimpse.serve.chat:ChatForm.part", "found.append(reader.finish())", "reader.finish()",
        f"{_ALIKE}[half a tag-stop-1]",
    ),
    Mutant(
        "server: a tag cut in two", "one beginning of a tag is shown as text",
        "glimpse.serve.calls:_beginning", "len(_OPEN) - 1", "len(_OPEN) - 2",
        f"{_ALIKE}[calls-stop-1]",
    ),
    Mutant(
        "server: calls numbered anew", "every call of an answer is the first",
        "glimpse.serve.calls:TaggedCalls.feed", "self._count += len(calls or [])", "pass",
        f"{_ALIKE}[calls-stop-1]",
    ),
    Mutant(
        "server: a cut answer ends as a call", "an answer that met the limit says tool_calls",
        "glimpse.serve.chat:_ending", 'called and output.finish_reason == "stop"', "called",
        f"{_ALIKE}[calls-length-1]",
    ),
    Mutant(
        "server: offsets begin anew", "text_offset starts at 0 in every part of a stream",
        f"{_COMPLETION}._choice", "self._logprobs.setdefault(index, CompletionLogprobs(self._tokenizer))",
        "CompletionLogprobs(self._tokenizer)",
        "serve/test_openai.py::test_offsets_of_a_stream_go_on_from_part_to_part",
    ),
    Mutant(
        "server: the prompt of another text", "a text echoes the prompt of its place, not its own",
        f"{_COMPLETION}._prompt_text", "index // self._body.n", "index % len(self._prompts)",
        "serve/test_openai.py::test_every_text_of_several_prompts_echoes_its_own[False]",
    ),
)  # fmt: skip
"""In the order of the table."""
