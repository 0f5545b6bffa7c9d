from __future__ import annotations

import pytest
import yaml

from agentic.process.root import ROOT

COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def test_the_server_of_signal_runs_only_where_it_is_asked_for_and_only_this_machine_reaches_it():
    server = SERVICES["signal"]
    assert server["profiles"] == ["signal"]
    assert server["environment"]["MODE"] == "json-rpc"
    assert [port.rpartition(":")[0] for port in server["ports"]] == ["127.0.0.1:8080"]
    assert SERVICES["bots"]["environment"]["SIGNAL_API_URL"] == "${SIGNAL_API_URL:-http://signal:8080}"


def test_the_accounts_keys_outlive_the_container():
    (volume,) = SERVICES["signal"]["volumes"]
    assert (volume["source"], volume["target"]) == ("./data/signal", "/home/.local/share/signal-cli")


@pytest.mark.promise(524)
def test_only_the_bots_reach_redis_which_asks_nobody_for_a_password():
    networks = {name: set(service.get("networks", ["default"])) for name, service in SERVICES.items()}
    reach_redis = {name for name, its in networks.items() if its & networks["redis"]}
    assert reach_redis == {"redis", "bots"}
    assert networks["signal"] & networks["bots"]
    assert "ports" not in SERVICES["redis"]
    assert all(COMPOSE["networks"][name]["internal"] for name in networks["redis"])
    assert "default" in networks["bots"], "models and Discord are on the Internet"
