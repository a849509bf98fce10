"""Commands of the daemon itself, over memory."""

from recoveryd.adapters.kafka.command_sender import encode
from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryRecord
from recoveryd.kernel.effects import SendCommand
from recoveryd.wire.codec import Codec


class MemoryCommandSender:
    def __init__(self, broker: MemoryBroker, topic: str, codec: Codec) -> None:
        self._broker = broker
        self._topic = topic
        self._codec = codec

    async def send(self, effect: SendCommand) -> None:
        """As the port says."""
        made = encode(self._codec, effect)
        record = MemoryRecord(made.key, made.value, effect.at_ms, tuple(made.headers))
        self._broker.append(self._topic, [record])

    async def close(self) -> None:
        """Nothing is open."""
