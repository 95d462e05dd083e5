"""Input and account of `pipeline.py`: a generator of orders, and a comparison of the topics."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from penstock.spark.lab import KafkaBroker
from penstock.spark.lab.kafka_topics import Outgoing

CUSTOMERS = 200
WINDOW_S = 10
TICK_S = 0.25
ORDERS, SUMS, DEAD = "orders", "sums", "dead-letters"


class Generator(threading.Thread):
    """Sends orders for some seconds.

    Args:
        kafka: broker to send to.
        seconds: length of the run; its middle third has four times the rate.
        rate: number of orders in a second, outside of the middle third.
    """

    def __init__(self, kafka: KafkaBroker, seconds: float, rate: float) -> None:
        super().__init__(name="generator", daemon=True)
        self.sent: list[Outgoing] = []
        self._kafka, self._seconds, self._rate = kafka, seconds, rate

    def run(self) -> None:
        """Send a few orders at a time, until the time is over."""
        random = np.random.default_rng(7)
        began_s = time.monotonic()
        while (passed := time.monotonic() - began_s) < self._seconds:
            spike = self._seconds / 3 <= passed < self._seconds * 2 / 3
            wave = 1 + 0.3 * np.sin(passed / 3)
            count = random.poisson(self._rate * TICK_S * wave * (4 if spike else 1))
            orders = list(self._orders(random, count))
            self._kafka.topics.send(ORDERS, orders)
            self.sent += orders
            time.sleep(TICK_S)

    def _orders(self, random: np.random.Generator, count: int) -> Iterator[Outgoing]:
        # Hot customers, whose partitions are hot, too; a few orders take very long.
        customers = np.minimum(random.zipf(1.3, count), CUSTOMERS)
        costs_ms = np.minimum(5 + 5 * random.pareto(1.3, count), 400.0)
        for i, (customer, cost_ms) in enumerate(zip(customers, costs_ms, strict=True)):
            number = len(self.sent) + i
            cost = None if number % 50 == 49 else float(cost_ms)
            order = {"customer": f"c{customer}", "number": number, "cost_ms": cost}
            yield Outgoing(f"c{customer}", json.dumps(order))


class Account:
    """What arrived in the topics, and what came out.

    Args:
        kafka: broker that has the topics.
        sent: orders that were sent.

    Attributes:
        expected: orders and sums of their numbers that are expected, by customer and window.
        newest: newest sums, by customer and window.
        letters: dead letters, by the number of their order.
    """

    def __init__(self, kafka: KafkaBroker, sent: list[Outgoing]) -> None:
        self.expected = {"orders": Counter(), "numbers": Counter()}
        self.newest: dict[tuple[str, int], dict[str, int]] = {}
        self._sent = [json.loads(one.value) for one in sent]
        self._arrived = kafka.topics.read(ORDERS)
        for message in self._arrived:
            one = json.loads(message.value)
            if one["cost_ms"] is not None:
                window = one["customer"], message.timestamp_ms // (1000 * WINDOW_S)
                self.expected["orders"][window] += 1
                self.expected["numbers"][window] += one["number"]
        # A key has one partition, so the last message of a window is its newest sum.
        for message in kafka.topics.read(SUMS):
            one = json.loads(message.value)
            self.newest[message.key.decode(), one["start_ms"] // (1000 * WINDOW_S)] = one
        self.letters = Counter(int(one.value) for one in kafka.topics.read(DEAD))

    def differences(self) -> list[str]:
        """Return a line for each difference; none if the account is exact."""
        lines = []
        for field, wanted in self.expected.items():
            found = Counter({key: one[field] for key, one in self.newest.items()})
            lines += [
                f"{field} of {key[0]}, window {key[1]}: {wanted[key]:,} expected, "
                f"{found[key]:,} found"
                for key in sorted(wanted.keys() | found.keys())
                if wanted[key] != found[key]
            ]
        failed = Counter(one["number"] for one in self._sent if one["cost_ms"] is None)
        # Kafka's sink may repeat a letter after a failure, but must not lose or invent one.
        if self.letters.keys() != failed.keys():
            lines.append(f"dead letters: {len(failed):,} expected, {len(self.letters):,} found")
        if len(self._arrived) != len(self._sent):
            lines.append(f"orders: {len(self._sent):,} sent, {len(self._arrived):,} in the topic")
        return lines
