"""GGUF weights: dequantised to float32 a block of rows at a time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from gguf.quants import dequantize
from torch import Tensor

from glimpse.errors import ModelError
from glimpse.model.embedding import Bytes, FileRows
from glimpse.model.weights.gguf_file import GgufFile, GgufTensor

_ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_BLOCK_ROWS = 4096


def gguf_name(name: str) -> str:
    """The GGUF name of a tensor with a Hugging Face name."""
    if match := _LAYER.fullmatch(name):
        layer, part, kind = match.groups()
        return f"blk.{layer}.{_PARTS.get(part, part)}.{kind}"
    return _ENDS.get(name, name)


class GgufWeights:
    """A `WeightSource` over a GGUF file.

    `interleaved` gives the heads of q and k where the file pairs neighbouring rotary dimensions (its "llama"
    architecture); they are put back into the order of Hugging Face checkpoints.
    """

    def __init__(self, file: GgufFile, interleaved: dict[str, int] | None = None) -> None:
        self._file, self._interleaved = file, interleaved or {}

    def __contains__(self, name: str) -> bool:
        return gguf_name(name) in self._file.tensors

    def where(self, name: str) -> str:
        return str(self._file.path)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._find(name).shape

    def tensor(self, name: str) -> Tensor:
        found = self._find(name)
        tensor = _dequantised(self._raw(found), found, self._file.path)
        heads = self._interleaved.get(name.rsplit(".", 2)[-2])
        return tensor if heads is None else _halves_apart(tensor, heads)

    def rows(self, name: str) -> FileRows:
        found = self._find(name)

        def decode(raw: Bytes) -> Tensor:
            return torch.from_numpy(dequantize(raw, found.kind))

        return FileRows(self._file.path, found.offset, (found.shape[0], found.shape[-1]), found.row_bytes, decode)

    def _find(self, name: str) -> GgufTensor:
        return self._file.tensors[gguf_name(name)]

    def _raw(self, found: GgufTensor) -> Bytes:
        # Mapped anew for each tensor and unmapped after it, so pages already read do not count as memory.
        shape = found.bytes // found.row_bytes, found.row_bytes
        try:
            return np.memmap(self._file.path, np.uint8, "r", found.offset, shape)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self._file.path}: tensor {found.name!r} cannot be read: {error}") from error


def _dequantised(raw: Bytes, found: GgufTensor, path: Path) -> Tensor:
    out = np.empty((len(raw), found.shape[-1]), dtype=np.float32)
    try:
        # In blocks: the package keeps several float32 temporaries of what it is given.
        for start in range(0, len(raw), _BLOCK_ROWS):
            block = raw[start : start + _BLOCK_ROWS]
            out[start : start + len(block)] = dequantize(block, found.kind)
    except NotImplementedError as error:
        raise ModelError(
            f"{path}: tensor {found.name!r} is stored as {found.kind.name}, which the gguf package cannot dequantise"
        ) from error
    return torch.from_numpy(out).view(found.shape)


def _halves_apart(tensor: Tensor, heads: int) -> Tensor:
    """Rows of each head from (0, half, 1, half + 1, ...) to their natural order."""
    pairs = tensor.view(heads, tensor.shape[0] // heads // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)
