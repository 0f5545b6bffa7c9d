"""The models that speak in local mode: servers on this machine, the model of `--model`, and who is thinking."""
