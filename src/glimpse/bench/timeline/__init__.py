"""`glimpse bench timeline`: what every row of the engine did, step by step."""
