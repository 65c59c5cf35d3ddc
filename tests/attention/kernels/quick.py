"""Triton 3.6's interpreter without what it works out again and again: the same bits in a fifth of the time.

It looks through the language for what to replace at each launch and at each call of a device function. It names and
counts the shape of every value, and lists numpy's types for each. It checks integers for overflow by computing them
twice, and then asserts nothing: assertions need `debug`, which it leaves off. It reduces, and so sorts, by calling the
function that combines once for each number.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from triton._utils import validate_block_shape
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from attention.kernels.operators import direct_operators

_patch_lang, _np_dtype = interpreter._patch_lang, interpreter._get_np_dtype
_broadcast, _cast, _to_tensor = TritonSemantic.broadcast_impl_value, TritonSemantic.cast, TritonSemantic.to_tensor
_equal = tl.dtype.__eq__
_NP = {kind.name: _np_dtype(kind) for kind in vars(tl).values() if type(kind) is tl.dtype and kind.name != "void"}
_POINTERS = np.dtype(np.uint64)


@cache
def _changes() -> list[tuple[Any, str, Any, Any]]:
    """(of what, name, what launches see, what everybody else sees) in all of the language."""
    scope = _patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    before: dict[tuple[Any, str], Any] = {}
    for owner, name, old in scope._changes:
        before.setdefault((owner, name), old)
    found = [(owner, name, vars(owner)[name], old) for (owner, name), old in before.items()]
    scope.restore()
    direct = direct_operators()
    return [(owner, name, direct.get((owner, name), _itself)(new), old) for owner, name, new, old in found]


def _itself(function: Any) -> Any:
    return function


class _Launch:
    """The language as kernels see it, until `restore`."""

    def __init__(self, kernel: Any) -> None:
        for owner, name, new, _ in _changes():
            setattr(owner, name, new)

    def restore(self) -> None:
        """As it was."""
        for owner, name, _, old in _changes():
            if old is interpreter._MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


def _patch_attr(owner: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
    semantic = TritonSemantic(builder)
    member = getattr(member, "__wrapped__", member)  # without the check that there is a `_semantic`

    def called(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        return member(*args, **kwargs, _semantic=semantic)

    scope.set_attr(owner, name, called)


def _device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Called by a launch, which has replaced already what there is to replace."""
    try:
        return self.rewrite()(*args, **kwargs)
    except Exception as error:
        raise InterpreterError(repr(error)) from error


@cache
def _sized(shape: builtins.tuple[int, ...]) -> tuple[Any, Any]:
    numel = 1
    for size in shape:
        numel *= size
    return tl.constexpr(numel), tl.tuple([tl.constexpr(size) for size in shape])


def _tensor(self: Any, handle: Any, type: Any) -> None:
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.numel, self.shape = _sized(builtins.tuple(type.shape.values) if type.is_block() else ())


@cache
def _blocked(shape: builtins.tuple[int, ...], kind: str) -> tuple[Any, int, str]:
    if not shape:
        raise TypeError("0d block_type is forbidden")
    made = tl.tuple(list(shape))
    return made, validate_block_shape(made), f"<{made}, {kind}>"


def _block(self: Any, element_ty: Any, shape: Sequence[Any]) -> None:
    sizes = builtins.tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
    self.element_ty = element_ty
    self.shape, self.numel, self.name = _blocked(sizes, element_ty.name)


def _value(self: Any, given: Any, *rest: Any) -> Any:
    return given if type(given) is tl.core.tensor else _to_tensor(self, given, *rest)


def _converted(self: Any, given: Any, kind: Any, *rest: Any) -> Any:
    return given if given.dtype is kind else _cast(self, given, kind, *rest)


def _same(self: Any, other: Any) -> bool:
    return self is other or _equal(self, other)


def _alike(self: Any, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    one, other = lhs.type, rhs.type
    if one.is_block() and other.is_block() and one.shape.values == other.shape.values:
        return lhs, rhs
    return _broadcast(self, lhs, rhs)


def _numpy_type(kind: Any) -> np.dtype:
    own = kind.scalar
    return _POINTERS if own.is_ptr() else _NP[own.name]


def _reduced(self: Any, given: builtins.tuple[Any, ...]) -> list[Any]:
    """Slice by slice along the axis, in the order and the types that Triton's own takes number by number."""
    parts, axis = self.unravel(given, self.axis)
    found = [part.handle.data.take(0, axis) for part in parts]
    for place in range(1, parts[0].handle.data.shape[axis]):
        slices = [part.handle.data.take(place, axis) for part in parts]
        pairs = zip((*found, *slices), (*parts, *parts), strict=True)
        made = self.combine_fn.fn(*(self.to_tensor(data, part.dtype) for data, part in pairs))
        made = made if isinstance(made, builtins.tuple) else (made,)
        found = [own.handle.data.reshape(old.shape).astype(old.dtype) for own, old in zip(made, found, strict=True)]
    if self.keep_dims:
        axes = axis if self.axis is not None else builtins.tuple(range(given[0].handle.data.ndim))
        found = [np.expand_dims(data, axes) for data in found]
    return [self.to_tensor(data, part.dtype) for data, part in zip(found, parts, strict=True)]


def quicken() -> None:
    """Every launch from now on; may be called again."""
    interpreter._patch_attr, interpreter._patch_lang = _patch_attr, _Launch
    interpreter.InterpretedFunction.__call__ = _device_function
    interpreter._get_np_dtype = _numpy_type
    tl.core.tensor.__init__, tl.core.block_type.__init__ = _tensor, _block
    TritonSemantic.broadcast_impl_value = _alike
    TritonSemantic.cast, TritonSemantic.to_tensor = _converted, _value
    tl.dtype.__eq__ = _same
    interpreter.ReduceOps.generic_reduce = _reduced
    options = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)
