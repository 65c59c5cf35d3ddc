"""Figures as SVG, drawn from result files; readable on light and on dark pages."""
