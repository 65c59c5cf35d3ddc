"""A repair of Triton 3.6's interpreter for numpy 2.4 and up, where int() of an array of one element is an error."""

from __future__ import annotations

from triton.runtime import interpreter

_patch_tensor = interpreter._patch_lang_tensor


def _patched(tensor, scope):
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def repair() -> None:
    """Lets loops run to bounds that a kernel loaded or computed."""
    interpreter._patch_lang_tensor = _patched
