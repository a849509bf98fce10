"""The status record of a hold: the envelope that every record has; fields that only holds have are under `hold`.

`HoldForm.read(write(h)) == h` for every hold. Programs in other languages follow these records to know what is held:
a topic is held while `state` is `running` and it stands in `hold.topics`.
"""

from typing import Final

from recoveryd.holds.model import KIND, Hold
from recoveryd.wire.nouns import Document, NounForm, take
from recoveryd.wire.status_topic import ENVELOPE, FORMAT, format_of

PUBLIC: Final = (*ENVELOPE, "stop")
OWN: Final = ("cluster", "topics", "reads", "expires", "released", "missing", "members", "obeyed")  # under `hold`


class HoldForm:
    def __init__(self) -> None:
        self._hold = NounForm(Hold)

    def write(self, hold: Hold) -> Document:
        """The status record as JSON values."""
        data = self._hold.write(hold)
        return {
            **take(data, PUBLIC),
            "kind": KIND,
            "hold": take(data, OWN),
            "internal": {"format": FORMAT, **data},
        }

    def read(self, document: Document) -> Hold:
        """The hold in a document of `write`. Raises KeyError, TypeError, ValueError or AttributeError for anything
        else.
        """
        format_of(document)
        public = {name: document[name] for name in PUBLIC}
        return self._hold.read({**document["internal"], **public, **{name: document["hold"][name] for name in OWN}})
