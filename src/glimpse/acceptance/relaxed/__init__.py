"""Rules that trade exactness for speed. Reached through `EngineOptions.lossy` alone (`glimpse.acceptance.lossy`)."""
