"""The API server of Kubernetes, as far as an application needs it: read a workload and its pods, and scale it.

The client library knows how to log in (a pod's own account, a kubeconfig with certificates, tokens or a program that
gets one) and is used for that and for TLS; it is large, so it is an extra of the package and imported when it is
needed. Its answers are read here instead, since it would read any size and follow redirects. Blocking: call in a
thread.
"""

import contextlib
import importlib
import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from recoveryd.adapters.control.login_files import LoginFiles
from recoveryd.adapters.file_signature import Signature, signature_of
from recoveryd.adapters.http.asking import HttpRefusal

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
BODY_MOST: Final = 16 * 1024 * 1024
_PIECE: Final = 64 * 1024
_SAYS_WHY: Final = frozenset({403, 404, 422})  # with the right or the name that is missing


class NoKubernetes(Exception):  # noqa: N818  (named for what happened)
    """The library is not installed, or there is no way to log in; the message says which."""


class KubeApi:
    """`kubeconfig` None: as the pod that this runs in, whose files are in `account`. `files` None: this process ends in
    order, so that the library removes what it made of the kubeconfig. Every call raises `HttpRefusal`.

    It logs in anew when the kubeconfig, or the authority of the pod's account, has changed, and when it is not let in,
    or does not trust what answers: a token or a file that the kubeconfig names may have been renewed.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        environment: Mapping[str, str],
        *,
        account: Path = ACCOUNT,
        timeout_s: float = 10.0,
        files: LoginFiles | None = None,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._environment = dict(environment)
        self._account = account
        self._timeout_s = timeout_s
        self._files = files
        self._client: Any = None
        self._read: Signature | None = None  # what the file looked like by which the client was made
        self._lock = Lock()

    def check(self) -> str:
        """The namespace that is meant when none is named. Asks nobody. Raises `NoKubernetes`."""
        config = _library("kubernetes.config")
        try:
            if self._kubeconfig is None:
                self._loader().load_and_set(_configuration())
                return (self._account / "namespace").read_text(encoding="utf-8").strip()
            contexts, current = config.list_kube_config_contexts(config_file=str(self._kubeconfig))
            name = self._context or current["name"]
            found = next((context["context"] for context in contexts if context["name"] == name), None)
        except Exception as error:  # noqa: BLE001  (of the library, of its reader of YAML, of files)
            raise NoKubernetes(self._why_no_login(error)) from None
        if found is None:
            known = ", ".join(context["name"] for context in contexts)
            raise NoKubernetes(f"{self._kubeconfig} has no context {name}; it has {known}")
        return str(found.get("namespace") or "default")

    def get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        return self._ask("GET", path, list(query), None)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("PATCH", path, [], dict(body))

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _ask(self, method: str, path: str, query: list[tuple[str, str]], body: Any) -> dict[str, Any]:
        was_logged_in = self._client is not None
        try:
            return self._ask_once(method, path, query, body)
        except HttpRefusal as problem:
            if problem.status != 401 and not (problem.status is None and not problem.is_passing):
                raise
            self.close()
            if not was_logged_in:
                raise
        return self._ask_once(method, path, query, body)

    def _ask_once(self, method: str, path: str, query: list[tuple[str, str]], body: Any) -> dict[str, Any]:
        give_up_s = time.monotonic() + self._timeout_s
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        with self._translated():
            client = self._logged_in()
            request = client.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = client.call_api(*request, _request_timeout=self._timeout_s).response
            try:
                text = self._read_body(response, give_up_s)
                status = int(response.status)
            finally:
                response.release_conn()
        return self._judged(status, text)

    def _read_body(self, response: Any, give_up_s: float) -> bytes:
        body = bytearray()
        while piece := response.read(_PIECE):
            body += piece
            if len(body) > BODY_MOST:
                response.close()
                raise HttpRefusal(f"its answer is longer than {BODY_MOST} bytes", is_passing=False)
            if time.monotonic() > give_up_s:
                response.close()
                raise TimeoutError
        return bytes(body)

    def _judged(self, status: int, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300:
            if not isinstance(answer, dict):
                raise HttpRefusal("its answer is not that of Kubernetes: no JSON object", is_passing=False)
            return answer
        told = answer.get("message") if isinstance(answer, dict) and status in _SAYS_WHY else None
        raise HttpRefusal.of(status, told if isinstance(told, str) else "")

    def _logged_in(self) -> Any:
        with self._lock:
            found = signature_of(self._account / "ca.crt" if self._kubeconfig is None else self._kubeconfig)
            if self._client is None:
                self._client, self._read = self._made(), found
            elif found is not None and found != self._read:
                with contextlib.suppress(Exception):  # one that is only half written: the login of before stays
                    before, self._client, self._read = self._client, self._made(), found
                    before.close()
            return self._client

    def _made(self) -> Any:
        configuration = _configuration()
        if self._kubeconfig is None:
            self._loader().load_and_set(configuration)
        else:
            _library("kubernetes.config").load_kube_config(
                config_file=str(self._kubeconfig),
                context=self._context,
                client_configuration=configuration,
                persist_config=False,
                temp_file_path=None if self._files is None else str(self._files.folder()),
            )
        return _library("kubernetes.client").ApiClient(configuration)

    def _loader(self) -> Any:
        return _library("kubernetes.config.incluster_config").InClusterConfigLoader(
            token_filename=str(self._account / "token"),
            cert_filename=str(self._account / "ca.crt"),
            environ=self._environment,
        )

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the library as sentences. Its own texts hold addresses, and parts of a kubeconfig."""
        try:
            yield
        except HttpRefusal:
            raise
        except Exception as error:  # noqa: BLE001  (a dozen unrelated classes of three libraries)
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> HttpRefusal:
        chain = list(_causes(error))
        names = {base.__name__ for cause in chain for base in type(cause).__mro__}
        certificate = next((c for c in chain if isinstance(c, ssl.SSLCertVerificationError)), None)
        if certificate is not None:
            return HttpRefusal(f"its certificate is not trusted: {certificate.verify_message}", is_passing=False)
        if names & {"SSLError"}:
            return HttpRefusal("no connection: it does not speak TLS as it should", is_passing=False)
        # urllib3 counts a connection that was refused among its timeouts.
        told = next((c.strerror for c in chain if isinstance(c, OSError) and c.strerror), None)
        if told is not None and names & {"HTTPError", "OSError"}:
            return HttpRefusal(f"no connection: {told}", is_passing=True)
        if "TimeoutError" in names:
            return HttpRefusal(f"no answer within {self._timeout_s:g} s", is_passing=True)
        if "HTTPError" in names:
            return HttpRefusal(f"no answer: {type(error).__name__}", is_passing=True)
        return HttpRefusal(self._why_no_login(error), is_passing=False)

    def _why_no_login(self, error: Exception) -> str:
        if isinstance(error, NoKubernetes):
            return str(error)
        if self._kubeconfig is not None:
            return f"the kubeconfig {self._kubeconfig} cannot be used: {type(error).__name__}"
        return f"this is not a pod of Kubernetes with an account: {error if 'xist' in str(error) else 'no address'}"


def _configuration() -> Any:
    configuration = _library("kubernetes.client").Configuration()
    configuration.retries = False  # and so no redirects
    return configuration


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NoKubernetes("the Python package kubernetes is not installed") from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, by whichever way a library says so."""
    left, seen = [error], set[int]()
    while left:
        cause = left.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        left += [cause.__cause__, cause.__context__, getattr(cause, "reason", None)]
        left += [argument for argument in cause.args if isinstance(argument, BaseException)]
        left = [c for c in left if isinstance(c, BaseException)]
