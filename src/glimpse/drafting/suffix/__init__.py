"""Suffix decoding on the host: `drafter` over `source` (one request), `index` (its text) and `store` (earlier ones)."""
