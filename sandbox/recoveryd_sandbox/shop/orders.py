"""The data of the shop: customers, their orders, and what is right. The same at each call."""

from collections.abc import Iterator

UNIT = "order-processor"
ORDERS, CUSTOMERS, TOTALS = "orders", "customers", "customer-totals"
BUG, RIGHT = 10, 1  # by what the application multiplies each order
CUSTOMERS_TOTAL = 100
ORDERS_TOTAL = 20_000
BEGIN_MS = 1_735_689_600_000  # 2025-01-01; orders follow each other by a second, after all customers are known

Pair = tuple[str, str]


def customers() -> Iterator[Pair]:
    """Each with its id, in the order in which they are written."""
    for number in range(CUSTOMERS_TOTAL):
        yield _id(number), f"Customer {number}"


def orders(begin: int = 0, end: int = ORDERS_TOTAL) -> Iterator[Pair]:
    """The id of a customer, and an amount: of the orders with the numbers [begin, end)."""
    for number in range(begin, end):
        yield _id(number * 7 % CUSTOMERS_TOTAL), str(number * 37 % 100 + 1)


def sums(factor: int, orders_total: int = ORDERS_TOTAL) -> dict[str, str]:
    """What the output says when each order was counted once by an application with this factor."""
    added = dict.fromkeys(dict(customers()), 0)
    for customer, amount in orders(0, orders_total):
        added[customer] += factor * int(amount)
    return {customer: f"{name}:{added[customer]}" for customer, name in customers()}


def _id(number: int) -> str:
    return f"c{number:03}"
