"""A self-drafted chain with branches from what lay near: one tree, verified at once."""
