"""Which model a call is for.

`_call_ai(prompt, history)` and `_generate_image(prompt)` are told no model, and an agent's turns in servers with
different models run side by side. So the call carries it: a context variable is its task's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from agent_llm.model import Model

_called: ContextVar[Model | None] = ContextVar("called", default=None)


@contextmanager
def calling(model: Model) -> Iterator[None]:
    """What is awaited within is a call of this model."""
    before = _called.set(model)
    try:
        yield
    finally:
        _called.reset(before)


def called_model() -> Model | None:
    """The model of the present call; None outside of one."""
    return _called.get()
