"""The subcommands of ``safelight``: one module each with ``add(commands)``, listed in ``main.COMMANDS``."""
