"""`control: kubernetes` against a server that answers as the API of Kubernetes does, over TLS, with each way to
log in.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from recoveryd.adapters.control.kube_api import KubeApi, NoKubernetes
from recoveryd.adapters.control.kubernetes import KubernetesApplication, KubernetesApplications
from recoveryd.units.control import TOLD, ApplicationState, Desired, Needs
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.control.asking import asked, late, wish
from tests.control.serving import Answering, Asked, serving

TOKEN = "s3cret-token"
PODS = "/api/v1/namespaces/shop/pods"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("pki"))


class Cluster:
    """One workload whose pods come and go at once, unless a test says otherwise."""

    def __init__(self, replicas: int = 3, workload: str = "deployments/orders") -> None:
        self.path = f"/apis/apps/v1/namespaces/shop/{workload}"
        self.tokens = [TOKEN]
        self.replicas = self.ready = replicas
        self.generation = self.noted = 1
        self.pods = [pod(f"orders-{n}") for n in range(replicas)]
        self.more_pods: int | None = None
        self.is_at_once = True
        self.selector: dict[str, Any] = {"matchLabels": {"app": "orders"}}
        self.answers: dict[str, Callable[[], web.Response]] = {}
        self.server: Answering | None = None

    async def answer(self, request: Asked) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self.tokens:
            return status(401, "Unauthorized")
        what = f"{request.method} {request.path}"
        if what in self.answers:
            return self.answers[what]()
        if what == f"GET {self.path}":
            return web.json_response(self.workload())
        if what == f"GET {PODS}":
            return web.json_response(self.page(request.query))
        assert what == f"PATCH {self.path}/scale", what
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        self.replicas = json.loads(request.body)["spec"]["replicas"]
        self.generation += 1
        if self.is_at_once:
            self.settle()
        return web.json_response({"kind": "Scale", "spec": {"replicas": self.replicas}})

    def page(self, query: dict[str, str]) -> dict[str, Any]:
        """As Kubernetes does: where pods are selected by labels, it does not count those that are not on the page."""
        unwanted = {part.removeprefix("status.phase!=") for part in query.get("fieldSelector", "").split(",")}
        found = [each for each in self.pods if each["status"]["phase"] not in unwanted]
        most = int(query["limit"])
        metadata: dict[str, Any] = {"continue": "the next page"} if len(found) > most else {}
        if self.more_pods is not None:
            metadata["remainingItemCount"] = self.more_pods
        return {"kind": "PodList", "metadata": metadata, "items": found[:most]}

    def settle(self) -> None:
        self.noted, self.ready = self.generation, self.replicas
        self.pods = [pod(f"orders-{n}") for n in range(self.replicas)]

    def workload(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "orders", "generation": self.generation},
            "spec": {"replicas": self.replicas, "selector": self.selector},
            "status": {"observedGeneration": self.noted} | ({"readyReplicas": self.ready} if self.ready else {}),
        }

    @property
    def scalings(self) -> list[int]:
        assert self.server is not None
        return [json.loads(r.body)["spec"]["replicas"] for r in self.server.asked if r.method == "PATCH"]


def pod(name: str, phase: str = "Running", *, is_ending: bool = False, waiting: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if is_ending else {})
    states = [{"state": {"waiting": {"reason": waiting}} if waiting else {"running": {}}}]
    return {"metadata": metadata, "status": {"phase": phase, "containerStatuses": states}}


def status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "message": message, "code": code}, status=code)


def kubeconfig(folder: Path, url: str, authority: Path | None, **user: Any) -> Path:
    cluster = {"server": url} | ({} if authority is None else {"certificate-authority": str(authority)})
    path = folder / "kubeconfig"
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
        {"name": "bare", "context": {"cluster": "c", "user": "u"}},
    ]
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {"token": TOKEN}}],
        "contexts": contexts,
    }
    path.write_text(yaml.safe_dump(text))
    return path


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000


@asynccontextmanager
async def controlled(
    cluster: Cluster,
    folder: Path,
    certificates: Certificates,
    *,
    clock: Clock | None = None,
    replicas: int | None = None,
    workload: str = "deployment/orders",
    is_trusted: bool = True,
    timeout_s: float = 60.0,
    unit: str = "app",
    **user: Any,
) -> AsyncIterator[KubernetesApplications]:
    time = clock or Clock()
    async with serving(cluster.answer, certificates) as cluster.server:
        config = kubeconfig(folder, cluster.server.url, certificates.authority if is_trusted else None, **user)
        api = KubeApi(config, None, {}, timeout_s=timeout_s)
        application = KubernetesApplication(unit, workload, api.check(), api, replicas, 60_000)
        control = KubernetesApplications([application], lambda: time.now_ms)
        try:
            yield control
        finally:
            await control.close()


@pytest.mark.scenario("S-OSO-13")
@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
async def test_it_is_scaled_to_none_and_back_to_as_many_as_there_were(
    tmp_path: Path, certificates: Certificates, kind: str
) -> None:
    cluster = Cluster(3, f"{kind}s/orders")
    async with controlled(cluster, tmp_path, certificates, workload=f"{kind}/orders") as control:
        before = await control.look("app")
        assert (before.state, before.before) == (ApplicationState.RUNNING, {"replicas": 3})
        assert before.why == f"{kind}/orders has 3 of 3 pods ready"
        for _ in range(2):
            report = await asked(control, wish(Desired.STOPPED, since_ms=1_000_000))
            assert (report.state, report.why) == (ApplicationState.STOPPED, f"{kind}/orders has no pods")
        for _ in range(2):
            report = await asked(control, wish(Desired.RUNNING, since_ms=1_000_000, before=before.before))
            assert report.state is ApplicationState.RUNNING
    assert cluster.scalings == [0, 3]


async def test_it_is_not_stopped_before_its_last_pod_is_gone(tmp_path: Path, certificates: Certificates) -> None:
    cluster, clock = Cluster(2), Clock()
    cluster.is_at_once = False
    async with controlled(cluster, tmp_path, certificates, clock=clock) as control:
        wanted = wish(Desired.STOPPED, since_ms=clock.now_ms)
        assert (await control.ask(wanted)).why == "deployment/orders was scaled from 2 to 0"
        cluster.ready = 0
        cluster.pods = []
        report = await control.ask(wanted)
        assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.TIME), "not noted yet"
        cluster.noted = cluster.generation
        cluster.pods = [pod("orders-1", is_ending=True), pod("old", "Failed"), pod("older", "Succeeded")]
        report = await control.ask(wanted)
        assert report.why == "deployment/orders is at 0, and 1 pod is left: orders-1"
        clock.now_ms += 60_000
        report = await control.ask(wanted)
        assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.MENDING)
        assert report.why.endswith("1 pod is left: orders-1, 60 s after stopped was wanted")
        cluster.pods = cluster.pods[1:]
        assert (await control.ask(wanted)).state is ApplicationState.STOPPED
    assert cluster.scalings == [0]


async def test_more_pods_than_are_listed_are_pods_too(tmp_path: Path, certificates: Certificates) -> None:
    cluster = Cluster(0)
    cluster.pods, cluster.more_pods = [pod("old", "Failed")], 7
    async with controlled(cluster, tmp_path, certificates) as control:
        assert (await control.look("app")).why == "deployment/orders is at 0, and 7 pods are left"


async def test_pods_that_ended_long_ago_do_not_hide_one_that_lives(tmp_path: Path, certificates: Certificates) -> None:
    cluster = Cluster(0)
    cluster.pods = [pod(f"evicted-{n}", "Failed") for n in range(200)] + [pod("orders-0", is_ending=True)]
    async with controlled(cluster, tmp_path, certificates) as control:
        report = await control.look("app")
        assert (report.state, report.why) == (
            ApplicationState.CHANGING,
            "deployment/orders is at 0, and 1 pod is left: orders-0",
        )
        cluster.pods = [pod(f"orders-{n}") for n in range(150)]
        assert (await control.look("app")).why == "deployment/orders is at 0, and at least 101 pods are left"


async def test_what_keeps_pods_from_starting_is_told(tmp_path: Path, certificates: Certificates) -> None:
    cluster, clock = Cluster(0), Clock()
    cluster.is_at_once = False
    async with controlled(cluster, tmp_path, certificates, clock=clock, replicas=2) as control:
        wanted = wish(Desired.RUNNING, since_ms=clock.now_ms)
        assert (await control.ask(wanted)).needs is Needs.TIME
        cluster.noted = cluster.generation
        cluster.pods = [pod("a", "Pending", waiting="ImagePullBackOff"), pod("b", waiting="CrashLoopBackOff")]
        report = await control.ask(wanted)
        assert report.why == "deployment/orders has 0 of 2 pods ready: CrashLoopBackOff, ImagePullBackOff"
        clock.now_ms += 60_000
        assert (await control.ask(wanted)).needs is Needs.MENDING


async def test_one_that_is_told_to_start_long_after_it_was_wanted_has_its_time_all_the_same(
    tmp_path: Path, certificates: Certificates
) -> None:
    cluster, clock = Cluster(0), Clock()
    cluster.is_at_once = False
    async with controlled(cluster, tmp_path, certificates, clock=clock, replicas=2) as control:
        wanted = wish(Desired.RUNNING, since_ms=clock.now_ms - 3_600_000)
        report = await late(control, wanted, clock, 60_000)
        assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.MENDING)


@pytest.mark.parametrize(
    ("option", "before", "scaled"),
    [(5, {"replicas": 2}, 5), (None, {"replicas": 2}, 2), (None, {}, None), (None, {"replicas": "many"}, None)],
)
async def test_how_many_are_started(
    tmp_path: Path, certificates: Certificates, option: int | None, before: dict[str, Any], scaled: int | None
) -> None:
    cluster = Cluster(0)
    async with controlled(cluster, tmp_path, certificates, replicas=option) as control:
        report = await asked(control, wish(Desired.RUNNING, since_ms=1_000_000, before=before))
    if scaled is None:
        assert (report.needs, cluster.scalings) == (Needs.MENDING, [])
        assert report.why == "nobody knows how many replicas deployment/orders had; set `replicas` of its control"
    else:
        assert (report.state, cluster.scalings) == (ApplicationState.RUNNING, [scaled])


async def test_something_else_that_scales_it_is_not_fought(tmp_path: Path, certificates: Certificates) -> None:
    cluster = Cluster(3)
    async with controlled(cluster, tmp_path, certificates) as control:
        wanted = wish(Desired.STOPPED, since_ms=1_000_000)
        await control.ask(wanted)
        cluster.replicas = 3
        cluster.settle()
        report = await control.ask(wanted)
    assert (report.needs, cluster.scalings) == (Needs.MENDING, [0])
    assert report.why == "deployment/orders was scaled to 0 and is at 3 again: something else scales it"


@pytest.mark.scenario("S-RUN-12")
@pytest.mark.parametrize("may_restart", [False, True])
async def test_the_next_daemon_starts_what_appends_no_second_time_where_somebody_put_it_at_rest(
    tmp_path: Path, certificates: Certificates, may_restart: bool
) -> None:
    cluster, clock = Cluster(0), Clock()
    cluster.is_at_once = False
    wanted = wish(Desired.RUNNING, since_ms=clock.now_ms, before={"replicas": 3}, may_restart=may_restart)
    async with controlled(cluster, tmp_path, certificates, clock=clock) as control:
        report = await control.ask(wanted)
        assert (report.needs, report.evidence[TOLD]) == (Needs.TIME, wanted.key)
        assert TOLD not in (await control.ask(wanted)).evidence, "it is noted by whoever asks"
    cluster.replicas = 0
    cluster.settle()
    async with controlled(cluster, tmp_path, certificates, clock=clock) as control:
        report = await control.ask(replace(wanted, was_told=True))
        assert cluster.scalings == ([3] if may_restart else [])
        if not may_restart:
            assert (report.state, report.needs) == (ApplicationState.STOPPED, Needs.MENDING)
            assert report.why == "deployment/orders was scaled to 3 and is at 0 again: something else scales it"
            await control.ask(replace(wanted, key="once a person decided so"))
            assert cluster.scalings == [3]


async def test_pods_are_chosen_as_the_workload_chooses_them(tmp_path: Path, certificates: Certificates) -> None:
    cluster = Cluster(1)
    cluster.selector = {
        "matchLabels": {"app": "orders"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "old", "operator": "NotIn", "values": ["yes"]},
            {"key": "team", "operator": "Exists"},
            {"key": "canary", "operator": "DoesNotExist"},
        ],
    }
    async with controlled(cluster, tmp_path, certificates) as control:
        assert (await control.look("app")).state is ApplicationState.RUNNING
        assert cluster.server is not None
        assert (
            cluster.server.asked[-1].query["labelSelector"] == "app=orders,tier in (a,b),old notin (yes),team,!canary"
        )
        for selector in ({}, {"matchLabels": "x"}, {"matchExpressions": [{"key": "a", "operator": "Gt"}]}):
            cluster.selector = selector
            report = await control.look("app")
            assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)


FORBIDDEN = 'pods is forbidden: User "system:serviceaccount:shop:recoveryd" cannot list resource "pods"'


@pytest.mark.parametrize(
    ("what", "answer", "needs", "says"),
    [
        ("workload", lambda: status(404, 'deployments.apps "orders" not found'), Needs.MENDING, '"orders" not found'),
        ("pods", lambda: status(403, FORBIDDEN), Needs.MENDING, f"may not do this: {FORBIDDEN}"),
        ("scale", lambda: status(403, "cannot patch"), Needs.MENDING, "may not do this: cannot patch"),
        ("scale", lambda: status(409, "the object has been modified"), Needs.TIME, "it answered 409"),
        ("scale", lambda: status(500, "etcd"), Needs.TIME, "it answered 500"),
        ("workload", lambda: status(429, "later"), Needs.TIME, "it answered 429"),
        ("workload", lambda: web.Response(status=307, headers={"Location": "/x"}), Needs.MENDING, "it redirects"),
        ("workload", lambda: web.Response(text="<html>"), Needs.MENDING, "no JSON object"),
        ("workload", lambda: web.json_response({"spec": {}}), Needs.MENDING, "not that of Kubernetes"),
        ("pods", lambda: web.json_response({"items": 1}), Needs.MENDING, "no list of pods"),
        ("pods", lambda: web.Response(body=b" " * 17_000_000), Needs.MENDING, "longer than"),
    ],
)
async def test_what_kubernetes_cannot_do_is_a_sentence(
    tmp_path: Path,
    certificates: Certificates,
    what: str,
    answer: Callable[[], web.Response],
    needs: Needs,
    says: str,
) -> None:
    cluster = Cluster(1)
    at = {"workload": f"GET {cluster.path}", "pods": f"GET {PODS}", "scale": f"PATCH {cluster.path}/scale"}[what]
    cluster.answers[at] = answer
    async with controlled(cluster, tmp_path, certificates) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
    assert report.needs is needs, report
    assert not report.fulfils(Desired.STOPPED)
    assert says in report.why
    assert TOKEN not in f"{report}"


async def test_one_whose_certificate_nobody_knows_is_not_told_the_token(
    tmp_path: Path, certificates: Certificates
) -> None:
    cluster = Cluster(1)
    async with controlled(cluster, tmp_path, certificates, is_trusted=False) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert "its certificate is not trusted: " in report.why
    assert cluster.server is not None
    assert cluster.server.asked == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://127.0.0.1:{port}", "no connection: Connection refused"),
        ("https://no-such-host.invalid", "no connection: Name or service not known"),
    ],
)
async def test_nobody_there_is_a_sentence(tmp_path: Path, unused_tcp_port: int, url: str, says: str) -> None:
    api = KubeApi(kubeconfig(tmp_path, url.format(port=unused_tcp_port), None), None, {}, timeout_s=60)
    application = KubernetesApplication("app", "deployment/orders", "shop", api, None, 60_000)
    control = KubernetesApplications([application], lambda: 0)
    report = await control.ask(wish(Desired.STOPPED))
    await control.close()
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.TIME)
    assert report.why == f"Kubernetes could not be asked: {says}"


async def test_one_that_does_not_answer_needs_time(tmp_path: Path, certificates: Certificates) -> None:
    cluster = Cluster(1)
    may_end = asyncio.Event()

    async def silent(_: Asked) -> web.Response:
        await may_end.wait()
        return web.Response()

    cluster.answer = silent  # type: ignore[method-assign]
    async with controlled(cluster, tmp_path, certificates, timeout_s=1.0) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
        may_end.set()
    assert (report.needs, report.why) == (Needs.TIME, "Kubernetes could not be asked: no answer within 1 s")


async def test_a_pod_logs_in_with_its_own_account_also_after_its_token_was_renewed(
    tmp_path: Path, certificates: Certificates
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("shop")
    (account / "ca.crt").write_bytes(certificates.authority.read_bytes())
    cluster = Cluster(1)
    async with serving(cluster.answer, certificates) as cluster.server:
        host, _, port = cluster.server.url.removeprefix("https://").rpartition(":")
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        api = KubeApi(None, None, environment, account=account, timeout_s=60)
        application = KubernetesApplication("app", "deployment/orders", api.check(), api, None, 60_000)
        control = KubernetesApplications([application], lambda: 0)
        assert (await control.look("app")).state is ApplicationState.RUNNING
        (account / "token").write_text("another")
        cluster.tokens = ["another"]
        assert (await control.look("app")).state is ApplicationState.RUNNING
        await control.close()


async def test_a_kubeconfig_that_is_replaced_leads_to_another_server_with_another_authority(
    tmp_path: Path, certificates: Certificates
) -> None:
    others = make_certificates(tmp_path / "pki")
    (tmp_path / "other").mkdir()
    before, after = Cluster(1), Cluster(1)
    async with controlled(before, tmp_path, certificates) as control:
        assert (await control.look("app")).state is ApplicationState.RUNNING
        async with serving(after.answer, others) as after.server:
            path = kubeconfig(tmp_path / "other", after.server.url, others.authority)
            text = path.read_text()
            (tmp_path / "kubeconfig").write_text(text[: len(text) // 2] + "\n: {")
            assert (await control.look("app")).state is ApplicationState.RUNNING
            assert after.server.asked == [], "while it is only half written, the one of before is used"
            path.replace(tmp_path / "kubeconfig")
            assert (await control.look("app")).state is ApplicationState.RUNNING
            assert after.server.asked != []


async def test_an_authority_that_is_replaced_where_the_kubeconfig_names_it_is_read_again(
    tmp_path: Path, certificates: Certificates
) -> None:
    others, authority = make_certificates(tmp_path / "pki"), tmp_path / "ca.pem"
    authority.write_bytes(others.authority.read_bytes())
    cluster = Cluster(1)
    async with serving(cluster.answer, others) as cluster.server:
        config = kubeconfig(tmp_path, cluster.server.url, authority)
        api = KubeApi(config, None, {}, timeout_s=60)
        control = KubernetesApplications(
            [KubernetesApplication("app", "deployment/orders", api.check(), api, None, 60_000)], lambda: 0
        )
        assert (await control.look("app")).state is ApplicationState.RUNNING
        port = int(cluster.server.url.rpartition(":")[2])
    authority.write_bytes(certificates.authority.read_bytes())
    async with serving(cluster.answer, certificates, port=port) as cluster.server:
        assert (await control.look("app")).state is ApplicationState.RUNNING
        await control.close()


async def test_a_program_of_the_kubeconfig_gets_another_token(tmp_path: Path, certificates: Certificates) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    code = (
        "import json, pathlib; print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind':"
        f" 'ExecCredential', 'status': {{'token': pathlib.Path({str(token)!r}).read_text()}}}}))"
    )
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", code],
        "interactiveMode": "Never",
    }
    cluster = Cluster(1)
    cluster.tokens = ["old"]
    async with controlled(cluster, tmp_path, certificates, exec=program) as control:
        assert (await control.look("app")).state is ApplicationState.RUNNING
        cluster.tokens = ["new"]
        token.write_text("new")
        assert (await control.look("app")).state is ApplicationState.RUNNING
        cluster.tokens = []
        report = await control.look("app")
        assert (report.needs, "401" in report.why) == (Needs.MENDING, True)


def test_without_a_way_to_log_in_the_start_says_so(tmp_path: Path) -> None:
    def why(api: KubeApi) -> str:
        with pytest.raises(NoKubernetes) as caught:
            api.check()
        return str(caught.value)

    config = kubeconfig(tmp_path, "https://127.0.0.1:1", None)
    assert KubeApi(config, "bare", {}).check() == "default"
    assert why(KubeApi(config, "lost", {})) == f"{config} has no context lost; it has here, bare"
    assert why(KubeApi(None, None, {}, account=tmp_path)).startswith("this is not a pod of Kubernetes with an account")
    missing = tmp_path / "missing"
    assert why(KubeApi(missing, None, {})).startswith(f"the kubeconfig {missing} cannot be used")
    config.write_text(f"token: {TOKEN}: [")
    told = why(KubeApi(config, None, {}))
    assert told.startswith(f"the kubeconfig {config} cannot be used")
    assert TOKEN not in told


def test_the_extra_of_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    with pytest.raises(NoKubernetes, match="the Python package kubernetes is not installed"):
        KubeApi(None, None, dict(os.environ)).check()
