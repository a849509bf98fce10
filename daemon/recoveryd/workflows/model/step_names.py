"""Names of the steps that several kinds of workflows have, or that the way back finds again among those that were
taken. What only one kind has is named there. They are journaled and shown: one that changes is a step that an older
record does not have.
"""

from typing import Final

STOP, EMPTY, NOTE = "stop_application", "await_empty", "snapshot"
DELETE: Final = "delete_internal_topics"
RECREATE, CREATE = "recreate_topics", "create_outputs"
COPY: Final = "copy_state"
SET, CLEAN, START = "set_offsets", "clean_local_state", "start_application"
LOOK_INPUTS: Final = "look_at_inputs"
CATCH_UP, LOOK, CONFIRM = "await_caught_up", "look_at_outputs", "confirm_output"
