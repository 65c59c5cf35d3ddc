"""Host loops compiled by numba, which is imported only by who drafts from host structures."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, compiled at its first call, without bounds checks and without the interpreter's lock.

    The machine code is kept where numba keeps it: `$NUMBA_CACHE_DIR`, else beside the module, else (a package folder
    that cannot be written) in the user's cache folder. Where none can be written, each process compiles anew. Numba
    notices when the function's own module changes, not when one whose functions it calls does: then `make clean`.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba's only way to say that no folder can be written
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]
