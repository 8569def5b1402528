"""The exit codes of `typica`; 0 is success."""

INTERNAL = 1  # a bug of ours, or the reader of our output has gone
BAD_INPUT = 2  # the input cannot be used; Typer uses this code too, for wrong options
ALARM = 3  # `typica monitor` has seen a drift
INTERRUPTED = 130  # Ctrl-C
