"""Where keys and values live: pages, the sequences that own them, the rows of a batch, and what a draft row reads."""
