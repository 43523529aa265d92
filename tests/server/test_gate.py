"""Whoever closes the gate is alone, and nobody waits for ever behind one that was given up."""

import asyncio

from stellwerk.server.gate import Gate


def test_many_pass_at_once_and_closing_waits_for_them() -> None:
    """Those who come while it closes wait until it is open again."""

    async def scene() -> list[str]:
        gate, told, leave = Gate(), [], asyncio.Event()

        async def pass_through(name: str) -> None:
            async with gate.passing():
                told.append(f"{name} in")
                await leave.wait()
            told.append(f"{name} out")

        async def close() -> None:
            async with gate.closed():
                told.append("closed")

        first = [asyncio.create_task(pass_through(name)) for name in "ab"]
        await asyncio.sleep(0)
        closing = asyncio.create_task(close())
        await asyncio.sleep(0)
        late = asyncio.create_task(pass_through("c"))
        await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(*first, closing, late)
        return told

    told = asyncio.run(asyncio.wait_for(scene(), 5))
    assert told[:2] == ["a in", "b in"]
    assert told.index("closed") > max(told.index("a out"), told.index("b out"))
    assert told[told.index("closed") :] == ["closed", "c in", "c out"]


def test_one_that_gives_up_leaves_it_open() -> None:
    """A cancelled closer, waiting or inside, lets everybody pass again."""

    async def scene() -> None:
        gate, hold = Gate(), asyncio.Event()

        async def keep(what: str) -> None:
            async with gate.passing() if what == "pass" else gate.closed():
                await hold.wait()

        inside = asyncio.create_task(keep("pass"))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(keep("close"))
        await asyncio.sleep(0)
        waiting.cancel()
        inside.cancel()
        await asyncio.gather(waiting, inside, return_exceptions=True)
        closer = asyncio.create_task(keep("close"))
        await asyncio.sleep(0)
        closer.cancel()
        await asyncio.gather(closer, return_exceptions=True)
        async with gate.passing():
            pass
        async with gate.closed():
            pass

    asyncio.run(asyncio.wait_for(scene(), 5))


def test_closers_take_turns() -> None:
    """Two never remove at the same time."""

    async def scene() -> int:
        gate, inside, most = Gate(), 0, 0

        async def close() -> None:
            nonlocal inside, most
            async with gate.closed():
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(close() for _ in range(5)))
        return most

    assert asyncio.run(asyncio.wait_for(scene(), 5)) == 1
