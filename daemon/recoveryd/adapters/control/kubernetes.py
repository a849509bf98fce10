"""`control: kubernetes`: a Deployment or StatefulSet, scaled to none and back.

It is stopped when none of its pods is left: a Deployment says that it has no replicas while its pods are still ending,
and an application that is ending still commits offsets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from recoveryd.adapters.control.kube_api import KubeApi
from recoveryd.adapters.http.asking import HttpRefusal
from recoveryd.adapters.workers import Workers
from recoveryd.units.control import ApplicationState, Desired, Needs, Report, Wish

_PODS_MOST: Final = 100
_NAMED_MOST: Final = 3
_REPLICAS_MOST: Final = 10_000
_ENDED: Final = ("Failed", "Succeeded")
# Pods that were evicted stay listed for long, and must not fill the page before one that lives.
_LIVING: Final = ",".join(f"status.phase!={phase}" for phase in _ENDED)
_OPERATORS: Final = {"In": "in", "NotIn": "notin"}


@dataclass(frozen=True, slots=True)
class KubernetesApplication:
    """`workload` is deployment/NAME or statefulset/NAME; `replicas` None = as many as there were."""

    unit: str
    workload: str
    namespace: str
    api: KubeApi
    replicas: int | None
    timeout_ms: int

    @property
    def path(self) -> str:
        kind, _, name = self.workload.partition("/")
        return f"/apis/apps/v1/namespaces/{self.namespace}/{kind}s/{name}"


@dataclass(frozen=True, slots=True)
class _Pods:
    """`left` at least, if not `is_all`. `ending` and `waiting` in words, a few of them."""

    left: int
    is_all: bool
    ending: tuple[str, ...]
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Workload:
    wanted: int
    ready: int
    is_noted: bool  # whether Kubernetes has begun with what is wanted
    pods: _Pods


class KubernetesApplications:
    def __init__(self, applications: Sequence[KubernetesApplication], now_ms: Callable[[], int]) -> None:
        self._applications = {a.unit: a for a in applications}
        self._now_ms = now_ms
        self._workers = Workers("kubernetes-control", 4)
        # By unit: the key of the last wish for which it was scaled, and when.
        self._scaled: dict[str, tuple[str, int]] = {}

    async def ask(self, wish: Wish) -> Report:
        return await self._workers.run(self._ask, self._applications[wish.unit], wish)

    async def look(self, unit: str) -> Report:
        return await self._workers.run(self._look, self._applications[unit])

    async def start(self) -> None: ...

    async def close(self) -> None:
        self._workers.close()
        for application in self._applications.values():
            application.api.close()

    def _look(self, application: KubernetesApplication) -> Report:
        try:
            return _report(application, _see(application))
        except HttpRefusal as problem:
            return _unknown(application, problem)

    def _ask(self, application: KubernetesApplication, wish: Wish) -> Report:
        try:
            seen = _see(application)
            report = _report(application, seen)
            if report.fulfils(wish.desired):
                return report
            if (seen.wanted == 0) != (wish.desired is Desired.STOPPED):
                return self._scale(application, wish, seen, report)
        except HttpRefusal as problem:
            report = _unknown(application, problem)
            if not problem.is_passing:
                return report
        return report.in_time(wish, wish.waited_ms(self._now_ms(), self._scaled_ms(wish)), application.timeout_ms)

    def _scaled_ms(self, wish: Wish) -> int | None:
        key, at_ms = self._scaled.get(wish.unit, ("", 0))
        return at_ms if key == wish.key else None

    def _scale(self, application: KubernetesApplication, wish: Wish, seen: _Workload, report: Report) -> Report:
        goal = 0 if wish.desired is Desired.STOPPED else _replicas(application, wish)
        if goal is None:
            why = f"nobody knows how many replicas {application.workload} had; set `replicas` of its control"
            return replace(report, why=why, needs=Needs.MENDING)
        if self._scaled_ms(wish) is not None or not wish.may_tell:
            why = f"{application.workload} was scaled to {goal} and is at {seen.wanted} again: something else scales it"
            return replace(report, why=why, needs=Needs.MENDING)
        application.api.patch(f"{application.path}/scale", {"spec": {"replicas": goal}})
        self._scaled[wish.unit] = wish.key, self._now_ms()
        why = f"{application.workload} was scaled from {seen.wanted} to {goal}"
        return replace(report, state=ApplicationState.CHANGING, why=why, needs=Needs.TIME).having_told(wish)


def _replicas(application: KubernetesApplication, wish: Wish) -> int | None:
    if application.replicas is not None:
        return application.replicas
    before = wish.before.get("replicas")
    return before if _is_count(before) and 1 <= before <= _REPLICAS_MOST else None


def _see(application: KubernetesApplication) -> _Workload:
    answer = application.api.get(application.path)
    spec, status = _part(answer, "spec"), answer.get("status") or {}
    generation, noted = _part(answer, "metadata").get("generation"), status.get("observedGeneration", 0)
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if not all(map(_is_count, (wanted, ready, generation, noted))):
        raise _not_understood("no counts of replicas")
    query = [
        ("labelSelector", _selector(_part(spec, "selector"))),
        ("fieldSelector", _LIVING),
        ("limit", str(_PODS_MOST)),
    ]
    pods = application.api.get(f"/api/v1/namespaces/{application.namespace}/pods", query)
    return _Workload(wanted, ready, noted >= generation, _pods(pods))


def _selector(selector: Mapping[str, Any]) -> str:
    """As text. A selector that cannot be said would choose other pods: it is refused."""
    try:
        parts = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
        for rule in selector.get("matchExpressions") or ():
            key, operator = rule["key"], rule["operator"]
            if operator in _OPERATORS:
                parts.append(f"{key} {_OPERATORS[operator]} ({','.join(rule['values'])})")
            else:
                parts.append({"Exists": key, "DoesNotExist": f"!{key}"}[operator])
    except (KeyError, TypeError, AttributeError):
        raise _not_understood("no selector of pods") from None
    if not parts:
        raise _not_understood("a selector without labels")
    return ",".join(parts)


def _pods(answer: Mapping[str, Any]) -> _Pods:
    items = answer.get("items")
    if not isinstance(items, list):
        raise _not_understood("no list of pods")
    live = [pod for pod in items if _dict(pod, "status").get("phase") not in _ENDED]
    page = _dict(answer, "metadata")
    more = page.get("remainingItemCount")  # not told of pods that are selected by their labels
    is_all = _is_count(more) or not page.get("continue")
    left = len(live) + (more if _is_count(more) else not is_all)
    ending = [str(_dict(p, "metadata").get("name")) for p in live if _dict(p, "metadata").get("deletionTimestamp")]
    waiting = {reason for pod in live for reason in _reasons(pod)}
    return _Pods(left, is_all, tuple(ending), tuple(sorted(waiting)))


def _reasons(pod: Mapping[str, Any]) -> list[str]:
    found = _dict(pod, "status").get("containerStatuses")
    states = [_dict(_dict(one, "state"), "waiting").get("reason") for one in found] if isinstance(found, list) else []
    return [reason for reason in states if isinstance(reason, str) and reason.isidentifier()]


def _report(application: KubernetesApplication, seen: _Workload) -> Report:
    pods = seen.pods
    if seen.wanted == 0 and seen.is_noted and pods.left == 0:
        state, why = ApplicationState.STOPPED, f"{application.workload} has no pods"
    elif seen.wanted == 0:
        state, why = ApplicationState.CHANGING, f"{application.workload} is at 0, and {_count(pods)} left"
        why += f": {', '.join(pods.ending[:_NAMED_MOST])}" if pods.ending else ""
    elif seen.is_noted and seen.ready >= seen.wanted:
        state, why = ApplicationState.RUNNING, f"{application.workload} has {seen.ready} of {seen.wanted} pods ready"
    else:
        state, why = ApplicationState.CHANGING, f"{application.workload} has {seen.ready} of {seen.wanted} pods ready"
        why += f": {', '.join(pods.waiting[:_NAMED_MOST])}" if pods.waiting else ""
    evidence = {"replicas": seen.wanted, "ready": seen.ready, "pods": pods.left}
    before = {"replicas": seen.wanted} if seen.wanted else {}
    return Report(application.unit, state, why, evidence, before)


def _count(pods: _Pods) -> str:
    count = "1 pod is" if pods.left == 1 else f"{pods.left} pods are"
    return count if pods.is_all else f"at least {count}"


def _unknown(application: KubernetesApplication, problem: HttpRefusal) -> Report:
    why = f"Kubernetes could not be asked: {problem.why}"
    needs = Needs.TIME if problem.is_passing else Needs.MENDING
    return Report(application.unit, ApplicationState.UNKNOWN, why, needs=needs)


def _part(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = answer.get(name)
    if not isinstance(found, dict):
        raise _not_understood(f"no {name}")
    return found


def _dict(answer: object, name: str) -> dict[str, Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    return found if isinstance(found, dict) else {}


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _not_understood(what: str) -> HttpRefusal:
    return HttpRefusal(f"its answer is not that of Kubernetes: {what}", is_passing=False)
