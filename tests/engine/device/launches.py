"""What a GPU would compile: launches are looked at instead of run, each by the key Triton keeps a binary under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from triton._C.libtriton import native_specialize_impl
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.interpreter import InterpretedFunction

Key = tuple[Any, ...]


def key_of(kernel: InterpretedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key:
    """The kernel, each argument's type and what is assumed of its value, each constexpr, and the launch's options."""
    given = dict(zip(kernel.arg_names, args, strict=False)) | kwargs
    constants = {name for name, kind in kernel.fn.__annotations__.items() if kind == "tl.constexpr"}
    free, unaligned = (
        kernel.kwargs[name] or () for name in ("do_not_specialize", "do_not_specialize_on_alignment")
    )  # fmt: skip
    own: list[Any] = [
        ("constexpr", given.pop(name))
        if name in constants
        else native_specialize_impl(CUDABackend, given.pop(name), False, name not in free, name not in unaligned)
        for name in kernel.arg_names
    ]
    return (kernel.fn.__module__.rpartition(".")[2], kernel.fn.__name__, *own, *sorted(given.items()))


def names(keys: set[Key]) -> Counter[str]:
    """How many binaries each kernel has."""
    return Counter(f"{key[0]}.{key[1]}" for key in keys)


@contextmanager
def watched() -> Iterator[set[Key]]:
    """The keys of all that is launched while the block runs; nothing is run."""
    keys: set[Key] = set()

    def instead(kernel: InterpretedFunction, grid: Any) -> Any:
        return lambda *args, **kwargs: keys.add(key_of(kernel, args, kwargs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpretedFunction, "__getitem__", instead)
        yield keys
