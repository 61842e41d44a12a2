"""One module a subcommand of ``safelight``: each adds its parser and runs it. None knows Qt or torch."""
