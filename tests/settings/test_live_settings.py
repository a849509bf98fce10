"""The options of live protection: from the config to the parameters of the rules."""

from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.errors import ConfigProblem
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import ControlParams, LiveParams
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.recovery.stops.conditions import PRESSED_MOST_MS
from recoveryd.settings import Settings, load
from recoveryd.settings.live import ControlSection

MINIMAL = "clusters: {main: {bootstrap.servers: 127.0.0.1:9092}, dr: {bootstrap.servers: 127.0.0.1:9093}}\n"


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "c.yaml"
    path.write_text(MINIMAL + text)
    return load(path, env={})


def test_the_key_that_allows_pauses_says_after_how_long() -> None:
    told = ControlSection.model_fields["pause_allowed"].description or ""
    assert f"for {PRESSED_MOST_MS // 60_000}m." in told


def test_nothing_listed_protects_nothing(tmp_path: Path) -> None:
    params = loaded(tmp_path, "monitor: {topics: [a, {topic: b, group: g}]}\n").params()
    assert params.live == LiveParams(readers=frozenset({Reader("main", "b", "g")}))
    assert params.recoveries.control == ControlParams()


def test_each_kind_of_protection_is_a_signal_of_its_cluster(tmp_path: Path) -> None:
    text = """
monitor:
  interval: 3s
  topics:
    - {topic: flights, group: board, slo: 30s, read_committed: true}
    - {topic: flights, group: billing, max_records_per_s: 50000}
    - {topic: flights, group: audit, slo: 4s, drop_when_unattributable: true, cluster: dr}
  canary: {latency_slo: 150ms}
  health: [{name: produce_latency_p99, slo: 250ms}]
  prometheus: [{name: fetch_p99, cluster: dr, url: "http://127.0.0.1:9090", query: "max(x)", slo: 1s}]
control: {target_pressure: 0.8, max_bytes_per_s: 50MB, min_bytes_per_s: 1MB, loop_delay: 20s, period: 2s, displacement: 2}
"""
    params = loaded(tmp_path, text).params()
    common = {"target": 0.8, "displacement": 2.0, "period_ms": 2_000, "loop_delay_ms": 20_000, "most_bytes_per_s": 50e6}
    board, audit = Reader("main", "flights", "board"), Reader("dr", "flights", "audit")
    billing = Reader("main", "flights", "billing")
    main = (
        Protection("lag:board@flights", SignalKind.LAG, 30.0, 5.0),
        Protection("produce_latency", SignalKind.LATENCY, 0.15),
        Protection("produce_latency_p99", SignalKind.LATENCY, 0.25),
    )
    dr = (
        Protection("lag:audit@flights", SignalKind.LAG, 4.0, 2.0, True),
        Protection("fetch_p99", SignalKind.LATENCY, 1.0),
    )
    placeless = {name: replace(domain, place=0.0) for name, domain in params.live.domains.items()}
    assert replace(params.live, domains=placeless) == LiveParams(
        domains={
            "main": ControllerParams(protections=main, **common),  # type: ignore[arg-type]
            "dr": ControllerParams(protections=dr, **common),  # type: ignore[arg-type]
        },
        lag=LagParams(period_ms=3_000),
        lags={
            board: LagParams(period_ms=3_000, is_read_committed=True, slo_ms=30_000),
            billing: LagParams(period_ms=3_000, advance_most_per_s=50_000.0),
            audit: LagParams(period_ms=3_000, slo_ms=4_000),
        },
        readers=frozenset({board, billing, audit}),
        protected={board: "lag:board@flights", audit: "lag:audit@flights"},
        health=frozenset({("main", "produce_latency_p99")}),
    )
    assert params.recoveries.control == ControlParams("auto", 50e6, 1e6, True, 2_000)


@pytest.mark.parametrize("how", ["slo: 30s", "read_committed: true", "max_records_per_s: 5"])
def test_what_is_said_of_a_group_names_the_group(tmp_path: Path, how: str) -> None:
    with pytest.raises(ConfigProblem, match="name it with group"):
        loaded(tmp_path, f"monitor: {{topics: [{{topic: a, {how}}}]}}\n")


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        ("", False),
        ("monitor: {topics: [{topic: a, group: g}]}", False),
        ("monitor: {topics: [{topic: a, group: g, slo: 5s}]}", True),
        ("monitor: {canary: {latency_slo: 100ms}}", True),
        ("monitor: {canary: {enabled: true}}", True),
        ("monitor: {health: [{name: x, slo: 1s}]}", True),
        ("monitor: {canary: {enabled: false}, topics: [{topic: a, group: g, slo: 5s}]}", False),
    ],
)
def test_the_canary_runs_when_there_is_something_to_protect(tmp_path: Path, text: str, is_on: bool) -> None:
    settings = loaded(tmp_path, text + "\n")
    domains = settings.params().live.domains
    names = [p.name for domain in domains.values() for p in domain.protections]
    assert (settings.values.monitor.is_canary_on, "produce_latency" in names) == (is_on, is_on)


