"""Where weights come from: one protocol over safetensors, GGUF and memory, names as in Hugging Face checkpoints."""

from glimpse.model.weights.source import WeightSource

__all__ = ["WeightSource"]
