"""The status record of a watch: the envelope that every record has; fields that only watches have are under `watch`,
fields that only the daemon needs under `internal`.

`WatchForm.read(write(w)) == w` for every watch.
"""

from typing import Final

from recoveryd.watches.model import KIND, Watch
from recoveryd.wire.nouns import Document, NounForm, take
from recoveryd.wire.plain_json import finite
from recoveryd.wire.status_topic import ENVELOPE, FORMAT, format_of

PUBLIC: Final = (*ENVELOPE, "error_code", "stop")
PARTS: Final = ("progress", "delivery", "unit_stop")  # parts under `watch`, beside the specification


class WatchForm:
    def __init__(self) -> None:
        self._watch = NounForm(Watch)

    def write(self, watch: Watch) -> Document:
        """The status record as JSON values."""
        data = self._watch.write(watch)
        data["progress"]["coverage"] = finite(watch.progress.coverage) or 0.0
        own = {**data.pop("spec"), **take(data, PARTS)}
        return {**take(data, PUBLIC), "kind": KIND, "watch": own, "internal": {"format": FORMAT, **data}}

    def read(self, document: Document) -> Watch:
        """The watch in a document of `write`, of this format or the one before, which was the same. Raises KeyError,
        TypeError, ValueError or AttributeError for anything else.
        """
        format_of(document)
        own = document["watch"]
        public = {name: document[name] for name in PUBLIC}
        return self._watch.read(
            {**document["internal"], **public, **{name: own[name] for name in PARTS if name in own}, "spec": own}
        )
