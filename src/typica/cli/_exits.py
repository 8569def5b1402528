"""The exit codes of `typica`; 0 is success. They hold if nobody reads standard output any more."""

INTERNAL = 1  # a bug of ours
BAD_INPUT = 2  # the input cannot be used; Typer uses this code too, for wrong options
ALARM = 3  # `typica monitor` has seen a drift
INTERRUPTED = 130  # Ctrl-C
CUT_OFF = 141  # the reader of rows has gone before the last, as a shell says it of SIGPIPE
