"""RACER on the host: `drafter` over `automaton` (retrieved n-grams), `successors` (recycled logits) and `merging`."""
