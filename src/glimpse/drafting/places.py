"""Arrays of many owners in one compiled call: a loop is told where they lie in memory, and looks at them there.

A call costs microseconds for each array that it is given, and each row of a batch has its own. Whoever hands an address
on keeps the array that lies there.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from glimpse.drafting.compiled import compiled


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing: Any, address: Any) -> Any:
    def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), make


@compiled
def array_at(address: int, shape: int | tuple[int, ...], dtype: type) -> Any:
    """For compiled code: the array, one row after the other, that lies at an address."""
    return numba.carray(_pointer(address), shape, dtype)  # type: ignore[attr-defined, call-arg]
