"""`glimpse bench fleet` and `batches`: a filled batch of the engine, rows at their own pace against other policies."""
