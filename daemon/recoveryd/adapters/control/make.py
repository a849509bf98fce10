"""The adapters of all units, from what the config says of their `control`. Reads secrets; raises `ConfigProblem`."""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from recoveryd.adapters.control.connect import ConnectApplication, ConnectApplications
from recoveryd.adapters.control.controls import Application, ManualApplications, UnitControls
from recoveryd.adapters.control.kube_api import KubeApi, NoKubernetes
from recoveryd.adapters.control.kubernetes import KubernetesApplication, KubernetesApplications
from recoveryd.adapters.control.login_files import LoginFiles
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_sight import ProcessApplication
from recoveryd.adapters.control.webhook import WebhookApplication, WebhookApplications
from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.ports import ApplicationControl
from recoveryd.settings.unit_control import ControlOptions
from recoveryd.units.model import ControlKind


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all adapters share. `folder` is kept from one daemon to the next; `installation` is the same for all daemons
    that may take over from each other, and for no others. `webhooks`: by name.
    """

    folder: Path
    installation: str
    scope: str
    webhooks: Mapping[str, WebhookTarget] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    now_ms: Callable[[], int]
    withheld: frozenset[str] = frozenset()  # variables that applications do not get from the daemon
    login_files: LoginFiles | None = None  # the daemon's alone: who else asks may not write there


def make_controls(units: Mapping[str, ControlOptions], around: Surroundings) -> UnitControls:
    by_kind: dict[ControlKind, list[ControlOptions]] = {}
    for options in units.values():
        by_kind.setdefault(options.values.kind, []).append(options)
    adapters: dict[ControlKind, ApplicationControl] = {
        ControlKind.MANUAL: ManualApplications(),
        ControlKind.PROCESS: ProcessApplications(
            [_process(options) for options in by_kind.get(ControlKind.PROCESS, [])],
            around.folder,
            around.installation,
            {name: text for name, text in around.environment.items() if name not in around.withheld},
            around.now_ms,
        ),
        ControlKind.WEBHOOK: WebhookApplications(
            [_webhook(options, around.webhooks) for options in by_kind.get(ControlKind.WEBHOOK, [])],
            around.scope,
            SignedPosts(around.now_ms),
            around.now_ms,
        ),
        ControlKind.CONNECT: ConnectApplications(
            [_connect(options) for options in by_kind.get(ControlKind.CONNECT, [])], around.now_ms
        ),
        ControlKind.KUBERNETES: KubernetesApplications(
            [_kubernetes(options, around) for options in by_kind.get(ControlKind.KUBERNETES, [])],
            around.now_ms,
        ),
    }
    by_unit = {options.unit: adapters[kind] for kind, group in by_kind.items() for options in group}
    return UnitControls(by_unit, tuple(adapters.values()))


def make_application(options: ControlOptions, around: Surroundings) -> Application | None:
    """With its secrets as they are now; None where recoveryd holds none. Raises `ConfigProblem`."""
    match options.values.kind:
        case ControlKind.PROCESS:
            return _process(options)
        case ControlKind.WEBHOOK:
            return _webhook(options, around.webhooks)
        case ControlKind.CONNECT:
            return _connect(options)
        case _:
            return None


def _process(options: ControlOptions) -> ProcessApplication:
    if not hasattr(os, "pidfd_open"):
        raise options.problem("kind", "process needs Linux 5.3 or newer.", "Let a webhook stop and start it.")
    values = options.values
    return ProcessApplication(
        unit=options.unit,
        command=values.start or (),
        folder=options.path("work_dir") or Path.cwd(),
        environment=options.variables(),
        stop_timeout_ms=values.stop_timeout,
        log_most=values.log_most,
    )


def _webhook(options: ControlOptions, webhooks: Mapping[str, WebhookTarget]) -> WebhookApplication:
    values = options.values
    assert values.webhook is not None
    assert values.status_url is not None
    return WebhookApplication(
        unit=options.unit,
        webhook=values.webhook,
        target=replace(webhooks[values.webhook], tls=_trusted(options)),
        status_url=values.status_url,
        timeout_ms=values.stop_timeout,
    )


def _connect(options: ControlOptions) -> ConnectApplication:
    values, password = options.values, options.secret("password")
    assert values.url is not None
    return ConnectApplication(
        unit=options.unit,
        connector=options.group,
        url=values.url,
        login=None if values.user is None or password is None else (values.user, password),
        tls=_trusted(options),
        timeout_ms=values.stop_timeout,
    )


def _kubernetes(options: ControlOptions, around: Surroundings) -> KubernetesApplication:
    values = options.values
    assert values.workload is not None
    api = KubeApi(options.path("kubeconfig"), values.context, around.environment, files=around.login_files)
    try:
        namespace = api.check()
    except NoKubernetes as problem:
        key = "kind" if values.kubeconfig is None else "kubeconfig"
        hint = "Install recoveryd[kubernetes]; outside of a pod, name a kubeconfig."
        raise options.problem(key, f"{values.kind.value} is not usable: {problem}.", hint) from None
    return KubernetesApplication(
        unit=options.unit,
        workload=values.workload,
        namespace=values.namespace or namespace,
        api=api,
        replicas=values.replicas,
        timeout_ms=values.stop_timeout,
    )


def _trusted(options: ControlOptions) -> ssl.SSLContext | None:
    path = options.path("ca_file")
    if path is None:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # also of ssl
        why = error.strerror or type(error).__name__
        raise options.problem("ca_file", f"{path} holds no certificates that can be used: {why}.") from None
