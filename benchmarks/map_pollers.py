"""Ask an agent for its newest map again and again: `python -m benchmarks.map_pollers URL COUNT PERIOD_S`."""

import asyncio
import sys

import httpx2


async def poll(http: httpx2.AsyncClient, url: str, period_s: float, begun: asyncio.Event, delay_s: float) -> None:
    """One poller; it has read its first map when `begun` is set."""
    tag = ""
    await asyncio.sleep(delay_s)
    while True:
        answer = await http.get(f"{url}/v1/map", headers={"if-none-match": tag})
        tag = answer.headers["etag"]
        begun.set()
        await asyncio.sleep(period_s)


async def main(url: str, count: int, period_s: float) -> None:
    """All pollers, spread over the period, until the process is ended."""
    begun = [asyncio.Event() for _ in range(count)]
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http, asyncio.TaskGroup() as tasks:
        for number, event in enumerate(begun):
            tasks.create_task(poll(http, url, period_s, event, number * period_s / count))
        for event in begun:
            await event.wait()
        print("polling", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
