"""The fetcher for the whole public Internet, tried against servers on loopback."""

import asyncio
import ipaddress
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from aiohttp.test_utils import TestServer

from agentic.net.addresses import FetchRefused, is_public
from agentic.net.fetch import CheckedResolver, PublicFetcher

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\x10\0\0\0\x10" + b"rest"


class Names(AbstractResolver):
    """A name server: each answer of a name in its turn, the last for ever."""

    def __init__(self, **names):
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked = []

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked.append(host)
        answers = self.names[host]
        numbers = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            {"hostname": host, "host": number, "port": port, "family": family, "proto": 0, "flags": 0}
            for number in numbers.split()
        ]

    async def close(self):
        self.asked.append("closed")


def local(number):
    """As if loopback were a public place; everything else as it is."""
    return number == ipaddress.ip_address("127.0.0.1") or is_public(number)


@asynccontextmanager
async def serving(handler, names, **options):
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    async with TestServer(app, host="127.0.0.1") as server:
        rules = {"ports": {server.port}, "resolver": names, "may_connect": local, **options}
        async with PublicFetcher(**rules) as files:
            yield files, f"http://files.example:{server.port}"


def answering(body, **more):
    async def handler(_):
        return web.Response(body=body, **more)

    return handler


async def refusal(files, url):
    with pytest.raises(FetchRefused) as caught:
        await files.fetch_page(url)
    return caught.value.reason


@pytest.mark.promise(27)
@pytest.mark.parametrize("numbers", ["10.0.0.1", "169.254.169.254", "::1", "8.8.8.8 192.168.1.1", "::ffff:127.0.0.1"])
async def test_a_name_that_leads_inside_is_not_asked_even_if_only_one_of_its_numbers_does(numbers):
    resolver = CheckedResolver(Names(files_example=[numbers]))
    with pytest.raises(FetchRefused) as caught:
        await resolver.resolve("files.example", 443)
    assert caught.value.reason == "a name that leads to an address that isn't public"


@pytest.mark.promise(27)
async def test_a_name_that_changes_its_mind_between_two_requests_is_judged_each_time():
    names = Names(files_example=["127.0.0.1", "127.0.0.2"])  # the second is as private as any other
    async with serving(answering(PNG, headers={"Connection": "close"}), names) as (files, origin):
        assert (await files.fetch_page(f"{origin}/a")).data == PNG
        assert await refusal(files, f"{origin}/a") == "a name that leads to an address that isn't public"


@pytest.mark.promise(27)
async def test_a_request_resolves_its_name_once_so_nothing_can_change_after_the_check():
    names = Names(files_example=["127.0.0.1", "127.0.0.2"])
    async with serving(answering(PNG), names) as (files, origin):
        await files.fetch_page(f"{origin}/a")
    assert names.asked == ["files.example", "closed"]


@pytest.mark.promise(27)
async def test_a_redirect_is_judged_like_a_first_address():
    asked = []

    async def handler(request):
        asked.append(request.path)
        places = {
            "/number": f"http://127.0.0.1:{request.url.port}/secret",
            "/inside": f"http://inside.example:{request.url.port}/secret",
            "/metadata": "http://169.254.169.254/latest",
            "/file": "file:///etc/passwd",
            "/loop": "/loop",
            "/there": "/here",
        }
        if request.path in places:
            return web.Response(status=302, headers={"Location": places[request.path]})
        return web.Response(body=PNG)

    names = Names(files_example=["127.0.0.1"], inside_example=["10.0.0.1"])
    async with serving(handler, names) as (files, origin):
        assert (await files.fetch_page(f"{origin}/there")).data == PNG
        for path in ("/number", "/inside", "/metadata", "/file"):
            await refusal(files, origin + path)
        assert await refusal(files, f"{origin}/loop") == "too many redirects"
    assert "/secret" not in asked


@pytest.mark.promise(28)
async def test_a_stream_without_a_length_is_cut_at_the_limit():
    sent = 0

    async def handler(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while sent < 500:
                await response.write(b"a" * 100_000)
                sent += 1
        return response

    async with serving(handler, Names(files_example=["127.0.0.1"]), max_bytes=200_000) as (files, origin):
        assert await refusal(files, f"{origin}/a") == "too large"
    assert sent < 500


async def test_neither_cookies_nor_a_proxy_of_the_machine_are_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    cookies = []

    async def handler(request):
        cookies.append(request.headers.get("Cookie"))
        return web.Response(body=PNG, headers={"Set-Cookie": "who=me"})

    async with serving(handler, Names(files_example=["127.0.0.1"])) as (files, origin):
        await files.fetch_page(f"{origin}/a")
        await files.fetch_page(f"{origin}/b")
    assert cookies == [None, None]


async def test_nobody_there_and_nobody_who_answers_are_refusals_like_any_other():
    release = asyncio.Event()

    async def handler(_):
        await release.wait()
        return web.Response(body=PNG)

    async with serving(handler, Names(files_example=["127.0.0.1"]), timeout=0.05) as (files, origin):
        assert await refusal(files, f"{origin}/a") == "it took too long"
        release.set()
    async with PublicFetcher(ports={1}, resolver=Names(files_example=["127.0.0.1"]), may_connect=local) as files:
        assert await refusal(files, "http://files.example:1/a") == "no connection"


async def test_a_page_comes_with_what_its_server_says_and_where_it_was_found():
    heard = []

    async def handler(request):
        heard.append(request.headers["User-Agent"])
        if request.path == "/old":
            return web.Response(status=301, headers={"Location": "/new"})
        return web.Response(body=b"\xe4", headers={"Content-Type": "text/html; charset=latin-1"})

    async with serving(handler, Names(files_example=["127.0.0.1"])) as (files, origin):
        page = await files.fetch_page(f"{origin}/old")
    assert (page.data, page.content_type, str(page.address)) == (
        b"\xe4",
        "text/html; charset=latin-1",
        f"{origin}/new",
    )
    assert all("agentic-discord" in agent for agent in heard)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://169.254.169.254/latest", "file:///etc/passwd", "https://lan"]
)
async def test_a_page_is_asked_for_under_the_same_rules(url):
    async with PublicFetcher() as files:
        with pytest.raises(FetchRefused):
            await files.fetch_page(url)
