"""The automaton's arrays: a trie of n-grams with failure links, counts and an order of use, all in one block of memory.

The trie holds *every* substring of at most `length` tokens of the text read so far that was not evicted. Reading a
token visits the last 1, 2, ... `length` tokens, which is the same set of n-grams as inserting one window of `length`
tokens per position, only without waiting until the window is full. Two things follow:

* the failure link of a node is the node without its first token. It always exists, so a link is right from the moment
  its node is made and never has to be mended (the released code builds links once, after prefill: `systems.md` 3a);
* using a node uses its ancestors and the nodes of its suffixes. In the order of use a visited node is put right behind
  its parent, where it is older than its failure link too: that one stands behind the parent's failure link, which is
  newer than the parent. So the least recently used node is never an ancestor or a failure link of another, and evicting
  it is O(1). (Nodes thus age from the token they begin with, as if they were inserted window by window.)

Aho and Corasick 1975; RACER, arXiv 2604.14885, section 3 (retrieval automaton).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.drafting.compiled import compiled
from glimpse.drafting.hashing import bucket_of

TOKEN, PARENT, FAIL, DEPTH, COUNT, CHILD, NEXT, PREVIOUS, OLDER, NEWER = range(10)
"""Columns of a node: its last token, parent, failure link, length, visits; first child, siblings; neighbours in the
order of use, where node 0, the root, closes the ring. 0 stands for no node."""
FIELDS = 10
USED, HELD, LAST = range(3)
"""Of `meta`: nodes ever used, the root included; how long the longest suffix of the text is that has a node; the text's
last token, -1 before there is one."""
MARKS = 3

Nodes = NDArray[np.int32]
"""[capacity + 1, FIELDS]"""
Buckets = NDArray[np.int32]
"""[power of two] node by (parent, token); 0 is an empty bucket."""
Ends = NDArray[np.int32]
"""[length + 1] the node of the text's last 0, 1, ... length tokens."""
Meta = NDArray[np.int64]


@compiled
def child_of(nodes: Nodes, buckets: Buckets, parent: int, token: int) -> int:
    """The child of `parent` by `token`, or 0."""
    mask = len(buckets) - 1
    place = bucket_of(parent, token, mask)
    while buckets[place] != 0:
        node = buckets[place]
        if nodes[node, PARENT] == parent and nodes[node, TOKEN] == token:
            return int(node)
        place = (place + 1) & mask
    return 0


@compiled
def _unhash(nodes: Nodes, buckets: Buckets, node: int) -> None:
    """Takes a node out of the hash table and closes the gap (linear probing without tombstones)."""
    mask = len(buckets) - 1
    gap = bucket_of(int(nodes[node, PARENT]), int(nodes[node, TOKEN]), mask)
    while buckets[gap] != node:
        gap = (gap + 1) & mask
    place = (gap + 1) & mask
    while buckets[place] != 0:
        other = buckets[place]
        home = bucket_of(int(nodes[other, PARENT]), int(nodes[other, TOKEN]), mask)
        if (place - home) & mask >= (place - gap) & mask:
            buckets[gap] = buckets[place]
            gap = place
        place = (place + 1) & mask
    buckets[gap] = 0


@compiled
def _unlink(nodes: Nodes, node: int) -> None:
    """Out of the order of use."""
    nodes[nodes[node, OLDER], NEWER] = nodes[node, NEWER]
    nodes[nodes[node, NEWER], OLDER] = nodes[node, OLDER]


@compiled
def _put_behind(nodes: Nodes, node: int, newer: int) -> None:
    """Into the order of use, next older than `newer`; behind the root, 0, is the newest place."""
    older = nodes[newer, OLDER]
    nodes[node, OLDER], nodes[node, NEWER] = older, newer
    nodes[older, NEWER] = node
    nodes[newer, OLDER] = node


@compiled
def _evict(nodes: Nodes, buckets: Buckets) -> int:
    """Removes the least recently used node, a leaf that is nobody's failure link, and returns it."""
    node = int(nodes[0, NEWER])
    _unlink(nodes, node)
    _unhash(nodes, buckets, node)
    after, previous = nodes[node, NEXT], nodes[node, PREVIOUS]
    if previous != 0:
        nodes[previous, NEXT] = after
    else:
        nodes[nodes[node, PARENT], CHILD] = after
    if after != 0:
        nodes[after, PREVIOUS] = previous
    return node


@compiled
def _add(nodes: Nodes, buckets: Buckets, meta: Meta, parent: int, token: int, fail: int) -> int:
    """A new child of `parent`; another node is evicted when all are in use."""
    if meta[USED] < len(nodes):
        node = int(meta[USED])
        meta[USED] += 1
    else:
        node = _evict(nodes, buckets)
    first = nodes[parent, CHILD]
    nodes[node, TOKEN], nodes[node, PARENT], nodes[node, FAIL] = token, parent, fail
    nodes[node, DEPTH], nodes[node, COUNT], nodes[node, CHILD] = nodes[parent, DEPTH] + 1, 0, 0
    nodes[node, NEXT], nodes[node, PREVIOUS] = first, 0
    if first != 0:
        nodes[first, PREVIOUS] = node
    nodes[parent, CHILD] = node
    mask = len(buckets) - 1
    place = bucket_of(parent, token, mask)
    while buckets[place] != 0:
        place = (place + 1) & mask
    buckets[place] = node
    _put_behind(nodes, node, parent)
    return node


@compiled
def _read(nodes: Nodes, buckets: Buckets, ends: Ends, meta: Meta, token: int) -> None:
    """Appends one token to the text."""
    longest = min(meta[HELD] + 1, len(ends) - 1)
    meta[HELD] = longest
    parent, fail, known = 0, 0, True
    for size in range(1, longest + 1):
        node = child_of(nodes, buckets, parent, token) if known else 0
        known = node != 0
        if known:
            _unlink(nodes, node)
            _put_behind(nodes, node, parent)
        else:
            node = _add(nodes, buckets, meta, parent, token, fail)
        nodes[node, COUNT] += 1
        parent, fail = int(ends[size]), node
        ends[size] = node


@compiled
def read(nodes: Nodes, buckets: Buckets, ends: Ends, meta: Meta, tokens: NDArray[np.int64]) -> None:
    """Appends tokens to the text: the state moves on, their n-grams are counted, unused ones make room."""
    for token in tokens:
        _read(nodes, buckets, ends, meta, token)
        meta[LAST] = token
