"""`control` of a unit: who stops and starts its application.

Commands only name a unit, so what may run on this machine, and where it may be asked, stands here alone. Secrets are
read from files or variables when the daemon starts, those in files again when they change, and never shown.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from recoveryd.errors import ConfigProblem
from recoveryd.settings.kinds import Duration, Secret, Section, Size, Stored, Word
from recoveryd.settings.secrets import read_secret
from recoveryd.settings.sources import Key, Origin, located, origin_of
from recoveryd.settings.webhooks import check_url, shown_url
from recoveryd.units.model import ControlKind

# What each kind of control needs, and what it may have besides.
_CONTROLS: Final[Mapping[ControlKind, tuple[frozenset[str], frozenset[str]]]] = {
    ControlKind.MANUAL: (frozenset(), frozenset()),
    ControlKind.PROCESS: (frozenset({"start"}), frozenset({"work_dir", "environment", "log_most", "stop_timeout"})),
    ControlKind.WEBHOOK: (frozenset({"webhook", "status_url"}), frozenset({"ca_file", "stop_timeout"})),
    ControlKind.KUBERNETES: (
        frozenset({"workload"}),
        frozenset({"namespace", "replicas", "kubeconfig", "context", "stop_timeout"}),
    ),
    ControlKind.CONNECT: (frozenset({"url"}), frozenset({"user", "password", "ca_file", "stop_timeout"})),
}
Url = Annotated[str, Field(max_length=2_000), AfterValidator(check_url), PlainSerializer(shown_url)]


def _check_name(name: str) -> str:
    if not name or "=" in name or not name.isprintable():
        raise ValueError(f"{name!r} is no name of a variable")
    if name.startswith("RECOVERYD_"):
        raise ValueError(f"{name} would be an option of recoveryd, not of the application")
    return name


Argument = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]


class UnitControl(Section):
    """Who stops and starts the application; the other keys belong to one `kind` each."""

    kind: ControlKind = Field(
        default=ControlKind.MANUAL,
        description="manual | process | webhook | kubernetes | connect: who stops and starts it.",
    )
    start: Annotated[tuple[Argument, ...], Field(min_length=1, max_length=1_000)] | None = Field(
        default=None, description="Of process: the program and its arguments, without a shell."
    )
    work_dir: str | None = Field(
        default=None, description="Of process: where it runs; null is the daemon's own folder."
    )
    environment: Annotated[dict[Annotated[str, AfterValidator(_check_name)], Secret], Field(max_length=1_000)] = Field(
        default={},
        description="Of process: variables besides the daemon's own: NAME: text, {file: PATH} or {env: NAME}.",
        repr=False,
    )
    log_most: Size = Field(default=33_554_432, description="Of process: its output is cut when it is longer.")
    webhook: Word | None = Field(
        default=None, description="Of webhook: a name under `webhooks`, sent the state that is wanted."
    )
    status_url: Url | None = Field(default=None, description="Of webhook: asked which state it has.", repr=False)
    workload: (
        Annotated[str, Field(pattern=r"^(deployment|statefulset)/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")] | None
    ) = Field(default=None, description="Of kubernetes: deployment/NAME or statefulset/NAME.")
    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] | None = Field(
        default=None, description="Of kubernetes: null is the namespace of the daemon, or of the kubeconfig."
    )
    replicas: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Of kubernetes: how many to start; null is as many as there were."
    )
    kubeconfig: str | None = Field(default=None, description="Of kubernetes: a file; null is the pod's own account.")
    context: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="Of kubernetes: a context of the kubeconfig; null is its current one."
    )
    url: Url | None = Field(default=None, description="Of connect: the REST address of its workers.")
    user: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^:\x00-\x1f]*$")] | None = Field(
        default=None, description="Of connect: for basic authentication, with `password`."
    )
    password: Secret | None = Field(
        default=None, description="Of connect: {file: PATH}, {env: NAME} or a text.", repr=False
    )
    ca_file: str | None = Field(
        default=None, description="Of webhook, connect: certificates to trust, in PEM; null is those of the system."
    )
    stop_timeout: Duration = Field(
        default=300_000, description="How long it may take to stop, and to start; then a process gets SIGKILL."
    )

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        needed, possible = _CONTROLS[self.kind]
        given = {name for name in type(self).model_fields if name != "kind" and name in self.model_fields_set}
        for name in sorted(needed):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is needed where kind is {self.kind.value}")
        for name in sorted(given - needed - possible):
            raise ValueError(f"{name} has no meaning where kind is {self.kind.value}")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("context is of a kubeconfig, and none is named")
        if self.url is not None and "?" in self.url:
            raise ValueError("url must not hold a ?query")
        return self


class ControlOptions:
    """The options of one unit with paths and secrets as an adapter needs them. Raises `ConfigProblem` with the line."""

    def __init__(
        self, unit: str, group: str, values: UnitControl, origins: Mapping[Key, Origin], environment: Mapping[str, str]
    ) -> None:
        self.unit = unit
        self.group = group  # of a connector, its name
        self.values = values
        self._origins = origins
        self._environment = environment

    def path(self, name: str) -> Path | None:
        """A path is relative to the file that names it."""
        given: str | None = getattr(self.values, name)
        return None if given is None else located(self._key((name,)), self._origins)(given)

    def secret(self, name: str) -> str | None:
        given: str | Stored | None = getattr(self.values, name)
        return None if given is None else self._resolve(given, (name,))

    def variables(self) -> dict[str, str]:
        return {name: self._resolve(value, ("environment", name)) for name, value in self.values.environment.items()}

    def problem(self, name: str, message: str, hint: str = "") -> ConfigProblem:
        return self._problem((name,), message, hint)

    def _resolve(self, given: str | Stored, key: Key) -> str:
        text = read_secret(self._key(key), given, self._origins, self._environment)
        if "\0" in text:
            raise self._problem(key, "is not usable: it holds a NUL.")
        return text

    def _problem(self, key: Key, message: str, hint: str = "") -> ConfigProblem:
        whole = self._key(key)
        origin = origin_of(whole, self._origins)
        dotted = ".".join(whole)
        return ConfigProblem(f"{dotted} {message}", hint, key=dotted, origin=origin.name, line=origin.line)

    def _key(self, key: Key) -> Key:
        return ("units", self.unit, "control", *key)
