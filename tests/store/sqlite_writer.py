"""Writes to a SQLite log until it is killed, and prints what was acknowledged: `writer number` a line.

Each writer w commits, with number n: create a/w/n, overwrite hot/w, delete a/w/(n-10). Meanwhile the log is compacted.
"""

import asyncio
import os
import sys

from dray.store import Op, SqliteLog

WRITERS = 16


async def write(log: SqliteLog, writer: int, number: int) -> None:
    while True:
        ops = [Op(f"a/{writer}/{number:06}", b"x" * 500, 0), Op(f"hot/{writer}", str(number).encode() * 200)]
        if number >= 10:
            ops.append(Op(f"a/{writer}/{number - 10:06}", None))
        await log.commit(ops)
        os.write(1, f"{writer} {number}\n".encode())
        number += 1


async def main(path: str, start: int) -> None:
    log = await SqliteLog.open(path)
    tasks = [asyncio.create_task(write(log, writer, start)) for writer in range(WRITERS)]
    while not any(task.done() for task in tasks):
        await asyncio.sleep(0.01)
        await log.compact(await log.head())
    await asyncio.gather(*tasks)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
