"""The subcommands of ``safelight``: a module each with ``add(commands)``, listed in ``main.COMMANDS``."""
