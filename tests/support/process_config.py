"""The configuration of a process, with the fields of its parts given beside the others."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from agentic.runtime.services import ModelMakers, ProcessConfig, WebAccess


def process_config(**given: Any) -> ProcessConfig:
    """`make_model` is the `make` of ModelMakers."""
    if "make_model" in given:
        given["make"] = given.pop("make_model")
    models, web = (
        part(**{each.name: given.pop(each.name) for each in fields(part) if each.name in given})
        for part in (ModelMakers, WebAccess)
    )
    return ProcessConfig(**given, models=models, web=web)
