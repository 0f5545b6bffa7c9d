"""Mistakes in local mode's models, and at Ollama's own API."""

from __future__ import annotations

from tests.mutants.mutant import of

SEARCH = "agent_local/models/test_server_search.py"
CHOSEN = "agent_local/models/test_chosen_model.py"
THINKING = "agent_local/models/test_thinking.py"
OLLAMA = "agent_llm/providers/test_ollama.py"

IN_LOCAL = (
    *of(
        "agent_local/models/server_search.py",
        SEARCH,
        ("allow_redirects=False", "allow_redirects=True", "no program sends a question elsewhere"),
        ("if len(body) > MOST_BYTES:", "if not body:", "an answer is limited in size"),
        ("if answer.status == 200 else None", "if answer.status else None", "a refusal is no list"),
        ("if task.done() and (", "if (", "a program that does not answer delays nothing"),
    ),
    *of(
        "agent_llm/transport/sdk_http.py",
        SEARCH,
        ('return host == "localhost" or ip_address(host).is_loopback', "return True", "only this machine is asked"),
    ),
    *of(
        "agent_local/models/server_kinds.py",
        SEARCH,
        ("if not models or any(", "if any(", "an empty list is not vLLM's"),
        ('all("state" in model for model in models)', "True", "a list of something else is not LM Studio's"),
        ('return "bert" in', 'return "x" in', "a model that cannot speak is not offered"),
        ("if _NAME.fullmatch(name)]", "if name]", "a name fits into a command as it is"),
    ),
    *of(
        "agent_local/models/chosen_model.py",
        CHOSEN,
        ("return plain_name(model) in names or", "return model in names or", "Ollama's tag may be written"),
        ('netloc.rpartition("@")[2]', "netloc", "a password is not shown"),
        ("if error.status == 404:", "if error.status == 400:", "an unknown model is named as such"),
    ),
    *of(
        "agent_local/models/context_size.py",
        CHOSEN,
        ("if not 0 < tokens < LEAST_CONTEXT:", "if not 0 < tokens:", "a large context is no warning"),
    ),
    *of(
        "agent_local/models/thinking.py",
        THINKING,
        ("self._next_line = self._clock() + PAUSE", "self._next_line = self._clock()", "one line a minute"),
        ("            self._thoughts.remove(thought)", "            pass", "a bot that is done thinks no more"),
    ),
    *of(
        "agent_local/local_settings.py",
        THINKING,
        ("if name not in settings.model_fields_set}", "}", "the owner's own times stay"),
        ("turn_seconds=max(usual.turn_seconds, slow)", "turn_seconds=usual.turn_seconds", "a slow model has time"),
    ),
    *of(
        "agent_llm/wire/ollama.py",
        OLLAMA,
        ("    size = max(least, LEAST_CONTEXT)", "    size = LEAST_CONTEXT", "a model is not loaded at each turn"),
        ("while size < min(input_tokens + ANSWER,", "while size < min(input_tokens,", "there is room for the answer"),
        ('{**part(merged, "options"), **part(own, "options")}', 'part(own, "options")', "options are merged"),
        ("enumerate(calls, calls_before)", "enumerate(calls)", "calls of a stream stay apart"),
        ("in model else False", "in model else True", "a small machine does not think for minutes"),
    ),
    *of(
        "agent_llm/providers/ollama.py",
        OLLAMA,
        ("[] if access.api_key or parts.username else [_without_key]", "[]", "nobody else's key is sent"),
        ('"response": [bound_httpx_response]', '"response": []', "an answer without an end is given up"),
        ("    async with aclosing(stream):\n", "    if True:\n", "an answer that is given up ends its request"),
    ),
    *of(
        "agent_llm/base.py",
        OLLAMA,
        ("self.profile = replace(self.profile, **lacking)", "pass", "a model without tools is asked for them once"),
    ),
)
