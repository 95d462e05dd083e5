"""A local HTTP service in its own process, which answers after a time that the caller names."""

import asyncio
import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

from aiohttp import web


@contextlib.contextmanager
def service() -> Iterator[int]:
    """Run the service; return its port."""
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        if not ours.poll(60):
            raise TimeoutError("the HTTP service has not started within a minute")
        yield ours.recv()
    finally:
        process.terminate()
        process.join(10)


def _serve(port_to: Connection) -> None:
    asyncio.run(_run(port_to))


async def _run(port_to: Connection) -> None:
    answered = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal answered
        await asyncio.sleep(float(request.query["ms"]) / 1000)
        answered += 1
        return web.Response(text="ok")

    async def count(_: web.Request) -> web.Response:
        return web.Response(text=str(answered))

    app = web.Application()
    app.add_routes([web.get("/", answer), web.get("/count", count)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    _, port, *_ = runner.addresses[0]
    port_to.send(port)
    await asyncio.Event().wait()
