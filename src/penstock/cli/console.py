"""Where the commands print: results on standard output, the rest on standard error."""

from rich.console import Console

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
