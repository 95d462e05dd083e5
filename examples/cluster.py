"""Start a Spark cluster on this machine: a master and some workers.

It uses the installed PySpark, and listens on the loopback address only. It runs until Ctrl-C. Pass
its address to any job as the master.

    python examples/cluster.py --workers 4
    python examples/scale_waves.py --master spark://127.0.0.1:...
    python examples/cluster.py --quick          # starts one worker, and stops
"""

import argparse
import contextlib
import signal

from penstock.spark.lab import StandaloneCluster


def main() -> None:
    """Start the cluster, and wait."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4, help="number of workers")
    parser.add_argument("--cores", type=int, default=1, help="cores of a worker")
    parser.add_argument("--memory-mb", type=int, default=1024, help="memory of a worker in MB")
    parser.add_argument("--quick", action="store_true", help="start one worker, and stop")
    args = parser.parse_args()
    if args.quick:
        args.workers = 1
    # Before the cluster starts, so that a signal during the start stops its processes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with StandaloneCluster(args.workers, args.cores, args.memory_mb) as cluster:
        print(f"{cluster.url}: {args.workers} workers with {args.cores} cores. Stop with Ctrl-C.")
        with contextlib.suppress(KeyboardInterrupt):
            if not args.quick:
                signal.pause()


if __name__ == "__main__":
    main()
