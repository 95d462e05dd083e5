"""Topics of a Kafka broker: make, fill and read them, without Spark."""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.errors import PenstockError
from penstock.extras import needs

_ANSWER_S = 30.0
_PROBE_S = 0.5


class Message(NamedTuple):
    """A record of a topic.

    Attributes:
        key: key of the record.
        value: value of the record.
        partition: partition that holds it.
        offset: its place in the partition.
        timestamp_ms: its time, in milliseconds since 1970.
    """

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int


class Outgoing(NamedTuple):
    """A record to send.

    Attributes:
        key: key of the record.
        value: value of the record.
        partition: partition for it; None lets Kafka hash the key.
    """

    key: str
    value: str
    partition: int | None = None


class Topics:
    """The topics of a broker, by a client that shares no code with Spark's.

    Args:
        address: host and port of the broker.
    """

    def __init__(self, address: str) -> None:
        self._client = needs("confluent_kafka", "kafka", "a Kafka client")
        needs("confluent_kafka.admin", "kafka", "a Kafka client")
        # Refused connections while the broker starts are no news.
        self._settings = {"bootstrap.servers": address, "log_level": 0}
        self._admin = self._client.admin.AdminClient(self._settings)
        self._producer: Any = None

    def answers(self) -> bool:
        """Whether the broker answers."""
        try:
            return bool(self._admin.list_topics(timeout=_PROBE_S).brokers)
        except self._client.KafkaException:
            time.sleep(0.05)
            return False

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic, and wait until all of its partitions can be used."""
        new = self._client.admin.NewTopic(topic, partitions, 1)
        self._admin.create_topics([new])[topic].result(_ANSWER_S)
        self._wait_for(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions: `partitions` in all."""
        more = self._client.admin.NewPartitions(topic, partitions)
        self._admin.create_partitions([more])[topic].result(_ANSWER_S)
        self._wait_for(topic, partitions)
        # A producer that knows the topic would refuse its new partitions for a while.
        self._producer = None

    def _wait_for(self, topic: str, partitions: int) -> None:
        end_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < end_s:
            found = self._admin.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
            if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
                return
            time.sleep(0.02)
        raise PenstockError(f"topic {topic!r} has no {partitions} partitions after {_ANSWER_S} s")

    def send(self, topic: str, records: Iterable[Outgoing]) -> int:
        """Send records, wait until the broker has all of them, and return their number."""
        if self._producer is None:
            # Each record once, in order, even if the producer has to repeat a request.
            settings = {**self._settings, "enable.idempotence": True, "linger.ms": 5}
            self._producer = self._client.Producer(settings)
        sent = 0
        failures: list[str] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(str(error))

        for key, value, partition in records:
            where = {} if partition is None else {"partition": partition}
            while True:
                try:
                    self._producer.produce(topic, value, key, on_delivery=delivered, **where)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            sent += 1
        left = self._producer.flush(_ANSWER_S)
        if left or failures:
            reason = failures[0] if failures else "no answer"
            raise PenstockError(f"{left + len(failures)} records did not reach Kafka: {reason}")
        return sent

    def ends(self, topic: str) -> dict[int, int]:
        """Return the offset after the last record of each partition."""
        return {number: high for number, (_, high) in self._ranges(topic).items()}

    def _ranges(self, topic: str) -> dict[int, tuple[int, int]]:
        spec = self._client.admin.OffsetSpec
        numbers = self._admin.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        places = [self._client.TopicPartition(topic, number) for number in numbers]
        found = []
        for edge in (spec.earliest(), spec.latest()):
            answers = self._admin.list_offsets(dict.fromkeys(places, edge))
            found.append({one.partition: a.result(_ANSWER_S).offset for one, a in answers.items()})
        return {number: (found[0][number], found[1][number]) for number in numbers}

    def read(self, topic: str) -> list[Message]:
        """Return all records that a topic has now."""
        ranges = {number: one for number, one in self._ranges(topic).items() if one[0] < one[1]}
        place = self._client.TopicPartition
        reader = self._client.Consumer(
            {**self._settings, "group.id": "penstock-reader", "enable.auto.commit": False}
        )
        reader.assign([place(topic, number, low) for number, (low, _) in ranges.items()])
        missing = {number: high for number, (_, high) in ranges.items()}
        found: list[Message] = []
        end_s = time.monotonic() + _ANSWER_S
        try:
            while missing:
                for one in reader.consume(10_000, timeout=0.1):
                    if one.error() is not None:
                        raise PenstockError(f"topic {topic!r} cannot be read: {one.error()}")
                    _, stamp = one.timestamp()
                    part, offset = one.partition(), one.offset()
                    if offset < ranges[part][1]:
                        found.append(Message(one.key(), one.value(), part, offset, stamp))
                    if offset >= ranges[part][1] - 1:
                        missing.pop(part, None)
                if time.monotonic() > end_s and missing:
                    raise PenstockError(f"topic {topic!r}: no answer from partitions {missing}")
        finally:
            reader.close()
        return found
