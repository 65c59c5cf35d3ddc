"""What a server does before it serves: code is compiled ahead, and less of it is kept. In processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glimpse
from glimpse.cli.options import ModelOptions
from glimpse.cli.serve import ServerOptions, settings_of
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.serve.running import _bound
from glimpse.serve.settings import ServeSettings

PRODUCTS = """
import re, sys, torch
from pathlib import Path
from glimpse.model.linear import PackedLinear
from glimpse.serve.code_cache import bound_code_caches

def memory():
    return int(re.search(r"Rss:\\s+(\\d+)", Path("/proc/self/smaps_rollup").read_text())[1]) / 1024

torch.set_num_threads(1)
if sys.argv[1] == "bounded":
    bound_code_caches()
linear = PackedLinear(torch.randn(96, 48))
inputs = torch.randn(800, 48)
for rows in range(1, 301):
    linear(inputs[:rows])
before = memory()
for rows in range(301, 801):
    linear(inputs[:rows])
print(memory() - before)
"""
LOOPS = """
import sys
import numba
from glimpse import LLM, SamplingParams
from glimpse.serve.warming import warm

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("glimpse.")]
    loops = {id(one): one for module in modules for one in vars(module).values()
             if isinstance(one, numba.core.dispatcher.Dispatcher)}
    return {one.py_func.__qualname__: len(one.signatures) for one in loops.values()}

llm = LLM(sys.argv[1], drafter="none", device="cpu", threads=1)
warm(llm)
before, pool = compiled(), llm.loaded.pool
assert before["read"], before
assert pool.free_pages == pool.spare_pages == pool.pages
assert not pool._used.any(), "a prompt is remembered"
prompts = [[5, 6, 7, 8, 9] * 20, list(range(5, 90))]
for options in ({"drafter": "racer+suffix"}, {"drafter": "auto"}, {"drafter": "suffix", "suffix_store": "a"}):
    for _ in range(2):
        llm.variant(**options).generate(prompts, SamplingParams(max_tokens=40, temperature=0.8, seed=1))
after = compiled()
print({name: (before.get(name), count) for name, count in after.items() if count != before.get(name)})
"""


def said(code: str, *argv: str) -> str:
    unset = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    env |= {"PYTHONPATH": str(Path(glimpse.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_options_of_the_command_line_reach_the_server():
    asked = ServerOptions(allow_hosts=["a.test", "b.test"], allow_origins=["http://c.test"], body_seconds=5.0)
    settings = settings_of(ModelOptions(model="folder/tiny"), asked)
    assert (settings.allow_hosts, settings.allow_origins) == (("a.test", "b.test"), ("http://c.test",))
    assert (settings.body_seconds, settings.name) == (5.0, "tiny")


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of PyTorch has no oneDNN")
def test_code_of_products_that_are_not_seen_again_does_not_pile_up():
    usual, bounded = (float(said(PRODUCTS, how)) for how in ("usual", "bounded"))
    assert bounded < 40, "MiB of 500 shapes after 300 others"
    assert usual > 3 * bounded


def test_who_asks_for_a_retrieval_drafter_finds_its_loops_compiled(tiny_folder):
    assert said(LOOPS, str(tiny_folder)) == "{}"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": " "}, "name .*' '"),
        ({"name": "a", "allow_origins": ("page.test",)}, "allow_origin 'page.test'.*SCHEME"),
        ({"name": "a", "allow_origins": ("http://page.test/",)}, "allow_origin .*no path"),
        ({"name": "a", "allow_hosts": ("a b",)}, "allow_host 'a b'"),
        ({"name": "a", "allow_hosts": ("http://a.test",)}, "allow_host 'http://a.test'"),
    ],
)
def test_names_that_nothing_could_match_are_refused(options, named):
    with pytest.raises(ArgumentError, match=named):
        ServeSettings(**options)


def test_a_host_without_an_address_is_told_as_one():
    with pytest.raises(GlimpseError, match="--host 'nosuch\\.invalid'"):
        _bound(ServeSettings(name="a", host="nosuch.invalid"))
