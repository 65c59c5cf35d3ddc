"""Rounds that stay on the GPU: draft, verify, accept and select without returning to the host.

For batches whose rows go in step. Imports triton (through `glimpse.attention.triton`): import it only where that is.
"""
