"""A gate between those who rely on what is stored and the one who removes what nobody refers to.

Whoever asks whether something is there and then stores a reference to it passes; many may at once.
Removing closes the gate for a moment at a time: it waits until nobody is inside and lets nobody in.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """For one event loop."""

    def __init__(self) -> None:
        self._inside = 0
        self._is_closed = False
        self._opened = asyncio.Event()
        self._emptied = asyncio.Event()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Keeps the gate from being closed."""
        await self._until_open()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._emptied.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Keeps everybody outside."""
        await self._until_open()
        self._is_closed = True
        self._opened.clear()
        try:
            while self._inside:
                self._emptied.clear()
                await self._emptied.wait()
            yield
        finally:
            self._is_closed = False
            self._opened.set()

    async def _until_open(self) -> None:
        while self._is_closed:
            await self._opened.wait()
