"""Tokenizers small enough to reason about: bytes, a byte-level BPE, and a sentencepiece-like one with byte fallback."""

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

EOS = 256
"""The special token of `ByteTokenizer`; ids below are single bytes."""
SAMPLE = "naïve 🤗 한국어 日本 e.g. a . b"


class ByteTokenizer:
    """Ids 0-255 are bytes, 256 is a special token, the rest are the byte strings given. Counts the ids it decodes."""

    def __init__(self, merged: Sequence[bytes] = ()):
        self.pieces = [bytes([value]) for value in range(256)] + [b"<eos>", *merged]
        self.decoded = 0

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        self.decoded += len(ids)
        kept = (self.pieces[i] for i in ids if not (skip_special_tokens and i == EOS))
        return b"".join(kept).decode("utf-8", errors="replace")


class Fast:
    """A `tokenizers.Tokenizer` with our signature."""

    def __init__(self, tokenizer: Tokenizer):
        self.inner = tokenizer

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return self.inner.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text).ids


def byte_level_bpe() -> Fast:
    """A trained byte-level BPE, as of GPT-2, Llama 3, Qwen and SmolLM2; id 0 is special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<eos>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([SAMPLE, "the cat and the hat", "the dog"] * 4, trainer)
    return Fast(tokenizer)


def sentencepiece_like() -> Fast:
    """Words with ▁ for a leading space (dropped at the start of a text) and a token for each byte; id 0 is special."""
    words = ["</s>", *(f"<0x{value:02X}>" for value in range(256)), "▁", "▁▁", "▁the", "▁cat", "s", "."]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], byte_fallback=True))
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Fast(tokenizer)
