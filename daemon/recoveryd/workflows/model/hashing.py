"""The hash of a plan: over what is meant, so that the same request to the same cluster has the same one."""

import hashlib
import json
from collections.abc import Mapping


def hash_of(matter: Mapping[str, object]) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()
