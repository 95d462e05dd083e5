"""The driver process: it runs one query at a time, starts it again if it fails, and obeys.

Commands come as JSON lines on standard input. Answers go to the file descriptor that the last
argument names. The process ends when its input does. Arguments: master, address of the driver, file
descriptor.
"""

import json
import logging
import os
import random
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path

from pyspark import cloudpickle

from faults import queries
from faults.proxy import ChannelProxy
from penstock.spark import internals
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.releaser import Releaser
from penstock.spark.internals.jvm import java
from penstock.spark.lab import session
from quick_sessions import interpreted

_LOOK_S = 0.05


class Driver:
    """Obeys the engine. Commands are the public methods."""

    def __init__(self, master, host):
        # Executors do not have this package.
        cloudpickle.register_pickle_by_value(queries)
        self._spark = session(
            master,
            "penstock-faults",
            spark__executor__memory="512m",
            spark__executor__cores="1",
            spark__cores__max=str(queries.INSTANCES),
            spark__driver__host=host,
            # On hosts of their own, executors reach the driver at another address than it binds to.
            spark__driver__bindAddress=host if host == "127.0.0.1" else _any_address(host),
            spark__sql__shuffle__partitions="3",
            spark__sql__streaming__noDataMicroBatches__enabled="false",
            spark__locality__wait="2s",
            spark__shuffle__io__retryWait="200ms",
            spark__shuffle__io__maxRetries="1",
            spark__network__timeout="12s",
            spark__network__timeoutInterval="2s",
            spark__executor__heartbeatInterval="1s",
            spark__decommission__enabled="true",
            spark__speculation="true",
            spark__speculation__interval="100ms",
            spark__speculation__multiplier="1.5",
            spark__speculation__quantile="0.4",
            **interpreted(),
        )
        plane = ControlPlane.of(self._spark)
        self._proxy = ChannelProxy((plane.server.address.host, plane.server.address.port))
        plane.server.address = replace(plane.server.address, port=self._proxy.port)
        self._query = self._running = None
        self._wanted = False
        self._lock = threading.RLock()
        self.restarts = 0
        self._failure = ""
        threading.Thread(target=self._supervise, daemon=True).start()
        while len(internals.executors(self._spark)) < 1:
            time.sleep(0.05)

    def begin(self, query, place):
        """Make a query, and start it."""
        with self._lock:
            self._query, self._asked = None, (query, Path(place))
            self.restarts = 0
            self.resume()

    def resume(self):
        """Start the query again."""
        with self._lock:
            self._wanted = True
            self._start()

    def pause(self):
        """Stop the query, wherever it is."""
        with self._lock:
            self._wanted = False
            if self._running is not None:
                self._running.stop()
                self._running = None

    def finish(self):
        """Wait until all records have gone through the query; stop it, and return its stats."""
        # From now on nothing more is replayed, or the query would never have seen everything.
        for releaser in [*Releaser._of_folder.values()]:
            releaser.stop()
        while True:
            running = self._running
            try:
                if running is not None:
                    running.processAllAvailable()
                    break
            except Exception as error:
                self._failure = str(error)
            time.sleep(_LOOK_S)
        with self._lock:
            stats = self._query.stats()
            failures = self._query.attached.stats().failures if self._query.attached else 0
            self.pause()
            self._query.close()
            self._query = None
        return {"stats": stats, "restarts": self.restarts, "loop_failures": failures}

    def port(self):
        """The port of the control channel."""
        return self._proxy.port

    def channel(self, mode):
        """Set the mode of the control channel."""
        self._proxy.set(mode)

    def scale(self, executors):
        """Bring the application to a number of executors."""
        with self._lock:
            if self._query is not None and self._query.attached is not None:
                queries.Requested.degree = executors
                return
        internals.request_executors(self._spark, executors)
        surplus = internals.executors(self._spark)[executors:]
        wanted = java(self._spark).scala.jdk.javaapi.CollectionConverters.asScala(surplus).toSeq()
        scheduler = self._spark.sparkContext._jsc.sc().schedulerBackend()
        scheduler.killExecutors(wanted, False, False, True)

    def decommission(self, number):
        """Decommission an executor; the cluster starts another one."""
        there = internals.executors(self._spark)
        if there:
            name = there[number % len(there)]
            jvm, scheduler = java(self._spark), self._spark.sparkContext._jsc.sc()
            info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                "a fault", jvm.scala.Option.empty()
            )
            scheduler.schedulerBackend().decommissionExecutor(name, info, False, False)

    def move(self, offset):
        """Let key groups move to other executors."""
        queries.Rotated.offset = offset

    def state(self):
        """The state of the query, for people."""
        running = self._running
        return {
            "active": bool(running is not None and running.isActive),
            "restarts": self.restarts,
            "failure": self._failure[:2_000],
            "executors": internals.executors(self._spark),
        }

    def _start(self):
        try:
            if self._query is None:
                self._query = queries.Query(self._spark, *self._asked)
            self._running = self._query.start()
        except Exception as error:
            # The disk may be full, so that a query is refused: the supervisor tries again.
            self._running, self._failure = None, f"{error}\n{traceback.format_exc()}"

    def _supervise(self):
        """Start a query again that has failed, as an operator of a service would."""
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                running = self._running
                if not self._wanted or (running is not None and running.isActive):
                    continue
                if running is not None:
                    self._failure = str(running.exception())
                self.restarts += 1
                self._start()
            time.sleep(random.uniform(0, 0.3))  # noqa: S311 - a test


def _any_address(host):
    return "[::]" if ":" in host else "0.0.0.0"  # noqa: S104 - in a network of its own


def main():
    logging.basicConfig(level=logging.WARNING)
    driver = Driver(sys.argv[1], sys.argv[2])
    with os.fdopen(int(sys.argv[3]), "w", buffering=1) as answers:

        def answer(**fields):
            answers.write(json.dumps(fields) + "\n")

        answer(ready=True)
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer(result=getattr(driver, command.pop("do"))(**command))
            except Exception:
                answer(error=traceback.format_exc())
    os._exit(0)


if __name__ == "__main__":
    main()
