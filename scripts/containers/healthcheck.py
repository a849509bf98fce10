# ruff: noqa: INP001, T201  (a script that stands alone inside the image; its output is for people)
"""Is the daemon in this container alive? Exit code 0 when `/livez` answers 200, else 1 with the reason.

Standard library only, run with `-I -S`: it starts every few seconds and must not load the product. It asks for liveness
and not for readiness, because a standby is healthy without being ready.
"""

import http.client
import os
import sys

_DEFAULT_LISTEN = "0.0.0.0:8712"
# Who listens on all addresses is asked at loopback.
_FROM_INSIDE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (where to ask, not to listen)
_TIMEOUT_S = 4.0


def main() -> int:
    listen, _, port = os.environ.get("RECOVERYD_HTTP__LISTEN", _DEFAULT_LISTEN).rpartition(":")
    host = _FROM_INSIDE.get(listen.strip("[]"), listen.strip("[]"))
    try:
        connection = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_S)
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        text = answer.read(500).decode(errors="replace").strip()
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"no answer on port {port} of {host}: {error}")
        return 1
    print(f"{answer.status} {text}")
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
