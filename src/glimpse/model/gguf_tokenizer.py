"""A tokenizer out of GGUF metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glimpse.errors import ModelError
from glimpse.model.tokenizer import Tokenizer, tokenizing
from glimpse.model.weights.gguf_file import GgufFile

_CONTROL, _USER_DEFINED = 3, 4
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class _Splitting:
    """How text is split before byte-level merges, and what else comes with the name in `tokenizer.ggml.pre`."""

    pattern: str | None = None
    """None: GPT-2's own pattern."""
    digits: bool = False
    whole_words: bool = False
    """Take a word that is in the vocabulary without merging."""
    normalize: bool = False
    adds_bos: bool = False


_SPLITTINGS = {
    "smollm": _Splitting(digits=True),
    "gpt-2": _Splitting(),
    "default": _Splitting(),
    "llama-bpe": _Splitting(_WORDS + r"\p{N}{1,3}" + _REST, whole_words=True, adds_bos=True),
    "qwen2": _Splitting(_WORDS + r"\p{N}" + _REST, normalize=True),
}


def tokenizer_from_gguf(file: GgufFile) -> Tokenizer:
    """The tokenizer stored in a GGUF file. ModelError if its kind is not supported or a part is missing."""
    kind = file.metadata.get("tokenizer.ggml.model")
    read = {"gpt2": _byte_level, "llama": _sentencepiece}.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ModelError(f"{file.path}: tokenizer {kind!r} is not supported; 'gpt2' (byte-level) and 'llama' are")
    with tokenizing(f"{file.path}: the tokenizer cannot be read"):
        return read(file)


def _byte_level(file: GgufFile) -> Tokenizer:
    name = file.metadata.get("tokenizer.ggml.pre", "default")
    if not isinstance(name, str) or name not in _SPLITTINGS:
        raise ModelError(f"{file.path}: text splitting {name!r} is not supported; these are: {', '.join(_SPLITTINGS)}")
    tokens, merges = _need(file, "tokens"), _need(file, "merges")
    backend = _backend(file, _SPLITTINGS[name], tokens, merges)
    return Tokenizer(_wrapped(file, backend, tokens))


def _backend(file: GgufFile, splitting: _Splitting, tokens: list[str], merges: list[str]) -> Backend:
    vocabulary = {text: index for index, text in enumerate(tokens)}
    pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
    backend = Backend(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=splitting.whole_words))
    if splitting.normalize:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _pre_tokenizer(splitting)
    backend.decoder = decoders.ByteLevel()
    _set_added(file, backend, tokens)
    _set_bos(file, backend, tokens, default=splitting.adds_bos)
    return backend


def _set_added(file: GgufFile, backend: Backend, tokens: list[str]) -> None:
    """Name the tokens that are cut out of a text before it is split."""
    typed = list(zip(tokens, file.metadata.get("tokenizer.ggml.token_type", []), strict=False))
    backend.add_special_tokens([_added(text, special=True) for text, kind in typed if kind == _CONTROL])
    backend.add_tokens([_added(text, special=False) for text, kind in typed if kind == _USER_DEFINED])


def _set_bos(file: GgufFile, backend: Backend, tokens: list[str], *, default: bool) -> None:
    """Put BOS before every text if the file says so, or `default` where it says nothing."""
    bos = file.metadata.get("tokenizer.ggml.bos_token_id")
    before: str = ""
    special: list[tuple[str, int]] = []
    if bos is not None and file.metadata.get("tokenizer.ggml.add_bos_token", default):
        before, special = f"{tokens[bos]} ", [(tokens[bos], bos)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{before}$A", pair=f"{before}$A $B", special_tokens=special
    )


def _need(file: GgufFile, name: str) -> Any:
    key = f"tokenizer.ggml.{name}"
    if key not in file.metadata:
        raise ModelError(f"{file.path}: metadata {key} is missing")
    return file.metadata[key]


def _added(text: str, *, special: bool) -> AddedToken:
    return AddedToken(text, special=special, normalized=False)


def _pre_tokenizer(splitting: _Splitting) -> pre_tokenizers.PreTokenizer:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if splitting.digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if splitting.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(splitting.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitting.pattern is None))
    return pre_tokenizers.Sequence(steps)


def _wrapped(file: GgufFile, backend: Backend, tokens: list[str]) -> Any:
    """A transformers tokenizer with the file's special tokens and chat template."""
    import transformers

    kind: Any = transformers.PreTrainedTokenizerFast
    ids = {name: file.metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in _SPECIAL.items()}
    named = {name: tokens[index] for name, index in ids.items() if index is not None and index < len(tokens)}
    template = file.metadata.get("tokenizer.chat_template")
    return kind(tokenizer_object=backend, chat_template=template, **named)


_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def _sentencepiece(file: GgufFile) -> Tokenizer:
    """Merges are not stored for this kind; transformers rebuilds them from the scores (slow on large vocabularies)."""
    from transformers import AutoTokenizer

    fast = AutoTokenizer.from_pretrained(file.path.parent, gguf_file=file.path.name, local_files_only=True)
    # Only the splitting is taken over: which tokens are special, or end a text, differs between transformers' versions.
    backend, tokens = fast.backend_tokenizer, _need(file, "tokens")
    _set_added(file, backend, tokens)
    _set_bos(file, backend, tokens, default=True)
    return Tokenizer(_wrapped(file, backend, tokens))
