"""The base of the tests that run by unittest too."""

import asyncio
import unittest


class AsyncCase(unittest.IsolatedAsyncioTestCase):
    """unittest's loop is in asyncio's debug mode, which doubles the time and shows nothing that these tests ask for."""

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)
