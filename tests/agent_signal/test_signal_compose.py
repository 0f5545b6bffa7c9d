from __future__ import annotations

import yaml

from agent_process.root import ROOT

SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]


def test_the_server_of_signal_runs_only_where_it_is_asked_for_and_only_this_machine_reaches_it():
    server = SERVICES["signal"]
    assert server["profiles"] == ["signal"]
    assert server["environment"]["MODE"] == "json-rpc"
    assert [port.rpartition(":")[0] for port in server["ports"]] == ["127.0.0.1:8080"]
    assert SERVICES["bots"]["environment"]["SIGNAL_API_URL"] == "${SIGNAL_API_URL:-http://signal:8080}"


def test_the_accounts_keys_outlive_the_container():
    (volume,) = SERVICES["signal"]["volumes"]
    assert (volume["source"], volume["target"]) == ("./data/signal", "/home/.local/share/signal-cli")
