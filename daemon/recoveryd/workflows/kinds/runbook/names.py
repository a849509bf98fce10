"""The seven steps of a runbook in their order, and those that a shadow has besides."""

from typing import Final

IDENTIFY, CONFIRM, CHOOSE, PROTECT = "identify", "confirm_input", "choose_path", "protect_live"
EXECUTE, VERIFY, CLOSE = "execute", "verify", "close"
SEVEN: Final = (IDENTIFY, CONFIRM, CHOOSE, PROTECT, EXECUTE, VERIFY, CLOSE)

STAGE, DECIDE, AGAIN = "create_staged", "promote_or_discard", "verify_again"
PUBLISH, REMOVE = "publish", "delete_staged"
SHADOW: Final = (STAGE, DECIDE, AGAIN, PUBLISH, REMOVE)
