"""Bugs of the bitwise mode, whose kernels run under Triton's interpreter here: a sum taken in another order."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_READ = "engine/device/test_bitwise.py::test_keys_and_values_are_the_same_bits_read_decoded_or_verified"

MUTANTS = (
    Mutant(
        "bits: pieces by batch", "attention cuts a row's positions as fills the machine, not at fixed places",
        "glimpse.attention.triton.attention:Paged._splits", "config.piece // config.block)", "0)",
        "attention/kernels/test_bitwise_kernels.py::test_attention_of_a_token_alone_and_among_others[float32-9-3]",
    ),
    Mutant(
        "bits: blocks by tokens", "linears take the inner dimension in shorter blocks where there are many tokens",
        "glimpse.attention.triton.narrow_config:NarrowConfig.bitwise", "block=64,",
        "block=64 if tokens <= 16 else 32,",
        "attention/kernels/test_bitwise_kernels.py::test_a_layers_linears_of_one_token_and_of_many[40]",
    ),
    Mutant(
        "bits: the head's blocks by tokens", "so does the head",
        "glimpse.attention.triton.product:product", "STEP=BLOCK,", "STEP=BLOCK if count <= 16 else 32,",
        "attention/kernels/test_bitwise_kernels.py::test_a_product_of_one_token_and_of_many[40]",
    ),
    Mutant(
        "bits: the library's head", "logits are a library's product, whose order changes with the number of tokens",
        "glimpse.engine.device.forward:FusedForward.__init__", "plain_weight(decoder.head) if bitwise else None",
        "None",
        "engine/device/test_bitwise.py::test_logits_are_the_same_bits_alone_and_among_others",
    ),
    Mutant(
        "bits: the fast mode's tiles", "linears are cut up by what is fastest for so many tokens",
        "glimpse.engine.device.forward:FusedForward._launches",
        "NarrowConfig.bitwise if self._bitwise else NarrowConfig.fit", "NarrowConfig.fit",
        _READ,
    ),
    Mutant(
        "bits: prompts read densely", "prompts are read by the fast mode's attention",
        "glimpse.engine.device.reading:Reader.__init__", "BitwiseReader(core) if core.settings.bitwise else None",
        "None",
        _READ,
        also=(("None if self._bitwise or core.trust else TailReader(core, graphs)", "None"),),
    ),
)  # fmt: skip
"""In the order of the table."""