def test_without_the_right_to_pause_lost_telemetry_means_the_floor(tmp_path: Path) -> None:
    text = "monitor: {canary: {latency_slo: 100ms}}\ncontrol: {pause_allowed: false}\n"
    params = loaded(tmp_path, text).params()
    assert params.live.domains["main"].lost_after_ms > 10**12
    assert not params.recoveries.control.pause_allowed


def place(tmp_path: Path, brokers: str, query: str = "max(x)") -> float:
    path = tmp_path / "c.yaml"
    reading = f'{{name: x, url: "http://127.0.0.1:9090", query: "{query}", slo: 1s}}'
    path.write_text(f"clusters: {{main: {{bootstrap.servers: '{brokers}'}}}}\nmonitor: {{prometheus: [{reading}]}}\n")
    return load(path, env={}).params().live.domains["main"].place


def test_other_brokers_or_another_query_are_another_place(tmp_path: Path) -> None:
    here = place(tmp_path, "a:1,b:1")
    assert here == place(tmp_path, "b:1, a:1") > 0
    assert len({here, place(tmp_path, "a:1,c:1"), place(tmp_path, "a:1,b:1", "max(y)")}) == 3


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:hunter2@prometheus:9090/base", "https://***@prometheus:9090/base"),
        ("https://me@prometheus", "https://***@prometheus"),
        ("https://me:hunter@2@[::1]:9090", "https://***@[::1]:9090"),
        ("http://prometheus:9090/a@b", "http://prometheus:9090/a@b"),
    ],
)
def test_who_asks_a_prometheus_is_not_shown(tmp_path: Path, url: str, shown: str) -> None:
    settings = loaded(tmp_path, f"monitor: {{prometheus: [{{name: x, url: '{url}', query: q, slo: 1s}}]}}\n")
    assert settings.values.monitor.prometheus[0].url == url
    [listed] = [line.value for line in settings.show() if line.key == "monitor.prometheus"]
    assert [reading["url"] for reading in listed] == [shown]
    assert "hunter" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("monitor: {topics: [{topic: a, slo: 5s}]}", "slo is the time lag of a consumer group"),
        ("monitor: {topics: [{topic: a, group: g}, {topic: a, group: g, slo: 5s}]}", "names the group 'g' on 'a' twice"),
        ("monitor: {health: [{name: produce_latency, slo: 5s}]}", "are called 'produce_latency'"),
        ("monitor: {health: [{name: x, slo: 5s, cluster: zz}]}", "monitor.health names the cluster 'zz'"),
        ("monitor: {canary: {clusters: [zz]}}", "monitor.canary.clusters names the cluster 'zz'"),
        ("monitor: {prometheus: [{name: x, url: 'file:///etc/passwd', query: q, slo: 1s}]}", "prometheus.0.url"),
        ("monitor: {prometheus: [{name: x, url: 'http://u:${env:PASSWORD}@p', query: q, slo: 1s}]}", "write the whole address"),
        ("monitor: {prometheus: [{name: x, url: 'http://u:hunter2@p:99999', query: q, slo: 1s}]}", "http://prometheus:9090"),
        ("monitor: {prometheus: [{name: x, url: 'http://u:hunter2@:9090', query: q, slo: 1s}]}", "http://prometheus:9090"),
        ("monitor: {prometheus: [{name: x, url: 'http://u:hunter2@ho\u2100st', query: q, slo: 1s}]}", "http://prometheus:9090"),
        ("monitor: {prometheus: [{name: x, url: 'http://p', query: 'rate(x[1m] offset 31s)', slo: 1s}]}", "looks back 91 s, ranges and offset together: 90 s at most"),
        ("monitor: {prometheus: [{name: x, url: 'http://p', query: 'rate(x[$__range])', slo: 1s}]}", "has a range that is no duration"),
        ("monitor: {canary: {evry: 1s}}", "There is no key monitor.canary.evry"),
        ("control: {max_bytes_per_s: 1MB, min_bytes_per_s: 2MB}", "min_bytes_per_s must be at most max_bytes_per_s"),
        ("control: {target_pressure: 1.5}", "control.target_pressure"),
        ("control: {loop_delay: 3s}", "loop_delay must be at least twice the period"),
        ("control: {default_mode: fixed}", "control.default_mode"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        loaded(tmp_path, text + "\n")
    assert message in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", 20),
        ("monitor: {interval: 1s}\n", 33),
        ("chunk: {max_interval: 30s}\n", 39),
        ("chunk: {max_interval: 30s}\nmonitor: {interval: 1s}\n", 183),
        ("chunk: {max_interval: 500ms}\nmonitor: {interval: 10ms}\n", 200),
    ],
)
def test_samples_reach_back_to_where_a_copy_must_be_that_keeps_up(tmp_path: Path, options: str, wanted: int) -> None:
    params = loaded(tmp_path, options).params()
    assert (params.live.sample_history, params.recoveries.live) == (wanted, params.live)
