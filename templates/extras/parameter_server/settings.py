"""What config.toml may say with parameter servers: strategy = "parameter_server"."""

STRATEGIES = ("parameter_server",)
