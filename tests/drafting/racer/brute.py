"""The automaton's promise in plain Python: strings in a dict, in order of use."""

from __future__ import annotations

from glimpse.drafting.racer import ngrams
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.pooling import ESCAPE, FLOOR, OWN

Gram = tuple[int, ...]


class Brute:
    """Every n-gram of a text with its visits, and in which order they were used."""

    def __init__(self, capacity: int, length: int) -> None:
        self.capacity, self.length = capacity, length
        self.counts: dict[Gram, int] = {}
        self.order: list[Gram] = []
        self.text: list[int] = []

    def read(self, token: int) -> None:
        self.text.append(token)
        window = self.text[-self.length :]
        ends = [tuple(window[-size:]) for size in range(1, len(window) + 1)]
        for gram in ends:
            if gram in self.counts:
                self.order.remove(gram)
            else:
                self.make_room()
            self.counts[gram] = self.counts.get(gram, 0) + 1
            self.order.insert(self.order.index(gram[:-1]) if len(gram) > 1 else len(self.order), gram)

    def make_room(self) -> None:
        if len(self.counts) == self.capacity:
            del self.counts[self.order.pop(0)]

    def chance(self, context: Gram, token: int, least: int) -> float:
        """P(token | context), blended over the context's suffixes of at least `least` tokens."""
        if len(context) < least:
            return 0.0
        seen = sum(count for gram, count in self.counts.items() if gram[:-1] == context)
        below = self.chance(context[1:], token, least)
        return (self.counts.get((*context, token), 0) + ESCAPE * below) / (seen + ESCAPE)

    def proposals(self, depth: int, shortest: int) -> dict[Gram, float]:
        """Every continuation likely enough, with its probability; from contexts of at least `shortest` tokens.

        Where the draft is too long for that, from contexts of OWN drafted tokens or more.
        """
        found: dict[Gram, float] = {}
        layer: dict[Gram, float] = {(): 1.0}
        for drafted in range(depth):
            following: dict[Gram, float] = {}
            for path, reach in layer.items():
                context = (*self.text[-self.length :], *path)[-self.length :]
                least, most = shortest + drafted, self.length - 1
                least = least if least <= most else min(OWN, most)
                for token in {gram[-1] for gram in self.counts if len(gram) == least + 1}:
                    chance = reach * self.chance(context, token, least)
                    if chance >= FLOOR:
                        following[*path, token] = chance
            found |= following
            layer = following
        return found


def strings(automaton: Automaton) -> dict[int, Gram]:
    """The n-gram of each node, the root included, by walking the trie from the top."""
    nodes, found, open_nodes = automaton._nodes, {0: ()}, [0]
    while open_nodes:
        parent = open_nodes.pop()
        child = nodes[parent, ngrams.CHILD]
        while child:
            assert child not in found
            found[int(child)] = (*found[parent], int(nodes[child, ngrams.TOKEN]))
            open_nodes.append(int(child))
            child = nodes[child, ngrams.NEXT]
    return found


def by_use(automaton: Automaton) -> list[int]:
    """The nodes, least recently used first."""
    nodes, found = automaton._nodes, []
    node = int(nodes[0, ngrams.NEWER])
    while node:
        found.append(node)
        node = int(nodes[node, ngrams.NEWER])
    return found
