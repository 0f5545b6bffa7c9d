from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agentic.tools.toolset import built_in_tools
from agentic.tools.web_search import KeyedEngine, KeylessEngine, SearchFailed, SearchResult, WebSearch, pages_in
from tests.support.tools.tool_doubles import CONTEXT

KEY = "canary-key"
ANSWERS = {
    "tavily": {"results": [{"title": "A", "url": "https://a.example", "content": "a <b>word</b>", "score": 1}]},
    "brave": {"web": {"results": [{"title": "A &amp; B", "url": "https://a.example", "description": "a\nword"}]}},
    "perplexity": {"results": [{"title": "A", "url": "https://a.example", "snippet": "a word", "date": None}]},
    "exa": {"results": [{"title": None, "url": "https://a.example", "highlights": ["a", "word"]}]},
}


@asynccontextmanager
async def serving(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as session:
        yield session, f"http://127.0.0.1:{server.port}"


def answering(answer, status=200, asked=None):
    async def handler(request):
        if asked is not None:
            body = await request.json() if request.method == "POST" else dict(request.query)
            asked.append((request.method, request.path, dict(request.headers), body))
        return web.json_response(answer, status=status)

    return handler


@pytest.mark.parametrize(
    ("name", "where", "header", "body", "found"),
    [
        (
            "tavily",
            ("POST", "/search"),
            ("Authorization", f"Bearer {KEY}"),
            {"query": "tree", "max_results": 3},
            SearchResult("A", "https://a.example", "a word"),
        ),
        (
            "brave",
            ("GET", "/res/v1/web/search"),
            ("X-Subscription-Token", KEY),
            {"q": "tree", "count": "3", "text_decorations": "false"},
            SearchResult("A & B", "https://a.example", "a word"),
        ),
        (
            "perplexity",
            ("POST", "/search"),
            ("Authorization", f"Bearer {KEY}"),
            {"query": "tree", "max_results": 3, "max_tokens_per_page": 256},
            SearchResult("A", "https://a.example", "a word"),
        ),
        (
            "exa",
            ("POST", "/search"),
            ("x-api-key", KEY),
            {"query": "tree", "numResults": 3, "contents": {"highlights": True}},
            SearchResult("", "https://a.example", "a … word"),
        ),
    ],
)
async def test_an_engine_with_a_key_is_asked_in_its_own_way(name, where, header, body, found):
    asked: list[tuple[str, str, dict[str, str], object]] = []
    async with serving(answering(ANSWERS[name], asked=asked)) as (session, base):
        engine = KeyedEngine(name, KEY, session, base)
        assert await engine.search("tree", 3) == [found]
        assert KEY not in repr(engine)
    ((method, path, headers, sent),) = asked
    assert (method, path) == where
    assert {key.lower(): value for key, value in headers.items()}[header[0].lower()] == header[1]
    assert sent == body


@pytest.mark.parametrize(
    ("answer", "status", "reason", "rests"),
    [
        ({}, 429, "tavily answered HTTP 429", True),
        ({}, 401, "tavily answered HTTP 401", True),
        ({}, 500, "tavily answered HTTP 500", False),
        ({}, 302, "tavily answered HTTP 302", False),
    ],
)
async def test_an_engine_that_refuses_says_so_without_its_key(answer, status, reason, rests):
    async with serving(answering(answer, status)) as (session, base):
        with pytest.raises(SearchFailed) as caught:
            await KeyedEngine("tavily", KEY, session, base).search("tree", 3)
    assert (caught.value.reason, caught.value.rests) == (reason, rests)


@pytest.mark.parametrize(
    "answer", [[], {}, {"results": None}, {"results": [1, {"url": "ftp://a"}, {"title": "A"}]}, "a"]
)
async def test_an_answer_of_another_shape_brings_nothing(answer):
    async with serving(answering(answer)) as (session, base):
        assert await KeyedEngine("tavily", KEY, session, base).search("tree", 3) == []


async def test_an_endless_answer_no_json_nobody_and_silence_are_failures():
    release = asyncio.Event()

    async def handler(request):
        if request.path == "/words/search":
            return web.Response(text="<html>")
        if request.path == "/silent/search":
            await release.wait()
        return web.Response(body=b" " * 3_000_000)

    async with serving(handler) as (session, base):

        async def reason(place, **more):
            with pytest.raises(SearchFailed) as caught:
                await KeyedEngine("tavily", KEY, session, place, **more).search("tree", 3)
            return caught.value.reason

        assert await reason(base) == "the answer of tavily is too long"
        assert await reason(f"{base}/words") == "tavily did not answer with JSON"
        assert await reason(f"{base}/silent", timeout=0.02) == "tavily took too long"
        assert await reason("http://127.0.0.1:1") == "no connection to tavily"
        release.set()


async def test_the_keyless_engine_works_in_a_thread_of_its_own():
    threads = []

    def text(query, count, seconds):
        threads.append(threading.get_ident())
        return [{"title": "A", "href": "https://a.example", "body": f"{query} {count} {seconds}"}] * 5

    engine = KeylessEngine(text=text, timeout=6.0)
    assert await engine.search("tree", 2) == [SearchResult("A", "https://a.example", "tree 2 6.0")] * 2
    assert threading.get_ident() not in threads
    engine.close()


@pytest.mark.parametrize("message", ["No results found.", "202 Ratelimit"])
async def test_the_keyless_engine_tells_nothing_from_a_failure(message):
    def text(query, count, seconds):
        raise RuntimeError(message)

    engine = KeylessEngine(text=text)
    if "No results" in message:
        assert await engine.search("tree", 2) == []
    else:
        with pytest.raises(SearchFailed, match="ddgs failed"):
            await engine.search("tree", 2)
    engine.close()


async def test_a_thread_that_hangs_is_given_up():
    free = threading.Event()
    engine = KeylessEngine(text=lambda *_: free.wait(10) and [], timeout=0.01)
    with pytest.raises(SearchFailed, match="too long"):
        await engine.search("tree", 2)
    free.set()
    engine.close()


def test_the_keyless_engine_is_what_the_package_has():
    """Its name and its arguments; nobody is asked."""
    from ddgs import DDGS

    assert callable(DDGS(timeout=1).text)


class Engine:
    def __init__(self, name, *answers):
        self.name, self.answers, self.asked = name, list(answers), []

    async def search(self, query, count):
        self.asked.append((query, count))
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


A = SearchResult("A", "https://a.example", "a word")


async def ask(search, query="tree", **more):
    return await search.execute({"query": query, **more}, CONTEXT)


async def test_what_was_found_is_shown_with_title_address_and_words():
    search = WebSearch([Engine("x", [A, A])], lambda: 0.0)
    shown = "title: A\nurl: https://a.example\nsnippet: a word"
    assert (await ask(search)).text == f"{shown}\n\n{shown}"


async def test_the_next_engine_is_asked_when_one_fails_or_finds_nothing():
    broken, empty, good = Engine("x", SearchFailed("x failed")), Engine("y", []), Engine("z", [A])
    output = await ask(WebSearch([broken, empty, good], lambda: 0.0), count=3)
    assert "https://a.example" in output.text
    assert broken.asked == empty.asked == good.asked == [("tree", 3)]


async def test_one_that_wants_rest_is_left_alone_for_a_while():
    now = 0.0
    limited, good = Engine("x", SearchFailed("HTTP 429", rests=True)), Engine("y", [A])
    search = WebSearch([limited, good], lambda: now)
    await ask(search, "one")
    await ask(search, "two")
    assert len(limited.asked) == 1
    now = 1000.0
    await ask(search, "three")
    assert len(limited.asked) == 2


async def test_where_all_fail_every_reason_is_told_and_nothing_is_kept():
    one, two = Engine("x", SearchFailed("x failed", rests=True), [A]), Engine("y", SearchFailed("y failed", rests=True))
    search = WebSearch([one, two], lambda: 0.0)
    output = await ask(search)
    assert (output.text, output.is_error) == ("the search failed: x failed; y failed", True)
    assert "https://a.example" in (await ask(search)).text  # all rest, so they are asked all the same


async def test_the_same_question_is_asked_once_also_at_once_and_again_when_it_is_old():
    now = 0.0
    engine = Engine("x", [A])
    search = WebSearch([engine], lambda: now)
    await asyncio.gather(*(ask(search, query) for query in ("Tall  tree", "tall tree", "tall TREE")))
    assert len(engine.asked) == 1
    await ask(search, "tall tree", count=2)
    now = 901.0
    await ask(search, "tall tree")
    assert len(engine.asked) == 3


async def test_what_is_kept_is_bounded():
    engine = Engine("x", [A])
    search = WebSearch([engine], lambda: 0.0)
    for number in range(300):
        await ask(search, f"tree {number}")
    await ask(search, "tree 299")
    assert len(engine.asked) == 300
    await ask(search, "tree 0")
    assert len(engine.asked) == 301


async def test_nothing_found_is_no_error_and_nothing_asked_is_one():
    search = WebSearch([Engine("x", [])], lambda: 0.0)
    assert (await ask(search)).text == "Nothing found."
    assert (await ask(search, " ")).is_error


async def test_no_engine_gets_private_details_and_a_query_of_them_alone_is_refused():
    engine = Engine("x", [A])
    search = WebSearch([engine], lambda: 0.0, lambda text: text.replace("sesame", "[redacted]"))
    await ask(search, "tree of alice@example.com with sesame")
    assert engine.asked == [("tree of with", 6)]
    output = await ask(search, "alice@example.com")
    assert (output.is_error, "without private details" in output.text, len(engine.asked)) == (True, True, 1)


async def test_the_pages_of_an_output_are_read_back_and_nothing_else_is():
    search = WebSearch(
        [Engine("x", [A, SearchResult("", "https://b.example/x", "title: no\nurl: https://c.example")])], lambda: 0.0
    )
    found = pages_in((await ask(search)).text)
    assert [(page.title, page.url) for page in found] == [("A", "https://a.example"), ("", "https://b.example/x")]
    assert pages_in("Nothing found.") == []


async def test_the_built_in_tools_follow_the_settings():
    async def names(search_keys, **settings):
        async with (
            aiohttp.ClientSession() as session,
            built_in_tools(session, None, search_keys, **settings) as (tools, pictures),
        ):
            assert (pictures is None) == ("keyless" in settings)
            return [
                (tool.spec.name, [engine.name for engine in tool.engines] if isinstance(tool, WebSearch) else None)
                for tool in tools
            ]

    assert await names({}) == [("web_search", ["ddgs"]), ("web_fetch", None)]
    assert await names({"exa": KEY, "tavily": KEY, "brave": ""}) == [
        ("web_search", ["exa", "tavily", "ddgs"]),
        ("web_fetch", None),
    ]
    assert await names({}, keyless=None) == [("web_fetch", None)]
    with pytest.raises(ValueError, match="bing"):
        await names({"bing": KEY})
