"""Drafts of several tokens at once: a block, made by a head that was trained for the target."""
