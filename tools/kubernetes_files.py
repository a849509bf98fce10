"""What Kubernetes needs of the alerts and the dashboards: the rules as the Prometheus operator reads them, and the list
from which kustomize makes config maps of the dashboards.

The rules of `grafana/prometheus` and the dashboards of `grafana/dashboards` are the only originals.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from grafana.generate import boards

RULES: Final = Path("grafana/prometheus/recoveryd.rules.yml")
ALERTS: Final = Path("config/deploy/kubernetes-alerts.yaml")
_ROOT: Final = Path(__file__).resolve().parents[1]
_LABELS: Final = {"app.kubernetes.io/name": "recoveryd"}
_MADE: Final = "# Made by `make docs` from {source}; do not change it here.\n"


def make_files() -> dict[Path, str]:
    kustomization = boards.FOLDER / "kustomization.yaml"
    return {
        ALERTS: _MADE.format(source=RULES) + _text(_prometheus_rule()),
        kustomization: _MADE.format(source="the names of the dashboards") + _text(_dashboards()),
    }


def _prometheus_rule() -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "recoveryd", "labels": _LABELS},
        "spec": yaml.safe_load((_ROOT / RULES).read_text(encoding="utf-8")),
    }


def _dashboards() -> dict[str, Any]:
    """A config map for each: `kubectl apply` keeps a copy of what it applied in an annotation of 256 kB at most."""
    names = sorted(path.stem for path in boards.make_files())
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "configMapGenerator": [{"name": f"recoveryd-{name}", "files": [f"{name}.json"]} for name in names],
        "generatorOptions": {
            "disableNameSuffixHash": True,
            "labels": {**_LABELS, "grafana_dashboard": "1"},
            "annotations": {"grafana_folder": "recoveryd"},
        },
    }


def _text(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10_000)
