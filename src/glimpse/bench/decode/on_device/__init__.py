"""Cells of device rounds. Imports triton (through `glimpse.attention.triton`): import it only where that is."""
