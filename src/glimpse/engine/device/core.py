"""What the steps of a batch have in common: the model, the rows, and the choice of their recall sets."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape, Paged, PagedConfig
from glimpse.attention.triton.mixed import Want
from glimpse.attention.triton.relaxing import Rule
from glimpse.attention.triton.select import Selection
from glimpse.attention.triton.sizes import parted
from glimpse.cache.pool import PagePool
from glimpse.engine.device.forward import FusedForward
from glimpse.engine.device.mail import upload
from glimpse.engine.device.settings import Learn, RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.device.trust_state import TrustState
from glimpse.engine.device.window import ExactWindow
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model import Decoder
from glimpse.model.embedding import DenseEmbedding

if TYPE_CHECKING:
    from glimpse.engine.device.block_state import BlockState


class Core:
    """The model and the rows that steps are made for, and the choice of their recall sets."""

    def __init__(
        self,
        decoder: Decoder,
        pool: PagePool,
        rows: DeviceRows,
        recall: DeviceRecall | None,
        settings: RoundSettings,
        vocab: int,
    ) -> None:
        """`vocab`: ids below it may be picked (the tokenizer's size). Raises ArgumentError for a model that runs on the
        eager path only."""
        spec, device = decoder.spec, decoder.device
        self.decoder, self.pool, self.rows, self.settings, self.vocab = decoder, pool, rows, settings, vocab
        self.shape = HeadShape(spec.heads, spec.kv_heads, spec.head_dim)
        self.width = rows.tokens.shape[1]
        self.forward = FusedForward(decoder, pool, self.width, bitwise=settings.bitwise)
        self.embedding = dense_embedding(decoder)
        self.version = 0
        """Counts changes of the rows' sampling settings and seeds."""
        self._recall = recall
        budget = settings.budget
        self._select = Selection(pool.page_size, budget.sinks, budget.recent)
        self.scored, self.known = parted(2, rows.size, torch.int32, device, torch.zeros)
        self.window: ExactWindow | None = None
        if settings.window:
            width = self.recall.fresh.shape[-1]
            self.window = ExactWindow(
                self.shape, spec.layers, rows.size, width, rows.most + 1, settings.window, device
            )  # fmt: skip
        decays = torch.tensor([0.0, 0.0 if settings.window else settings.decay, 0.0], device=device)
        self._decays = decays[:, None].repeat(1, rows.size)
        self.relaxes: Rule | None = None
        """A lossy rule by which drafts pass."""
        self.trees: TreeState | None = None
        """Where the rows verify draft trees."""
        self.trust: TrustState | None = None
        """Where Slow-Fast Inference paces the rows."""
        self.blocks: BlockState | None = None
        """Where mask tokens ride on the rows."""
        self.want = torch.zeros(rows.size, dtype=torch.int32, device=device)
        """What each row does in a mixed step (`Want`)."""

    @property
    def recall(self) -> DeviceRecall:
        """What draft rows read. Raises GlimpseError where these rows draft nothing."""
        if self._recall is None:
            raise GlimpseError("these rows keep no recall sets; make them with some to draft")
        return self._recall

    @property
    def drafts(self) -> bool:
        """Whether there are recall sets."""
        return self._recall is not None

    def paged(self, rows: int, queries: int) -> Paged:
        """Attention of `rows` rows of `queries` tokens that read everything."""
        device = self.decoder.device
        config = PagedConfig.bitwise(self.width, device) if self.settings.bitwise else None
        return Paged(self.shape, rows, queries, self.pool.page_size, device, config)

    def choose_sets(self, learn: Learn) -> None:
        """Chooses the sets of all rows anew from `recall.fresh`, of `scored` and `known` positions; 0: idle."""
        recall = self.recall
        recall.base.copy_(self.known)
        self._run_selection(self.scored, self.known, recall.count, self._decays[learn])

    def choose_wanted(self) -> None:
        """Chooses the sets of rows that learn in a mixed step, and leaves those of the others."""
        recall, want = self.recall, self.want
        lengths, counts = self.known * (want >= Want.ADD), torch.empty_like(recall.count)
        decays = torch.where(want == Want.ADD, self._decays[Learn.ADD], self._decays[Learn.ANEW])
        self._run_selection(self.scored, lengths, counts, decays)
        chosen = lengths > 0
        recall.base.copy_(torch.where(chosen, lengths, recall.base))
        recall.count.copy_(torch.where(chosen, counts, recall.count))

    def begin(self, first: int, scored: SequenceOf[int], known: SequenceOf[int]) -> None:
        """Chooses the first sets of the rows from `first` on, of `known` final positions each, whose prompts left the
        importance of those below `scored` in `recall.fresh`."""
        recall, own = self.recall, slice(first, first + len(known))
        given = torch.zeros(2, self.rows.size, dtype=torch.int32)
        given[:, own] = torch.tensor([scored, known])
        below, lengths = upload(given, self.known.device)
        counts = torch.empty_like(recall.count)
        self._run_selection(below, lengths, counts, self._decays[Learn.ANEW])
        recall.count[own], recall.base[own] = counts[own], lengths[own]

    def begin_all(self, learn: Learn) -> None:
        """Chooses the sets of all active rows from the importance that there is of their whole length.

        Learn.ANEW: it is that of their prompts.
        """
        torch.mul(self.rows.length - 1, self.rows.active, out=self.known)
        self.scored.copy_(self.known)
        self.choose_sets(learn)
        if self.window is not None and learn is Learn.ANEW:
            self.window.begin(self.recall.fresh)

    def _run_selection(self, scored: Tensor, lengths: Tensor, counts: Tensor, decays: Tensor) -> None:
        recall, budgets = self.recall, self.settings.budget.positions_of(lengths)
        self._select(
            recall.fresh, scored, lengths, budgets, self.rows.table, recall.slots, counts,
            running=recall.scores, decays=decays,
        )  # fmt: skip

    def quiet(self) -> _Quiet:
        """Puts all rows to rest, so that a step changes nothing of them; `wake` of what it returns undoes it."""
        held = [self.rows.active, self.rows.report.block]
        if self._recall is not None:
            held += [self._recall.count, self._recall.base]
        quiet = _Quiet(held)
        self.rows.active.zero_()
        return quiet


class _Quiet:
    """What a step of idle rows writes over all the same."""

    def __init__(self, held: list[Tensor]) -> None:
        self._held = [(tensor, tensor.clone()) for tensor in held]

    def wake(self) -> None:
        """Puts it back."""
        for tensor, kept in self._held:
            tensor.copy_(kept)


def dense_embedding(decoder: Decoder) -> Tensor:
    """The embedding's table [vocab, hidden]. Raises ArgumentError where it is not on the device."""
    if not isinstance(decoder.embedding, DenseEmbedding):
        raise ArgumentError("device rounds need the embedding in memory; this one is read from its file")
    return decoder.embedding.weight
