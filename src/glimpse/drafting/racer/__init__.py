"""RACER on the host: `drafter` joins `automaton` (retrieved n-grams) and `successors` (recycled logits) by `merging`."""
