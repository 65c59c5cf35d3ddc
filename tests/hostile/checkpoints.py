"""Hostile checkpoints: broken GGUF and safetensors heads, configurations, tokenizers."""

from __future__ import annotations

import json
import random
import shutil
import struct
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.hostile.mutations import broken_bytes, broken_json, odd_value
from tests.model.gguf_files import write_tiny_gguf
from tests.tiny import tiny_config, write_tiny_checkpoint

from glimpse import LLM, SamplingParams

MESSAGES = [{"role": "user", "content": "hi <|im_end|> there"}]
FEW = SamplingParams(max_tokens=3, seed=1)


def use(path: Path) -> None:
    """What a user does with a checkpoint: load it, write, chat."""
    llm = LLM(path, drafter="lookup", pacer="fixed", draft_tokens=2, max_batch_size=1)
    llm.generate("hi there", FEW)
    if llm.tokenizer.has_chat_template:
        llm.chat(MESSAGES, FEW)


@cache
def _gguf(family: str) -> tuple[bytes, int]:
    """A whole GGUF file, and how long its head is."""
    path = write_tiny_gguf(Path(mkdtemp()) / "m.gguf", tiny_config(family, vocab_size=300))
    whole = path.read_bytes()
    shutil.rmtree(path.parent)
    return whole, len(whole) - 4 * 300 * 48


@cache
def _folder(shards: int) -> dict[str, bytes]:
    """The files of a Hugging Face folder."""
    folder = Path(mkdtemp())
    write_tiny_checkpoint(folder, shards=shards, add_bos=True, generation_config={"temperature": 0.7, "top_k": 20})
    found = {file.name: file.read_bytes() for file in folder.iterdir()}
    shutil.rmtree(folder)
    return found


def _written(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def gguf_head(draw: random.Random, folder: Path) -> None:
    """Changed bytes in the head of a GGUF file."""
    whole, head = _gguf(draw.choice(("llama", "qwen2", "qwen3")))
    path = folder / "m.gguf"
    path.write_bytes(broken_bytes(whole, draw, head))
    use(path)


def gguf_values(draw: random.Random, folder: Path) -> None:
    """Metadata of legal types with values that make no sense."""
    keys = (
        "llama.context_length", "llama.embedding_length", "llama.feed_forward_length", "llama.block_count",
        "llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base", "llama.rope.scaling.type",
        "llama.rope.scaling.factor", "llama.rope.scaling.original_context_length", "llama.vocab_size",
        "llama.rope.dimension_count", "llama.expert_count", "llama.attention.sliding_window",
        "general.architecture", "general.alignment", "general.name", "general.basename", "split.count",
        "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.add_bos_token", "tokenizer.ggml.scores", "tokenizer.chat_template",
    )  # fmt: skip
    metadata = {draw.choice(keys): _gguf_value(draw) for _ in range(draw.randint(1, 3))}
    use(write_tiny_gguf(folder / "m.gguf", tiny_config(vocab_size=300), metadata=metadata))


def _gguf_value(draw: random.Random) -> Any:
    """A value that the format can hold: 32-bit numbers, text, flags, lists; None leaves the key out."""
    value = odd_value(draw, depth=2)
    kind = draw.randrange(8)
    if kind == 0:
        return [draw.choice((0, 1, 2**31 - 1)) for _ in range(draw.randint(1, 400))]
    if kind == 1:
        return [draw.choice(("", "a", "a b", "\x00", "x" * 50)) for _ in range(draw.randint(1, 400))]
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(0, value), 2**32 - 1)
    if isinstance(value, float):
        return value if abs(value) < 3e38 or value != value or abs(value) > 1e308 else 3e38
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def safetensors_head(draw: random.Random, folder: Path) -> None:
    """Changed bytes or values in the head of a safetensors file, or a changed index of shards."""
    files = dict(_folder(draw.choice((1, 2))))
    name = draw.choice(sorted(name for name in files if "safetensors" in name))
    files[name] = broken_json(files[name].decode(), draw) if name.endswith(".json") else _broken_head(files[name], draw)
    use(_written(files, folder))


def _broken_head(whole: bytes, draw: random.Random) -> bytes:
    size = 8 + int.from_bytes(whole[:8], "little")
    if draw.random() < 0.4:
        return broken_bytes(whole, draw, size)
    head = broken_json(whole[8:size].decode(), draw)
    return struct.pack("<Q", len(head)) + head + whole[size:]


def configuration(draw: random.Random, folder: Path) -> None:
    """A changed config.json or generation_config.json."""
    _broken_file(draw, folder, ("config.json", "generation_config.json"))


def rotary(draw: random.Random, folder: Path) -> None:
    """Rotary settings of every kind with values that make no sense."""
    files = dict(_folder(1))
    config = json.loads(files["config.json"])
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast",
             "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate")  # fmt: skip
    scaling = {name: draw.choice((1.0, 2.0, 8, odd_value(draw))) for name in names if draw.random() < 0.7}
    config["rope_scaling"] = {"rope_type": draw.choice(("linear", "dynamic", "llama3", "yarn")), **scaling}
    if draw.random() < 0.3:
        config["rope_theta"] = odd_value(draw)
    files["config.json"] = json.dumps(config).encode("utf-8", "surrogatepass")
    use(_written(files, folder))


def tokenizer_files(draw: random.Random, folder: Path) -> None:
    """A changed tokenizer.json or tokenizer_config.json."""
    _broken_file(draw, folder, ("tokenizer.json", "tokenizer_config.json"))


def _broken_file(draw: random.Random, folder: Path, names: tuple[str, ...]) -> None:
    files = dict(_folder(1))
    name = draw.choice(names)
    files[name] = broken_json(files[name].decode(), draw)
    use(_written(files, folder))
