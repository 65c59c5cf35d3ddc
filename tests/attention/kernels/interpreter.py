"""Repairs of Triton 3.6's interpreter: bounds of loops under numpy 2.4 and up, products of bfloat16, and such as do not
depend on where a row stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import triton.language as tl
from triton.runtime import interpreter

from attention.kernels.quick import quicken

_patch_tensor = interpreter._patch_lang_tensor
_create_dot = interpreter.InterpreterBuilder.create_dot


def _patched(tensor, scope):
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def _wide(handle):
    """bfloat16 is held as the bits of an unsigned integer, which the interpreter would multiply as they are."""
    if handle.dtype != tl.bfloat16:
        return handle
    data = interpreter._convert_float(handle.data, tl.bfloat16, tl.float32, None).view("float32")
    return interpreter.TensorHandle(data, tl.float32)


def _dot(self, a, b, *rest):
    return _create_dot(self, _wide(a), _wide(b), *rest)


def repair() -> None:
    """Lets loops run to bounds that a kernel loaded or computed, and multiplies bfloat16 by its values."""
    interpreter._patch_lang_tensor = _patched
    interpreter.InterpreterBuilder.create_dot = _dot
    quicken()


@contextmanager
def even_products() -> Iterator[None]:
    """Products summed in float64 and then rounded: numpy's own depend in the last bit on a row's place and company."""

    def product(self, a, b, added, *rest):
        wide = interpreter.TensorHandle(added.data.astype("float64"), tl.float64)
        a, b = (_wide(each) for each in (a, b))
        a, b = (interpreter.TensorHandle(each.data.astype("float64"), tl.float64) for each in (a, b))
        found = _create_dot(self, a, b, wide, *rest)
        return interpreter.TensorHandle(found.data.astype(added.data.dtype), added.dtype.scalar)

    before = interpreter.InterpreterBuilder.create_dot
    interpreter.InterpreterBuilder.create_dot = product
    try:
        yield
    finally:
        interpreter.InterpreterBuilder.create_dot = before
