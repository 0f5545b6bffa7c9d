import json
import random
import re
import string
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.process import redaction
from agentic.process.redaction import REDACTED, Redactor, may_have_shape

# Put together here, so that no scanner of repositories takes them for real ones.
SHAPED = [
    "M" + "TA1" * 8 + "." + "GxYz12" + "." + "a-_9" * 9,
    "mfa." + "a1" * 42,
    "https://discord.com/api/webhooks/123456789012345678/" + "Ab-_1" * 13,
    "https://canary.discordapp.com/api/v10/webhooks/1/" + "Ab-_1" * 13,
    "sk-" + "proj-" + "a1B2" * 10,
    "sk-" + "ant-api03-" + "a1B2-_" * 10,
    "AIza" + "SyA1" * 8 + "abc",
    "xai-" + "a1B2" * 10,
    "gsk_" + "a1B2" * 10,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "xoxb-" + "123456789012-abcdef",
    "AKIA" + "ABCDEFGH12345678",
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIB/+a1" * 8 + "\nAAAA=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXktdjE",
]


@pytest.mark.promise(8)
@pytest.mark.parametrize("secret", SHAPED)
@pytest.mark.parametrize(
    "around", ["{}", "my key is {}, keep it", "`{}`", "<{}>", "key={}.", '{{"text": "{}"}}', "**{}**"]
)
def test_what_looks_like_a_secret_goes_wherever_it_stands(secret, around):
    clean = Redactor()(around.format(secret))
    assert REDACTED in clean
    assert secret[:40] not in clean
    assert clean.startswith(around.partition("{}")[0].replace("{{", "{"))


@pytest.mark.promise(13)
@pytest.mark.parametrize("write", [str, json.dumps, repr, quote, lambda secret: quote(secret, safe="")])
def test_a_known_secret_goes_however_it_is_written(write):
    secret = 'pa/ss "w\\ord" ä=1'
    written = write(secret).strip("\"'")
    assert Redactor([secret]).secrets(f"it is {written} there") == f"it is {REDACTED} there"


def shapes():
    """Each shape as a pattern that says nothing of what stands around."""
    pattern = re.sub(r"#.*", "", redaction._SHAPES.pattern).replace("(?i:(?<=bearer[ ]))", "(?i:bearer[ ])")
    for shape in re.split(r"\n\s*\| ", pattern):
        plain = re.sub(r"\(\?<?[!=][^()]*\)", "", shape)
        yield re.compile(re.sub(r"([+*}])\+", r"\1", plain), re.VERBOSE)


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.pattern.split()[0])
def test_no_secret_is_passed_over_by_the_quick_look_for_its_marks(shape, data):
    text = data.draw(st.from_regex(shape, fullmatch=True))
    if redaction._SHAPES.search(text):
        assert may_have_shape(text)


@pytest.mark.promise(579)
@settings(max_examples=50)
@given(st.data())
@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.pattern.split()[0])
def test_json_with_a_secret_is_not_clean_whatever_is_escaped_beside_it(shape, data):
    redact = Redactor(['known "secret', "nine-lives"])
    around = st.text('\\"\n\t\b\x1f\u2028é🔥 a.-', max_size=4)
    secret = st.from_regex(shape, fullmatch=True) | st.sampled_from(['known "secret', "nine-lives"])
    text = data.draw(around) + data.draw(secret) + data.draw(around)
    dumped = json.dumps({"text": ["a\n", text]}, ensure_ascii=False).encode(errors="replace")
    assert redact.is_clean(b'{"text": "a\\nb"}')
    if redact.secrets(text) != text:
        assert not redact.is_clean(dumped)
        assert not redact.is_clean(dumped), "it is not remembered"
    elif redact.is_clean(dumped):
        assert redact.is_clean(dumped)


def test_a_line_that_comes_again_is_not_searched_for_secrets_again(monkeypatch):
    redact, searched = Redactor(["a-canary-secret"]), []
    monkeypatch.setattr(redaction, "may_have_shape", lambda text: searched.append(text))
    for lines in ("one", "one\ntwo", "two\none", "one\nthree\ntwo"):
        assert redact.is_clean(json.dumps(lines).encode())
    assert not redact.is_clean(b'"one\\na-canary-secret"')
    assert searched == ['"one"', '"one\ntwo"', '"two\none"', "three"]


def test_ordinary_words_are_not_searched_for_every_shape():
    words = "Most people write, e.g. at www.example.com/a-long-path?with=parameters, text without anything secret. "
    assert not may_have_shape(words * 100)


