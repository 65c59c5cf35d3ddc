"""Counters for Prometheus, under vLLM's names with `glimpse:` for `vllm:` where vLLM has one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from glimpse.llm import LLM
from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.serve.usage import Stopwatch
from glimpse.serve.ways import Ways

_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640)
_EACH = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)
_WHOLE = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 240, 480, 960)
_BY_DRAFTER = ("model_name", "drafter")


class Metrics:
    """One registry a server, so that several in a process do not mix."""

    def __init__(self, name: str, llm: LLM, ways: Ways) -> None:
        self._name = name
        self.registry = CollectorRegistry()
        self.registry.register(_State(name, llm, ways))
        self._prompt = self._counter("prompt_tokens", "Prompt tokens read.")
        self._written = self._counter("generation_tokens", "Tokens written.")
        self._drafts = self._counter("spec_decode_num_drafts", "Verifications with a draft.")
        self._drafted = self._counter("spec_decode_num_draft_tokens", "Draft tokens verified: of a tree, all nodes.")
        self._accepted = self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.")
        self._at = self._counter(
            "spec_decode_num_accepted_tokens_per_pos", "Draft tokens accepted, by their place in the draft from 0.",
            (*_BY_DRAFTER, "position"),
        )  # fmt: skip
        self._lossy = self._counter(
            "lossy_tokens", "Tokens written by modes that change the text.", (*_BY_DRAFTER, "lossy")
        )  # fmt: skip
        self._passed = self._counter(
            "lossy_passed_tokens", "Of texts that ended: what a relaxed rule alone let pass, or nothing verified.",
            (*_BY_DRAFTER, "lossy"),
        )  # fmt: skip
        self._ended = self._counter(
            "request_success", "Texts that ended, by how.", (*_BY_DRAFTER, "finished_reason")
        )  # fmt: skip
        self._failed = self._counter(
            "request_failed", "Requests that were refused or failed.", ("model_name", "status")
        )
        self._left = self._counter("request_disconnected", "Requests whose client went away.", ("model_name",))
        self._first = self._histogram("time_to_first_token_seconds", "From a request to its first token.", _FIRST)
        self._each = self._histogram("request_time_per_output_token_seconds", "Decoding, a token.", _EACH)
        self._queue = self._histogram("request_queue_time_seconds", "From a request to its row.", _FIRST)
        self._whole = self._histogram("e2e_request_latency_seconds", "From a request to its end.", _WHOLE)

    def of(self, drafter: str, lossy: str | None = None) -> DrafterMetrics:
        """The counters of one drafter, and of the lossy mode it goes with, if any: all strengths are counted as one."""
        return DrafterMetrics(self, (self._name, drafter), None if lossy is None else lossy.partition(":")[0])

    def failed(self, status: int) -> None:
        """A request was not answered."""
        self._failed.labels(self._name, str(status)).inc()

    def left(self) -> None:
        """A client went away before its answer."""
        self._left.labels(self._name).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: Sequence[str] = _BY_DRAFTER) -> Counter:
        return Counter(f"glimpse:{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"glimpse:{name}", text, _BY_DRAFTER, buckets=buckets, registry=self.registry)


class DrafterMetrics:
    """What one request adds to the counters."""

    def __init__(self, metrics: Metrics, labels: tuple[str, str], lossy: str | None) -> None:
        self._metrics, self._labels, self._lossy = metrics, labels, lossy
        self._written = metrics._written.labels(*labels)

    def committed(self, chunk: StreamChunk, watch: Stopwatch) -> None:
        """A round has written tokens."""
        metrics, labels = self._metrics, self._labels
        watch.mark()
        self._written.inc(len(chunk.token_ids))
        if self._lossy is not None:
            metrics._lossy.labels(*labels, self._lossy).inc(len(chunk.token_ids))
        if not chunk.drafted:
            return
        accepted = sum(piece.drafted for piece in chunk.pieces)
        metrics._drafts.labels(*labels).inc()
        metrics._drafted.labels(*labels).inc(chunk.drafted)
        metrics._accepted.labels(*labels).inc(accepted)
        for position in range(accepted):
            metrics._at.labels(*labels, str(position)).inc()

    def read(self, tokens: int) -> None:
        """A prompt of so many tokens."""
        self._metrics._prompt.labels(*self._labels).inc(tokens)

    def ended(self, output: GenerationOutput, watch: Stopwatch) -> None:
        """A text has come to its end."""
        metrics, labels, timing = self._metrics, self._labels, output.timing
        metrics._ended.labels(*labels, output.finish_reason).inc()
        if self._lossy is not None:
            passed = output.speculation.relaxed + output.speculation.trusted
            metrics._passed.labels(*labels, self._lossy).inc(passed)
        metrics._whole.labels(*labels).observe(watch.elapsed)
        if timing.tokens_per_s:
            metrics._each.labels(*labels).observe(1 / timing.tokens_per_s)
        if output.token_ids:
            metrics._queue.labels(*labels).observe(max(0.0, watch.elapsed - timing.prefill_s - timing.decode_s))
            if watch.ttft is not None:
                metrics._first.labels(*labels).observe(watch.ttft)


class _State(Collector):
    """What is read off the engines when somebody asks."""

    def __init__(self, name: str, llm: LLM, ways: Ways) -> None:
        self._name, self._llm, self._ways = name, llm, ways

    def collect(self) -> Iterator[Metric]:
        """Gauges of this moment."""
        pool, engines = self._llm.loaded.pool, self._ways.engines
        yield self._gauge("num_requests_running", "Texts in a row.", sum(one.running for one in engines))
        yield self._gauge("num_requests_waiting", "Texts without one.", sum(one.waiting for one in engines))
        used = 1 - pool.free_pages / pool.pages
        yield self._gauge("kv_cache_usage_perc", "Share of the cache's pages that are held, 1 for all.", used)
        tasks = len(asyncio.all_tasks())
        yield self._gauge("event_loop_tasks", "Tasks of the server's event loop: it grows only with requests.", tasks)
        counter = CounterMetricFamily(
            "glimpse:num_preemptions", "Texts put back into the queue.", labels=["model_name"]
        )  # fmt: skip
        counter.add_metric([self._name], self._ways.preemptions)
        yield counter

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"glimpse:{name}", text, labels=["model_name"])
        gauge.add_metric([self._name], value)
        return gauge
