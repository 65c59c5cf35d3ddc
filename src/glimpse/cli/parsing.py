"""Values that typer does not parse by itself: lists of ids, biases, and text that may hold broken bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import typer

from glimpse.errors import ArgumentError


def text(option: str, value: str) -> str:
    """`value` itself, when it can be written as UTF-8. Raises ArgumentError for broken bytes (lone surrogates)."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{option} is not valid UTF-8: broken at character {error.start + 1}") from None
    return value


def whole(value: str) -> int:
    """A whole number. Raises typer.BadParameter naming `value`."""
    try:
        return int(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not a whole number") from None


def real(value: str) -> float:
    """A number. Raises typer.BadParameter naming `value`."""
    try:
        return float(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not a number") from None


def numbers(option: str, values: Iterable[str]) -> tuple[int, ...]:
    """Token ids out of `1,2` and repeated options. Raises ArgumentError naming what is no id."""
    return tuple(_id(option, item) for item in _items(values))


def weights(option: str, values: Iterable[str]) -> dict[int, float]:
    """Biases by token id out of `ID=BIAS,...` and repeated options. Raises ArgumentError naming what is none."""
    biases: dict[int, float] = {}
    for item in _items(values):
        token, _, bias = item.partition("=")
        try:
            index, value = _id(option, token), float(bias)
        except ValueError:
            raise ArgumentError(f"{option} {item!r} is not of the form ID=BIAS, for example 198=-5") from None
        if index in biases:
            raise ArgumentError(f"{option} {item!r}: token {index} has the bias {biases[index]:g} already; give one")
        biases[index] = value
    return biases


def _items(values: Iterable[str]) -> Iterator[str]:
    return (item.strip() for value in values for item in value.split(","))


def _id(option: str, item: str) -> int:
    if not (item.isascii() and item.isdigit()):
        raise ArgumentError(f"{option} {item!r} is not a token id (a whole number from 0)")
    return int(item)