@pytest.mark.parametrize(
    "text",
    [
        "Ask sk-learn, or scikit-learn-and-friends-of-2024-and-more.",
        "my-task-2024-management-and-planning-board-for-everybody",
        "https://discord.com/channels/1/2/3 and https://example.com/a.b.c?d=e#f",
        "0193f0c2-7d5e-7bb2-a1c7-6a0b8a4b0c11 and 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The AKIA prefix marks a key; xai- and sk- do, too. Write Authorization: Bearer YOUR_ACCESS_TOKEN_HERE.",
        "postgres://user:password@localhost/db is what a connection string looks like",
        "<@123456789012345678> <:smile:123456789012345678> 12:30 a.b.c",
        "-----BEGIN CERTIFICATE-----",
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    1/0\nZeroDivisionError: by zero',
        "/opt/other/agent_runtime.py, /home/you/data/file and /app/main.py",
    ],
)
def test_ordinary_words_stay_as_they_are(text):
    assert Redactor(["a-canary-secret"], [Path("/opt/bots"), Path("/app")])(text) == text


@pytest.mark.promise(8)
def test_known_secrets_go_whatever_they_look_like_also_quoted_for_an_address():
    redact = Redactor(["plain-word", "p@ss/word", "plain-word-and-more", "x"])
    assert redact("plain-word plain-word-and-more p@ss/word p%40ss%2Fword x plain word") == (
        f"{REDACTED} {REDACTED} {REDACTED} {REDACTED} x plain word"
    )


@pytest.mark.promise(8)
def test_a_traceback_of_ours_goes_whole_and_a_path_of_ours_goes_alone():
    redact = Redactor([], [Path("/opt/bots"), Path("/opt/bots/data")])
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/opt/bots/agent_cogs/turn.py", line 9, in walk\n    await act()\n    ^^^^^^^^^^^\n'
        '  File "/usr/lib/python3.12/asyncio/base.py", line 1, in run\n    1/0\n'
        "ZeroDivisionError: division by zero"
    )
    assert redact(f"It broke:\n```\n{trace}\n```\nSorry.") == f"It broke:\n```\n{REDACTED}\n```\nSorry."
    assert redact("see /opt/bots/data/redis/appendonly.aof, please") == f"see {REDACTED} please"
    assert redact("in /opt/bots and /opt/bots-of-others") == f"in {REDACTED} and /opt/bots-of-others"
    assert redact.secrets("/opt/bots/agent_runtime.py") == "/opt/bots/agent_runtime.py"


def test_of_a_folder_that_many_have_only_our_own_files_are_meant():
    redact = Redactor([], [Path("/app")])
    text = "/app/main.py, /app/agent_cogs/turn.py and /app/data/redis"
    assert redact(text) == f"/app/main.py, {REDACTED} and {REDACTED}"


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=200), max_size=4), st.randoms(use_true_random=False))
def test_json_stays_json_whatever_is_taken_out_of_it(fields, rng):
    secret = rng.choice(SHAPED).replace("\n", "\\n")
    raw = json.dumps({**fields, "text": f"a {secret} b", "more": "@ c"})
    clean = json.loads(Redactor(["canary-secret"])(raw))
    assert clean["text"].endswith(" b")
    assert clean["more"] == "@ c"


def test_a_long_hostile_text_is_searched_in_no_time_at_all():
    redact, rng = Redactor(["canary-secret"], [Path("/opt/bots")]), random.Random(1)
    shapes = ["Traceback (most recent call last):\n" + "  a\n" * 20_000, "sk-" * 30_000, "a1-" * 30_000, "M" * 100_000]
    shapes.append("".join(rng.choices(string.printable, k=100_000)))
    shapes.append("/opt/bots" + "Traceback (most recent call last):\n" * 3_000)
    shapes.append("bearer " * 15_000)
    for text in shapes:
        assert len(redact(text)) > 0  # the run itself would time out


def test_an_embed_is_cleaned_in_every_corner():
    redact = Redactor(["canary-secret"])
    shown = {
        "title": "canary-secret",
        "fields": [{"name": "a", "value": "b canary-secret"}],
        "color": 7,
        "footer": {"t": "c"},
    }
    assert redact.everywhere(shown) == {
        "title": REDACTED,
        "fields": [{"name": "a", "value": f"b {REDACTED}"}],
        "color": 7,
        "footer": {"t": "c"},
    }
