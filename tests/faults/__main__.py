"""Run schedules of faults for some minutes, and print the account."""

import argparse
import json
import random
import shlex
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from faults.engine import Engine
from faults.hosts import HostCluster, why_not
from faults.schedules import KINDS, NETWORK, ON_HOSTS, QUERIES, Schedule, schedule, shrunk
from penstock.spark.lab.jvms import share_classes


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    share_classes()
    end = time.monotonic() + 60 * options.minutes
    lost = doubled = defects = number = 0
    tried: Counter[str] = Counter()
    with Engine(options.folder, _cluster(options)) as engine:
        while number < options.schedules and (time.monotonic() < end or number == 0):
            chosen = _chosen(options, seed + number)
            number += 1
            started = time.monotonic()
            found = engine.run(chosen)
            words = ", ".join(map(str, chosen.faults))
            took = time.monotonic() - started
            print(f"  {chosen.seed} {chosen.query}: {words} ({took:.0f} s)", flush=True)
            tried[chosen.query] += 1
            lost, doubled = lost + len(found.lost), doubled + len(found.doubled)
            if not found.exact:
                defects += 1
                _complain(engine, chosen, found, options)
                if not options.go_on:
                    break
        hit, restarts = dict(sorted(engine.hit.items())), engine.restarts
    faults = sum(hit.values())
    print(f"{faults} faults, {lost} lost, {doubled} doubled, seed {seed}", flush=True)
    if options.results is not None:
        _append(
            options.results,
            seed=seed,
            date=datetime.now(UTC).date().isoformat(),
            schedules=number,
            queries=dict(sorted(tried.items())),
            kinds=hit,
            faults=faults,
            lost=lost,
            doubled=doubled,
            defects=defects,
            restarts=restarts,
            hosts=options.hosts,
        )
    return 1 if defects else 0


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="time after which none begins")
    parser.add_argument("--schedules", type=int, default=10**9, help="largest number of schedules")
    parser.add_argument("--faults", type=int, default=10, help="faults in a schedule")
    parser.add_argument("--seed", type=int, help="seed of the first schedule; any by default")
    parser.add_argument("--query", action="append", choices=QUERIES, help="queries to hit")
    parser.add_argument(
        "--kind", action="append", choices=[*KINDS, *NETWORK], help="kinds of faults"
    )
    parser.add_argument("--hosts", choices=["ipv4", "ipv6"], help="hosts of their own (root)")
    parser.add_argument("--only", help="numbers of the faults of a schedule, such as 0,3")
    parser.add_argument("--folder", type=Path, help="folder for everything that is written")
    parser.add_argument("--results", type=Path, help="file to which a line of results is appended")
    parser.add_argument("--shrink", action="store_true", help="shrink a schedule that fails")
    parser.add_argument("--go-on", action="store_true", help="go on after a defect")
    return parser.parse_args(words)


def _cluster(options: argparse.Namespace) -> HostCluster | None:
    if options.hosts is None:
        return None
    if reason := why_not():
        raise SystemExit(f"{reason}; leave --hosts out")
    return HostCluster(ipv6=options.hosts == "ipv6")


def _chosen(options: argparse.Namespace, seed: int) -> Schedule:
    found = schedule(
        seed,
        faults=options.faults,
        queries=options.query or QUERIES,
        kinds=options.kind or (ON_HOSTS if options.hosts else tuple(KINDS)),
    )
    return found if options.only is None else found.only([int(i) for i in options.only.split(",")])


def _complain(engine: Engine, chosen: Schedule, found, options: argparse.Namespace) -> None:
    print(f"DEFECT in schedule {chosen.seed}:", file=sys.stderr)
    print(f"  lost {found.lost[:20]}, doubled {found.doubled[:20]}", file=sys.stderr)
    for line in found.wrong:
        print(f"  {line}", file=sys.stderr)
    kept = list(range(len(chosen.faults)))
    if options.shrink:
        kept = shrunk(kept, lambda some: not engine.run(chosen.only(some)).exact)
        print(f"  shrunk to: {', '.join(str(chosen.faults[i]) for i in kept)}", file=sys.stderr)
    again = f"PYTHONPATH=tests python -m faults {again_of(chosen, options, kept)}"
    print(f"  again: {again}", file=sys.stderr, flush=True)


def again_of(chosen: Schedule, options: argparse.Namespace, kept: list[int]) -> str:
    """Return the options that repeat some faults of a schedule."""
    words = ["--seed", str(chosen.seed), "--schedules", "1", "--faults", str(options.faults)]
    words += ["--query", chosen.query, "--only", ",".join(map(str, kept))]
    words += [word for kind in options.kind or () for word in ("--kind", kind)]
    words += ["--hosts", options.hosts] if options.hosts else []
    return shlex.join(words)


def _append(file: Path, **fields: object) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
