"""Programmatic dependent launch: a kernel starts while the one before it drains, and waits before it touches memory.

A kernel launched so must wait, whatever it does; then the chain is as ordered as without. Nothing happens with LINKED
off, which is how the interpreter and older GPUs run.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def release(LINKED: tl.constexpr) -> None:
    """Lets the next kernel start. Call it after the wait, or in few kernels of a chain before it.

    Where all call it before, the whole chain starts, and fills the GPU waiting.
    """
    if LINKED:
        gdc_launch_dependents()


@triton.jit
def await_previous(LINKED: tl.constexpr) -> None:
    """Waits until the kernel before has ended and its writes can be read."""
    if LINKED:
        gdc_wait()


def launch_options(linked: bool) -> dict[str, bool]:
    """Options of a launch of such a kernel."""
    return {"LINKED": linked} | ({"launch_pdl": True} if linked else {})
