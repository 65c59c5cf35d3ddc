"""How much compiled code a server on a CPU keeps.

oneDNN compiles every product anew for each number of rows that it sees, about 0.5 MiB each, and keeps 1,024 of them for
the process. PyTorch keeps 1,024 besides in every thread that multiplies, which holds on to code that oneDNN has
dropped; and a server has a thread for each of its ways of decoding.
"""

from __future__ import annotations

import os

# A step's products have some five shapes, whatever the layers, so a thread finds nearly all of its own among 16; the
# rest costs 0.03 ms each. Of 256 in the process, 50 numbers of rows at once are of use; compiling takes 1 to 2 ms.
_MOST = {"LRU_CACHE_CAPACITY": "16", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256"}


def bound_code_caches() -> None:
    """Lowers both where the environment does not set them. Without effect once the process has multiplied."""
    for name, most in _MOST.items():
        os.environ.setdefault(name, most)
