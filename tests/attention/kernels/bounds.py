"""No kernel may touch memory that it was not given: every address that the interpreter reads or writes is checked.

A GPU forgives a read just outside of a tensor as long as something else lies there, and fails on another day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.runtime import interpreter

_init_args = interpreter.GridExecutor._init_args_hst
_builder = interpreter.InterpreterBuilder
_load, _store, _add = _builder.create_masked_load, _builder.create_masked_store, _builder.create_atomic_rmw
_given: list[np.ndarray] = [np.zeros(0, np.uint64), np.zeros(0, np.uint64)]
_launched = ["none"]


def _remember(self: Any, args: Any, kwargs: Any) -> Any:
    args, kwargs = _init_args(self, args, kwargs)
    storages = [each.untyped_storage() for each in (*args, *kwargs.values()) if hasattr(each, "untyped_storage")]
    spans = sorted({(storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages})
    _given[:] = np.array(spans, np.uint64).reshape(-1, 2).T
    _launched[0] = self.fn.__name__
    return args, kwargs


def _check(what: str, pointers: Any, mask: np.ndarray) -> None:
    addresses = np.asarray(pointers.data)[np.asarray(mask, bool)]
    begins, ends = _given
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    span = np.searchsorted(begins, addresses, side="right") - 1
    inside = (span >= 0) & (addresses + np.uint64(size) <= ends[np.maximum(span, 0)])
    if not inside.all():
        raise AssertionError(f"{_launched[0]} {what} outside of its tensors, {int((~inside).sum())} numbers")


def _checked_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
    _check("reads", pointers, mask.data)
    return _load(self, pointers, mask, *rest)


def _checked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
    _check("writes", pointers, mask.data)
    return _store(self, pointers, value, mask, *rest)


def _checked_add(self: Any, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
    _check("counts", pointers, mask.data)
    return _add(self, op, pointers, value, mask, *rest)


def watch() -> None:
    """From now on every launch under the interpreter is checked."""
    interpreter.GridExecutor._init_args_hst = _remember
    _builder.create_masked_load, _builder.create_masked_store = _checked_load, _checked_store
    _builder.create_atomic_rmw = _checked_add
