"""The engine of a GPU: rounds as CUDA graphs, one step ahead of the host, beside an eager engine for the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain

import torch

from glimpse.cache.prefix import Key
from glimpse.cache.rows import RowView
from glimpse.engine.device.block_ahead import AheadBlocks
from glimpse.engine.device.block_reading import BlockReader
from glimpse.engine.device.core import Core
from glimpse.engine.device.eligible import why_not_request
from glimpse.engine.device.host_side import HostSide
from glimpse.engine.device.launch import Launcher
from glimpse.engine.device.mail import Mail
from glimpse.engine.device.own_pace import OwnPace
from glimpse.engine.device.paces import pace_of
from glimpse.engine.device.reading import Reader
from glimpse.engine.device.ready import capture_all, longest_chain
from glimpse.engine.device.seats import Seat, Seats
from glimpse.engine.device.settle import DeviceSettler, Launched
from glimpse.engine.device.steps import AnyMove, Steps
from glimpse.engine.device.tree_reading import TreeReader
from glimpse.engine.engine import Engine
from glimpse.engine.face import EngineFace, admit, enqueue, keep_prompt, put_back
from glimpse.engine.memory import within_memory
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.request import Progress, Request
from glimpse.engine.residents import Residents
from glimpse.pacing.riding import MODES
from glimpse.sampling.params import ResolvedParams

_WHILE_RUNNING = "the step's requests are lost; run fewer at once (max_batch_size) or shorter ones (max_context)"


class DeviceEngine:
    """Decodes requests together, as `Engine` does and with the same output.

    Requests whose sampling the device does not do go to the `eager` engine over the same rows and pages; the two step
    in turns. All that runs eagerly is counted with the reason (`Speculation.eager_steps`).
    """

    AHEAD = 1
    """Steps launched before the last one's report is read."""

    def __init__(self, parts: Parts, eager: Engine, core: Core) -> None:
        """`core` has as many rows as `parts`; `eager` has the same parts but for the costs it observes."""
        self.parts, self._eager = parts, eager
        self.steps = 0
        self._waiting: deque[Request] = deque()
        self._flying: deque[Launched] = deque()
        self._residents = Residents(parts, eager.options, steps=1 + self.AHEAD)
        self._core, self._seats = core, Seats(core)
        known, ahead = parts.pacer.foretells, core.blocks is not None and core.blocks.ahead > 0
        self._launcher = Launcher(core, exact=known and (core.drafts or ahead))
        if sizes := self._launcher.tree_sizes:
            parts.pacer.runs_in(sizes)
        self._mail = Mail(core.rows.report)
        self._steps = Steps(self._launcher, parts.budget, core.decoder.device)
        self._pace = pace_of(parts, core, self._launcher, eager.options.block_mode or MODES[0])
        host = self._host = HostSide(parts, core, self._pace)
        trees = TreeReader(core.trees, parts.rows) if core.trees else None
        heard = self._pace.heard if isinstance(self._pace, AheadBlocks) else None
        blocks = BlockReader(core.blocks, parts, heard) if core.blocks and core.blocks.told else None
        self._settler = DeviceSettler(parts, waits=host.waits, trees=trees, blocks=blocks)
        self._reader = Reader(core, parts.rows, self._seats, self._launcher.graphs, host.topk,
                              lambda seat: host.hears(self._seats.taken, seat), lambda: host.recalls)  # fmt: skip

    @property
    def options(self) -> EngineOptions:
        """How it decodes."""
        return self._eager.options

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._residents.running or self._eager.busy or self._settler.untold)

    @property
    def facts(self) -> Mapping[str, object]:
        """How many graphs there are, what memory they take, and how many were given up for others."""
        graphs = self._launcher.graphs
        return {"graphs": len(graphs), "graph_bytes": graphs.bytes, "graphs_dropped": graphs.dropped}

    def warm_up(self) -> int:
        """See `EngineFace.warm_up`."""
        launcher, mixes = self._launcher, isinstance(self._pace, OwnPace)
        steps = chain(launcher.ready(longest_chain(self.parts, self._core), mixes=mixes), self._reader.ready())
        return capture_all(steps, launcher.graphs, self.parts.lock)

    def refuses(self, params: ResolvedParams) -> str | None:
        """Whatever would run eagerly, where bits count: that is other kernels."""
        reason = why_not_request(params) if self._core.settings.bitwise else None
        return f"{reason}, which runs eagerly only: not with exact 'bitwise'" if reason else None

    def prefill_left(self, request: Request) -> int:
        """Prompt tokens of a request that no forward has read yet."""
        with self.parts.lock:
            mine = self._residents.slot_of(request) is not None
            return self._residents.prefill_left(request) if mine else self._eager.prefill_left(request)

    def add(self, request: Request) -> None:
        """Queues a request; one without room for a token has ended already."""
        with self.parts.lock:
            enqueue(self._waiting, request)

    def cancel(self, request: Request) -> None:
        """Takes a request out at once and frees what it held; what it has written stays."""
        with self.parts.lock, torch.inference_mode():
            self._land_hosted()
            if request in self._waiting:
                self._waiting.remove(request)
            self._settler.drop(request)
            self._eager.cancel(request)
            self._retire_finished()

    def preempt(self, request: Request) -> bool:
        """See `EngineFace.preempt`; waits for what is in flight."""
        with self.parts.lock, torch.inference_mode():
            if self._eager.preempt(request):
                return True
            if self._residents.slot_of(request) is None:
                return False
            self._land(0)
            slot = self._residents.slot_of(request)
            if slot is None:
                return False
            self._leave(request)
            self._residents.retire(slot)
            put_back(self._waiting, request)
            return True

    def keep_prompt(self, request: Request, report: Callable[[EngineFace], None]) -> Key | None:
        """See `face.keep_prompt`."""
        return keep_prompt(self, request, report)

    def drop_prompt(self, key: Key) -> None:
        """Gives up a kept prompt."""
        self._eager.drop_prompt(key)

    def step(self) -> list[Progress]:
        """Launches a step of all running rows and returns what the ones before committed.

        Raises GlimpseError where memory runs out.
        """
        with self.parts.lock, torch.inference_mode():
            return within_memory(self._run, self.parts.pool.device, _WHILE_RUNNING)

    def _run(self) -> list[Progress]:
        self._land_hosted()
        self._residents.publish()
        self._make_room()
        admit(self._waiting, self._residents, self._take, others=self._any_running)
        self._reader.step()
        launched = self._launch_next()
        self._reader.follow()
        self._settler.teach(fit=launched and self._flying[-1].hosted)
        if launched:
            self._host.launched(self._seats.taken, self._reader.begun, self._settler.waited)
        self._land(self.AHEAD if launched else 0)
        return self._told() + (self._eager.step() if self._eager.busy else [])

    def _told(self) -> list[Progress]:
        """What was read, its text by now: the device has its next step, or the host is about to draft for it."""
        progress = self._settler.tell()
        for made in progress:
            if made.request.hear:
                made.request.hear(made)
        return progress

    def _make_room(self) -> None:
        """Pages for all that the rows may write before the next step."""
        if self.options.reserve == "full":
            return
        while not self._residents.grow():
            self.preempt(self._residents.youngest)
        for row, seat in enumerate(self._seats.taken):
            self._seats.extend(row, self._residents.promised(seat.request))

    def _any_running(self) -> bool:
        return bool(self._residents.running) or self._eager.busy

    def _take(self, slot: int, request: Request) -> None:
        if why_not_request(request.params):
            self._eager.add(request)
            self._eager.admit()
            return
        self._residents.open(slot, request)
        self._host.takes(request)
        sequence = self.parts.rows.sequence(slot)
        # Usually all that it may come to write, so that its page table never changes.
        sequence.reserve(self._residents.promised(request))
        self._reader.add(Seat(request, slot, sequence))

    def _launch_next(self) -> bool:
        seats, host, begun = self._seats.taken, self._host, self._reader.begun
        if seats and host.changes:
            self._land(0)
            if seats:
                host.change(seats)
        if self._flying and host.asks(seats, begun):
            # Callers hear of a first token when the step is over, and drafts would hold it up: they come with the next.
            self._land(0)
            return False
        if not seats:
            return False
        view = RowView(self.parts.rows, tuple(seat.slot for seat in seats))
        move = host.next(seats, view, begun, plain=self._settler.doubtful)
        self._flying.append(self._launch(move, view))
        self.steps += 1
        return True

    def _launch(self, move: AnyMove, view: RowView) -> Launched:
        given, host = self._steps.launch(move, view), self._host
        letter, arrived = self._mail.send()
        return Launched(
            tuple(self._seats.taken), given.verifies, given.ran, given.steps, given.timed, letter, arrived,
            given.trees, given.blocks, asked=host.asked, unread=host.unread(self._seats.taken, view),
            hosted=host.hosted, drafts=self._core.drafts and host.own, late=self._reader.took(),
        )  # fmt: skip

    def _land_hosted(self) -> None:
        """Reads a step with drafts of the host: rows and pages stay as they are until then."""
        if self._flying and self._flying[-1].hosted:
            self._land(0)

    def _land(self, ahead: int) -> None:
        """Reads all steps but the last `ahead`."""
        while len(self._flying) > ahead:
            launched = self._flying.popleft()
            self._settler.settle(launched)
            self._host.learn(launched)
        if not self._flying:
            self._host.landed()
        self._retire_finished()

    def _retire_finished(self) -> None:
        for slot, request in list(self._residents.running.items()):
            if request.finished:
                self._leave(request)
                self._residents.retire(slot)

    def _leave(self, request: Request) -> None:
        """Takes a request's row or place in the queue away. What is in flight may still write to its pages: whoever
        gets them next writes later."""
        self._reader.leave(request)
        for seat in [seat for seat in self._seats.taken if seat.request is request]:
            self._seats.leave(seat)
            self._pace.leave(seat.slot)
            self._host.leave(seat.slot)
