"""The faults: each function does one to a run, and returns whether it could."""

import contextlib
import os
import random
import signal
from datetime import timedelta
from pathlib import Path


def _chosen(numbers, number):
    return numbers[number % len(numbers)] if numbers else None


def _signal(pid, which):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, which)


def _killed(processes, number):
    """Kill one of some processes; return whether there is one."""
    pid = _chosen(processes, number)
    if pid is None:
        return False
    _signal(pid, signal.SIGKILL)
    return True


def executor_killed(run, number):
    return _killed(run.engine.executors(), number)


def worker_killed(run, number):
    return _killed(run.engine.python_workers(), number)


def executor_suspended(run, number):
    """Suspend an executor's JVM; sometimes for so long that Spark takes it for dead."""
    pid = _chosen(run.engine.executors(), number)
    if pid is None:
        return False
    _signal(pid, signal.SIGSTOP)
    seconds = (0.5, 1.0, 2.0, 4.0, 16.0)[number // 7 % 5]
    run.later(seconds, lambda: _signal(pid, signal.SIGCONT))
    return True


def driver_killed(run, number):
    run.engine.kill_driver()
    run.begin()
    return True


def query_restarted(run, number):
    run.engine.driver.send("pause")
    run.engine.driver.send("resume")
    return True


def _channel(mode):
    def hit(run, number):
        driver = run.engine.driver
        driver.send("channel", mode=mode)

        def heal():
            if run.engine._driver is driver:  # a new driver has a new channel
                driver.send("channel", mode="pass")

        run.later(0.5 + number % 3, heal)
        return True

    return hit


def disk_full(run, number):
    if not run.disk.mounted or not run.disk.fill():
        return False
    run.later(0.5 + number % 3, run.disk.heal)
    return True


def disk_read_only(run, number):
    if not run.disk.mounted or not run.disk.read_only():
        return False
    run.later(0.5 + number % 3, run.disk.heal)
    return True


def _damage(file: Path, number: int) -> None:
    """Truncate a file, or overwrite some of its bytes, or all of them."""
    data, generator = file.read_bytes(), random.Random(number)  # noqa: S311 - a test
    way = number % 4
    if way == 0:
        data = data[: generator.randrange(len(data) + 1)]
    elif way == 1:
        data = generator.randbytes(len(data))
    elif way == 2:
        at = generator.randrange(max(1, len(data)))
        data = data[:at] + generator.randbytes(min(8, len(data) - at)) + data[at + 8 :]
    else:
        data = b""
    with contextlib.suppress(OSError):
        file.write_bytes(data)
        # Spark's own checksum would refuse the file before Penstock sees it.
        if number // 4 % 2:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _damaged(files):
    """A fault that damages some files while the query, or its driver, is down."""

    def hit(run, number):
        kills = number % 5 == 0
        if kills:
            run.engine.kill_driver()
        else:
            run.engine.driver.send("pause")
        found = files(run)
        for file in found:
            _damage(file, number)
        if kills:
            run.begin()
        else:
            run.engine.driver.send("resume")
        return bool(found)

    return hit


def _kind(kind):
    return lambda run: sorted((run.checkpoint / "penstock").glob(f"*.{kind}.*"))


def _journals(run):
    return sorted((run.disk.folder / "journals").glob("*"))


def _unfinished(run):
    """Kept files of a batch that is not committed, unfinished ones, and notes about queries."""
    found, committed = [], run.committed()
    for folder in ("spill", "errors"):
        for file in (run.disk.folder / folder).rglob("*"):
            batch = file.parent.name.partition("=")[2]
            unfinished = batch and (int(batch) > committed or file.name.startswith("."))
            if unfinished or file.parent.name == "_penstock":
                found.append(file)
    return [one for one in found if one.is_file()]


def clock_jump(run, number):
    """Let clocks of arrival be ahead, behind, or missing for a while."""
    days = (-40_000, -400, -1, 1, 400, 40_000)[number % 6]
    run.source.jump = None if number // 6 % 5 == 0 else timedelta(days=days / 10)

    def heal():
        run.source.jump = timedelta()

    run.later(0.5 + number % 3, heal)
    return True


def _flag(name, seconds):
    def hit(run, number):
        file = run.place / name
        file.touch()
        run.later(seconds + number % 2, lambda: file.unlink(missing_ok=True))
        return True

    return hit


def decommissioned(run, number):
    run.engine.driver.send("decommission", number=number)
    return True


def scaled(run, number):
    driver = run.engine.driver
    driver.send("scale", executors=1 + number % 2)

    def heal():
        if run.engine._driver is driver:
            driver.send("scale", executors=3)

    run.later(1.0 + number % 3, heal)
    return True


def state_moved(run, number):
    run.engine.driver.send("move", offset=number % 97)
    return True


def _host(run, number):
    return _chosen(run.engine.workers, number)


def link_down(run, number):
    """Cut a host off; sometimes for so long that Spark takes its executor for dead."""
    hosts, name = run.engine.hosts, _host(run, number)
    hosts.link(name, "down")
    run.later((0.5, 1.0, 2.0, 4.0, 16.0)[number // 7 % 5], lambda: hosts.link(name, "up"))
    return True


def packets_dropped(run, number):
    """Let no packet of the driver reach a host."""
    hosts, name = run.engine.hosts, _host(run, number)
    driver = hosts.address("driver")
    hosts.drop(name, "ip6" if ":" in driver else "ip", "saddr", driver)
    run.later((0.5, 2.0, 16.0)[number // 7 % 3], lambda: hosts.pass_all(name))
    return True


def control_port_blocked(run, number):
    hosts = run.engine.hosts
    hosts.drop("driver", "tcp", "dport", run.engine.driver.send("port"))
    run.later(1.0 + number % 5, lambda: hosts.pass_all("driver"))
    return True


HANDS = {
    "link down": link_down,
    "packets dropped": packets_dropped,
    "control port blocked": control_port_blocked,
    "executor killed": executor_killed,
    "executor suspended": executor_suspended,
    "worker killed": worker_killed,
    "driver killed": driver_killed,
    "query restarted": query_restarted,
    "channel closed": _channel("closed"),
    "channel blocked": _channel("blocked"),
    "channel garbage": _channel("garbage"),
    "disk full": disk_full,
    "disk read-only": disk_read_only,
    "snapshot damaged": _damaged(_kind("snapshot")),
    "pin damaged": _damaged(_kind("batch")),
    "journal damaged": _damaged(_journals),
    "kept file damaged": _damaged(_unfinished),
    "clock jump": clock_jump,
    "function fails": _flag("failing", 0.5),
    "slow task": _flag("slow", 1.5),
    "decommissioned": decommissioned,
    "scaled": scaled,
    "state moved": state_moved,
}
