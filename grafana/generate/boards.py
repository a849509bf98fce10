"""All dashboards and their committed JSON text: in stable order, one value per line, so that a change is readable as a
diff.
"""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.generate import daemon_and_jobs, recovery, replay_and_live

FOLDER = Path("grafana/dashboards")


def make_files() -> dict[Path, str]:
    boards = {
        "replay-and-live": replay_and_live.make(),
        "recovery": recovery.make(),
        "daemon-and-jobs": daemon_and_jobs.make(),
    }
    return {
        FOLDER / f"{name}.json": json.dumps(made.build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"
        for name, made in boards.items()
    }
