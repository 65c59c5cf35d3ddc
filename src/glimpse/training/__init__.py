"""The only trained part: FlexDraft's projections and calibrator for one target."""
