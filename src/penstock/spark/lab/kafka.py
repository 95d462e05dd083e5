"""One Kafka broker on this machine, for tests, examples and benchmarks."""

import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Self
from uuid import uuid4

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.policies.validation import whole
from penstock.spark.environment import java_command
from penstock.spark.lab import guard
from penstock.spark.lab.clusters import free_port
from penstock.spark.lab.kafka_jars import broker_jars, connector_jars
from penstock.spark.lab.kafka_topics import Topics
from penstock.spark.lab.service import Service

_HOST = "127.0.0.1"
# A busy machine may take minutes for what takes seconds otherwise.
_START_S = 240.0
_STOP_S = 20.0
_MOST_BYTES = 1 << 24
# A JVM that lives for a moment needs no optimised code.
_ONCE = "-XX:TieredStopAtLevel=1"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
num.network.threads=2
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class KafkaBroker(Service):
    """One Kafka node in KRaft mode, which listens on free ports of the loopback address.

    A guard ends the broker and removes its files with this process, even if it is killed.

    Args:
        heap_mb: heap of the broker's JVM.

    Example:
        >>> with KafkaBroker() as kafka:  # doctest: +SKIP
        ...     kafka.topics.create("orders", partitions=8)
        ...     reader = spark.readStream.format("kafka").options(**kafka.options("orders"))
    """

    def __init__(self, heap_mb: int = 256) -> None:
        self.heap_mb = whole("heap_mb", heap_mb, least=128)
        self.address = ""
        self._guards: list[subprocess.Popen[bytes]] = []
        self._folder: Path | None = None
        self._printed: IO[bytes] | None = None
        self._topics: Topics | None = None

    @property
    def topics(self) -> Topics:
        """The topics of the broker."""
        if self._topics is None:
            raise PenstockError("the broker is not running; start() it first")
        return self._topics

    def options(self, topic: str) -> dict[str, str]:
        """Return the options with which Spark reads a topic from its beginning."""
        return {
            "kafka.bootstrap.servers": self.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }

    def start(self) -> Self:
        """Start the broker, and wait until it answers."""
        jars = broker_jars()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        # Not a file of the folder: guards remove that before anybody could read why Kafka failed.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        port, controller = free_port(), free_port()
        self.address = f"{_HOST}:{port}"
        properties = folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(host=_HOST, port=port, controller=controller, folder=folder)
        )
        java = [java_command(), f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC"]
        java += ["-cp", ":".join(map(str, jars))]
        identity = base64.urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        formatting = ["kafka.tools.StorageTool", "format", "--cluster-id", identity, "--config"]
        try:
            self._format(folder, [*java, _ONCE, *formatting, str(properties)])
            running = self._launch(folder, [*java, "kafka.Kafka", str(properties)])
            self._topics = Topics(self.address)
            self._wait(running, self._topics)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the broker, and remove its files."""
        self._topics = None
        for running in self._guards:
            if running.stdin is not None:
                running.stdin.close()
            try:
                running.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        self._guards.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._printed is not None:
            self._printed.close()
            self._printed = None

    def _format(self, folder: Path, command: list[str]) -> None:
        if self._launch(folder / "nothing", command).wait(_START_S):
            raise PenstockError(f"Kafka's storage cannot be formatted: {self._last_lines()}")

    def _launch(self, remove: Path, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a command under a guard, which removes a folder at the end."""
        started = subprocess.Popen(  # noqa: S603 - Kafka's own programs
            [sys.executable, "-I", "-S", guard.__file__, str(remove), *command],
            stdin=subprocess.PIPE,
            stdout=self._printed,
            stderr=self._printed,
            start_new_session=True,
        )
        self._guards.append(started)
        return started

    def _wait(self, running: subprocess.Popen[bytes], topics: Topics) -> None:
        """Wait until the broker answers."""
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s and running.poll() is None:
            if topics.answers():
                return
        raise PenstockError(f"Kafka did not start (it has {_START_S:g} s): {self._last_lines()}")

    def _last_lines(self) -> str:
        if self._printed is None:
            return "it is not running"
        # Kafka may still write to the same file, so its place in it must stay.
        text = os.pread(self._printed.fileno(), _MOST_BYTES, 0).decode(errors="replace")
        return " ".join(text.strip().splitlines()[-3:]) or "it printed nothing"


def add_connector(spark: SparkSession) -> None:
    """Add Spark's Kafka connector to a session that runs, for queries of this thread.

    A session of your own gets it by `spark.jars.packages`, before it starts.
    """
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
