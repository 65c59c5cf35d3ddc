"""Speed against how far a mode strays from the exact path: `glimpse bench tradeoff`."""
