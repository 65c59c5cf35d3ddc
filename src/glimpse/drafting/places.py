"""Arrays of many owners in one compiled call: a loop is told where they lie in memory, and looks at them there.

A call costs microseconds for each array that it is given, and each row of a batch has its own. Whoever hands an address
on keeps the array that lies there.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def pointer(typing: Any, address: Any) -> Any:
    """For compiled code: what lies at an address (int64), as `numba.carray` takes it."""

    def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), make
