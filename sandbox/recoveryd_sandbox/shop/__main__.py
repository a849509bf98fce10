"""`python -m recoveryd_sandbox.shop`: without a word it runs until Ctrl-C; `up`, `stop`, `start`, `totals`, `order` and
`down` leave it running between them.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.shop import background
from recoveryd_sandbox.shop.orders import BUG, RIGHT, TOTALS, UNIT, sums
from recoveryd_sandbox.shop.shop import Shop


def main() -> int:
    """1 when it cannot, with a sentence."""
    words = _parser().parse_args()
    try:
        work: Callable[[argparse.Namespace], None] = words.work
        work(words)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m recoveryd_sandbox.shop", description=_DESCRIPTION)
    parser.add_argument("--dir", type=Path, default=background.shop_folder(), help="where it lives")
    parser.set_defaults(work=_foreground)
    verbs = parser.add_subparsers(title="verbs")
    verbs.add_parser("up", help="start Kafka and the application, and leave them running").set_defaults(work=_up)
    verbs.add_parser("stop", help="stop the application").set_defaults(work=_stop)
    start = verbs.add_parser("start", help="start the application")
    start.add_argument("version", choices=sorted(background.VERSIONS), help="v1 has the bug")
    start.add_argument("--output", default=TOTALS, help=f"write there instead of {TOTALS}")
    start.set_defaults(work=_start)
    totals = verbs.add_parser("totals", help="compare the sums with what is right")
    totals.add_argument("topic", nargs="?", default=TOTALS)
    totals.set_defaults(work=_totals)
    order = verbs.add_parser("order", help="write more orders")
    order.add_argument("count", type=int)
    order.set_defaults(work=_order)
    verbs.add_parser("down", help="end everything and delete it").set_defaults(work=_down)
    return parser


_DESCRIPTION = "A shop with a bug, on a Kafka of its own. Without a verb it runs until Ctrl-C."


def _up(words: argparse.Namespace) -> None:
    folder = words.dir.absolute()
    print("Starting Kafka and a Kafka Streams application; the first time, jars are fetched.", file=sys.stderr)
    config = background.up(folder)
    print(background.verdict(background.found(folder), TOTALS))
    print(f"Its state directory is {folder / UNIT / 'state'}. Next:\n\n  export RECOVERYD_CONFIG={config}")


def _stop(words: argparse.Namespace) -> None:
    print(f"{UNIT} is stopped." if background.stop(words.dir.absolute()) else f"{UNIT} did not run.")


def _start(words: argparse.Namespace) -> None:
    background.start(words.dir.absolute(), words.version, words.output)
    print(f"{UNIT} {words.version} runs and writes to {words.output}.")


def _totals(words: argparse.Namespace) -> None:
    print(background.verdict(background.found(words.dir.absolute()), words.topic))


def _order(words: argparse.Namespace) -> None:
    shop = background.found(words.dir.absolute())
    begin = shop.orders_total()
    shop.order(begin, begin + words.count)
    print(f"{words.count:,} orders are written; there are {shop.orders_total():,} now.")


def _down(words: argparse.Namespace) -> None:
    background.down(words.dir.absolute())
    print("Ended, and everything deleted.")


def _foreground(_: argparse.Namespace) -> None:
    ended = threading.Event()
    for wanted_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted_end, lambda *_: ended.set())
    folder = Path(tempfile.mkdtemp(prefix="recoveryd-shop-"))
    try:
        with Broker(folder / "kafka") as broker:
            shop = Shop(folder, broker.bootstrap)
            shop.fill()
            with shop.app:
                shop.await_totals(sums(BUG))
                config = shop.write_config()
                customer, wrong = next(iter(sums(BUG).items()))
                print(f"{UNIT} runs and has a bug: {TOTALS} says {customer} {wrong}, right is {sums(RIGHT)[customer]}.")
                print(f"  recoveryctl unit show {UNIT} --config {config}")
                print(f"  recoveryctl unit lint {UNIT} --config {config}")
                print("Ctrl-C ends it and removes everything.", flush=True)
                ended.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
