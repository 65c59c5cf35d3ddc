"""What a text may be: a JSON schema, a regular expression or a grammar, compiled by xgrammar to masks over tokens."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor

from glimpse.errors import ArgumentError, GlimpseError
from glimpse.sampling.patterns import refuse_overlooked
from glimpse.sampling.schema import LONGEST_PATTERN, refuse_unenforced

_KEPT = 64
"""Compiled grammars."""
_LONGEST = {"json_schema": 64 << 10, "regex": LONGEST_PATTERN, "ebnf": 8 << 10}
"""Characters of a grammar: a compiler's work grows faster than they do. It cannot be interrupted, and a regular
expression of 16,000 characters with 8,000 that may be left out took it a minute."""
_BITS = 32
_PLACE = re.compile(r".*\.cc:\d+: ")
"""Where in xgrammar's source an error was raised: of no use to whoever wrote the grammar."""


class Matcher(Protocol):
    """The part of `xgrammar.GrammarMatcher` that is used."""

    def accept_token(self, token_id: int) -> bool:
        """Goes on by a token if it is legal."""

    def rollback(self, num_tokens: int) -> None:
        """Takes tokens back."""

    def is_terminated(self) -> bool:
        """Whether the end-of-text token has been accepted."""

    def fill_next_token_bitmask(self, bitmask: Tensor, index: int) -> bool:
        """Writes which tokens are legal next."""


class Guide:
    """Where one request's text stands in its grammar, and where drafts would lead from there."""

    def __init__(self, matcher: Matcher, eos: Sequence[int]) -> None:
        self._matcher, self._eos = matcher, list(eos)
        self._ahead: list[int] = []
        """Draft tokens that the matcher has read beyond the committed text."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Tokens became part of the text; beyond the grammar's end nothing is kept track of."""
        self._back_to(0)
        for token in tokens:
            if self._matcher.is_terminated() or not self._matcher.accept_token(token):
                return

    def legal_after(self, draft: Sequence[int], mask: Tensor) -> bool:
        """Writes which tokens may follow the text and a draft into `mask` [1, words] int32.

        False where any may: the text is over, or the draft left the grammar and so can never be accepted. A grammar
        that cannot go on lets the text end.
        """
        if not self._move(draft) or self._matcher.is_terminated():
            return False
        if not self._matcher.fill_next_token_bitmask(mask, 0):
            return False
        if not mask.any():
            for token in self._eos:
                mask[0, token // _BITS] |= torch.tensor(1 << (token % _BITS)).to(torch.int32)
        return True

    def _move(self, draft: Sequence[int]) -> bool:
        """Reads on to the end of a draft, from the part shared with the last one; False where it is not legal."""
        shared = 0
        while shared < min(len(draft), len(self._ahead)) and draft[shared] == self._ahead[shared]:
            shared += 1
        self._back_to(shared)
        for token in draft[shared:]:
            if self._matcher.is_terminated() or not self._matcher.accept_token(token):
                return False
            self._ahead.append(token)
        return True

    def _back_to(self, length: int) -> None:
        if len(self._ahead) > length:
            self._matcher.rollback(len(self._ahead) - length)
            del self._ahead[length:]


class Grammars:
    """Compiles grammars for one checkpoint, and keeps the latest. Any thread may call it."""

    def __init__(self, tokenizer: Any, vocab_size: int, eos: Sequence[int]) -> None:
        """`tokenizer`: a transformers fast tokenizer; `vocab_size`: the width of the logits."""
        self._tokenizer, self._vocab_size, self._eos = tokenizer, vocab_size, eos
        self._lock = Lock()
        self._compiler: Any = None
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    def guide(self, grammar: Mapping[str, Any]) -> Guide:
        """The beginning of a grammar (see `SamplingParams.grammar`).

        Raises ArgumentError for one that is not legal or not fully enforced, GlimpseError where xgrammar is missing.
        """
        if not self._eos:
            raise ArgumentError("grammar: this checkpoint has no end-of-text token, so a text could not end by it")
        if find_spec("xgrammar") is None:
            raise GlimpseError(
                "grammar needs xgrammar: pip install 'glimpse-llm[serve]'; in a clone of Glimpse: make server"
            )
        import xgrammar

        with self._lock:
            return Guide(xgrammar.GrammarMatcher(self._compile(grammar)), self._eos)

    def _compile(self, grammar: Mapping[str, Any]) -> Any:
        ((kind, source),) = grammar.items()
        text = source if isinstance(source, str) else json.dumps(source)
        if len(text) > _LONGEST[kind]:
            raise ArgumentError(f"grammar: {kind} has {len(text):,} characters, and {_LONGEST[kind]:,} are the most")
        key = f"{kind}:{text}"
        if key not in self._compiled:
            self._compiled[key] = self._new(kind, text, source)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return self._compiled[key]

    def _new(self, kind: str, text: str, source: Any) -> Any:
        import xgrammar

        if self._compiler is None:
            info = xgrammar.TokenizerInfo.from_huggingface(
                self._tokenizer, vocab_size=self._vocab_size, stop_token_ids=list(self._eos)
            )
            self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        if kind == "json_schema":
            refuse_unenforced(source)
        if kind == "regex":
            refuse_overlooked(source)
        compilers = {
            "json_schema": lambda: self._compiler.compile_json_schema(text, any_whitespace=False),
            "regex": lambda: self._compiler.compile_regex(text),
            "ebnf": lambda: self._compiler.compile_grammar(text),
        }
        try:
            compiled = compilers[kind]()
        except Exception as error:  # of C++, whatever it raises
            reason = _PLACE.sub("", " ".join(str(error).split()))
            raise ArgumentError(f"grammar: this {kind} cannot be compiled: {reason}") from error
        mask = xgrammar.allocate_token_bitmask(1, self._vocab_size)
        if xgrammar.GrammarMatcher(compiled).fill_next_token_bitmask(mask, 0) and not mask.any():
            raise ArgumentError(f"grammar: no text of this model can be of this {kind}")
        return compiled
