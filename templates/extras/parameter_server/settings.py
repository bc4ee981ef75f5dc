"""The setting that this extra adds: strategy = "parameter_server"."""

STRATEGIES = ("parameter_server",)
