"""`GET /metrics`: an agent in figures, for Prometheus."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, cast

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from service.agent.agent import Agent
from service.agent.meters import BOUNDS_S, Durations
from service.api.metric_table import METRICS, Metric

_OPENMETRICS = "application/openmetrics-text"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"  # what every Prometheus reads

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class AgentCollector(Collector):
    """Reads all metrics off one agent, whenever they are asked for."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Family]:
        """Every metric with its samples."""
        for metric in METRICS:
            yield _family(metric, metric.read(self._agent))

    def describe(self) -> Iterable[Any]:
        """Nothing in advance: then registering it reads nothing."""
        return []


def registry_of(agent: Agent) -> CollectorRegistry:
    """All that `/metrics` tells: of the agent, and of its process."""
    registry = CollectorRegistry()
    registry.register(AgentCollector(agent))
    ProcessCollector(registry=registry)
    return registry


def write_metrics(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The metrics as the scraper accepts them, and their content type."""
    if _OPENMETRICS in accept:
        return cast("bytes", openmetrics.generate_latest(registry)), openmetrics.CONTENT_TYPE_LATEST  # type: ignore[no-untyped-call]
    return generate_latest(registry), _TEXT


def _family(metric: Metric, read: Any) -> Family:
    if metric.kind == "histogram":
        return _histogram(metric, read)
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in read:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, durations: Durations) -> HistogramMetricFamily:
    bounds = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, accumulate(durations.counts), strict=True))
    family = HistogramMetricFamily(metric.name, metric.help)
    family.add_metric([], buckets, durations.total_s)
    return family
