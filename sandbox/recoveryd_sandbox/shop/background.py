"""A shop that outlives the command that started it: Kafka and the application in one folder, found again by the notes
that they leave there (`recoveryd_sandbox.state`).
"""

import shutil
import time
from pathlib import Path

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.handle import default_folder
from recoveryd_sandbox.process import identify
from recoveryd_sandbox.shop.orders import BUG, RIGHT, TOTALS, UNIT, sums
from recoveryd_sandbox.shop.shop import Shop
from recoveryd_sandbox.state import NodeState, end_running, running_state, write_state

VERSIONS = {"v1": BUG, "v2": RIGHT}
_START_S, _STOP_S = 300.0, 300.0
_TOTALS_S = 600.0
_POLL_S = 0.2


def shop_folder() -> Path:
    """Beside that of `recoveryctl sandbox`."""
    return default_folder().with_name("shop")


def up(folder: Path) -> Path:
    """Start Kafka and the application with its bug; the config of a daemon for them. Raises `SandboxError`."""
    if running_state(folder / "kafka") is not None:
        raise SandboxError(f"The shop of {folder} runs already.", "End it first: python -m recoveryd_sandbox.shop down")
    shutil.rmtree(folder, ignore_errors=True)
    broker = Broker(folder / "kafka")
    broker.start(_START_S)
    broker.leave_running()
    try:
        shop = Shop(folder, broker.bootstrap)
        shop.fill()
        start(folder, "v1")
        shop.await_totals(sums(BUG))
        return shop.write_config()
    except BaseException:  # Ctrl-C too: what is not whole is taken away again
        down(folder)
        raise


def found(folder: Path) -> Shop:
    """The shop that runs on `folder`. Raises `SandboxError` when none does."""
    broker = running_state(folder / "kafka")
    if broker is None:
        raise SandboxError(f"No shop runs on {folder}.", "Start one: python -m recoveryd_sandbox.shop up")
    return Shop(folder, broker.bootstrap)


def start(folder: Path, version: str, output: str = TOTALS) -> None:
    """Returns once the application works. Raises `SandboxError`, also when it runs already."""
    shop = found(folder)
    if running_state(folder / UNIT) is not None:
        raise SandboxError(f"{UNIT} runs already.", "Stop it first: python -m recoveryd_sandbox.shop stop")
    shop.deploy(VERSIONS[version], output)
    shop.app.start()
    process = identify(shop.app.pid)
    if process is not None:
        write_state(folder / UNIT, NodeState(process, shop.bootstrap))
    shop.app.leave_running()


def stop(folder: Path) -> bool:
    """False when it did not run."""
    return end_running(folder / UNIT, _STOP_S)


def down(folder: Path) -> None:
    """End both and delete the folder."""
    stop(folder)
    end_running(folder / "kafka", _STOP_S)
    shutil.rmtree(folder, ignore_errors=True)


def verdict(shop: Shop, topic: str, deadline_s: float = _TOTALS_S) -> str:
    """What the sums in `topic` are worth, in a sentence; waits as long as the application is still at it."""
    total = shop.orders_total()
    right, wrong = sums(RIGHT, total), sums(BUG, total)
    give_up_at_s = time.monotonic() + deadline_s
    while (said := shop.totals(topic)) not in (right, wrong) and time.monotonic() < give_up_at_s:
        time.sleep(_POLL_S)
    if said == right:
        return f"{topic}: all {len(right)} sums over {total:,} orders are right."
    if said == wrong:
        customer = min(said)
        return (
            f"{topic}: all {len(wrong)} sums over {total:,} orders are ten times too high, as {said[customer]} "
            f"(right is {right[customer]})."
        )
    return f"{topic}: {sum(right.get(who) == text for who, text in said.items())} of {len(right)} sums are right."
