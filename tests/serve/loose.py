"""An acceptance rule that says it changes the text."""

from glimpse.acceptance.exact import Coupled


class Loose(Coupled):
    name = "loose"
    lossless = False
