"""A known bug, put into the real code while a block runs: a few characters of one function's source, changed.

A function keeps its identity and gets the changed code, so that whoever imported it runs the bug. A kernel gets the
changed source through Triton's interpreter. Where the function, or the characters, are no longer there, nothing runs:
`StaleMutant` says so, and a mutant cannot rot unseen.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any


class StaleMutant(Exception):
    """What a mutant would change is not there any more; it has to be written anew, or struck off."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One thing that a developer could get wrong."""

    name: str
    mistake: str
    """What is wrong with it, for the table."""
    where: str
    """"package.module:function" or "package.module:Class.method"."""
    old: str
    """What stands there: found exactly once in the function's source."""
    new: str
    """What the bug has in its place."""
    caught_by: str
    """The test that has to fail (a pytest node id below tests/)."""
    also: tuple[tuple[str, str], ...] = ()
    """Further changes of the same function."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The bug, while the block runs. Raises StaleMutant where it cannot be put in."""
        install = self._prepare()
        undo = install()
        try:
            yield
        finally:
            undo()

    def check(self) -> None:
        """Raises StaleMutant where the bug could not be put in."""
        self._prepare()

    def _prepare(self) -> Callable[[], Callable[[], None]]:
        found = self._find()
        return self._kernel(found) if hasattr(found, "rewriter") else self._function(_plain_function(found))

    def _find(self) -> Any:
        module, _, path = self.where.partition(":")
        try:
            found: Any = import_module(module)
            for name in path.split("."):
                found = inspect.getattr_static(found, name)
        except (ImportError, AttributeError) as error:
            raise StaleMutant(f"{self.name}: {self.where} is gone ({error})") from error
        return found

    def _source(self, function: FunctionType) -> str:
        source = textwrap.dedent(inspect.getsource(function))
        source = source[source.index("def ") :]
        for old, new in ((self.old, self.new), *self.also):
            if source.count(old) != 1:
                raise StaleMutant(f"{self.name}: {old!r} stands {source.count(old)} times in {self.where}, not once")
            source = source.replace(old, new)
        return source

    def _function(self, function: FunctionType) -> Callable[[], Callable[[], None]]:
        right, wrong = function.__code__, _compiled(self._source(function), function)
        if right.co_freevars != wrong.co_freevars:
            raise StaleMutant(f"{self.name}: {self.where} is a closure; change the function around it")

        def install() -> Callable[[], None]:
            function.__code__ = wrong
            return lambda: setattr(function, "__code__", right)

        return install

    def _kernel(self, kernel: Any) -> Callable[[], Callable[[], None]]:
        right, source = kernel.rewrite(), self._source(kernel.fn)
        rewriter, known = kernel.rewriter, type(kernel).rewritten_fn
        wrong = rewriter._compile_and_exec(rewriter._transform_ast(source))

        def install() -> Callable[[], None]:
            known[kernel.fn] = wrong
            return lambda: known.__setitem__(kernel.fn, right)

        return install


def _plain_function(found: Any) -> FunctionType:
    """The function behind a property or a class or static method."""
    for name in ("fget", "func", "__func__"):
        found = getattr(found, name, None) or found
    if not isinstance(found, FunctionType):
        raise StaleMutant(f"{found!r} is no function")
    return found


def _compiled(source: str, function: FunctionType) -> CodeType:
    """The code of a function with another source, in the same module."""
    flags = __future__.annotations.compiler_flag
    code = compile(source, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    bodies = [part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == function.__name__]
    return bodies[0]
