"""The files of the page as they are shipped: complete, small, nothing inline, nothing from elsewhere. No browser."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from fake_server import PAGE

FILES = sorted(file for file in PAGE.rglob("*") if file.is_file() and file.suffix != ".pyc")
INDEX = (PAGE / "index.html").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_small_and_names_no_other_place(file):
    text = file.read_text()
    assert len(text.splitlines()) <= 300
    assert re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z.]+", text.replace("http://www.w3.org", "")) == []


def test_nothing_is_inline():
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", INDEX)
    assert not re.search(r"<script(?![^>]*\ssrc=)", INDEX)


def test_all_that_is_named_is_there_and_all_that_is_there_is_named():
    shown = set(re.findall(r'(?:href|src)="static/([^"]+)"', INDEX))
    for script in PAGE.rglob("*.js"):
        for target in re.findall(r'from "([^"]+)"', script.read_text()):
            shown.add((script.parent / target).resolve().relative_to(PAGE).as_posix())
        shown.update(re.findall(r'"static/([^"]+)"', script.read_text()))
    assert shown | {"index.html"} == {file.relative_to(PAGE).as_posix() for file in FILES}


def test_they_come_with_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["glimpse"]
    room = PAGE.parents[1]
    packed = {file for pattern in patterns for file in room.glob(pattern) if file.is_file()}
    assert set(FILES) <= packed
