"""`glimpse bench steps` and `glimpse bench decode`: cells of a model, a context and a batch, plain and drafted."""
