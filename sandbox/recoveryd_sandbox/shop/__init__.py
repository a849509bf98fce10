"""An application with a bug, to try on how it is found and mended: `python -m recoveryd_sandbox.shop`.

It adds up orders by customer, ten times too high, and has the wrong sums in its state and in its output. Topics, data
and config are those of docs/units.md; the same data come in the same order each time. Start at `shop/shop.py`.
"""

from recoveryd_sandbox.shop.orders import BUG, CUSTOMERS, ORDERS, RIGHT, TOTALS, UNIT, customers, orders, sums
from recoveryd_sandbox.shop.shop import Shop

__all__ = ["BUG", "CUSTOMERS", "ORDERS", "RIGHT", "TOTALS", "UNIT", "Shop", "customers", "orders", "sums"]
