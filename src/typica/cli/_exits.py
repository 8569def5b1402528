"""The exit codes of `typica`; 0 is success."""

INTERNAL = 1  # a fault of ours, or a reader of our output that has gone
BAD_INPUT = 2  # what was given cannot be used; Typer ends so too where an option is wrong
ALARM = 3  # `typica monitor` has seen a drift
INTERRUPTED = 130  # Ctrl-C
