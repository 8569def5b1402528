"""The log: one JSON object per line. Neither images, nor their names, nor features are in it."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

NAME = "typica.serve"
_logger = logging.getLogger(NAME)


def log(event: str, level: str = "info", **facts: Any) -> None:
    """Write one line: what happened, and the facts of it, which are JSON values."""
    _logger.log(logging.getLevelNamesMapping()[level.upper()], event, extra={"facts": facts})


class JsonLines(logging.Formatter):
    """Writes each record, whoever made it, as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_settings(level: str = "INFO") -> dict[str, Any]:
    """Return the settings of Python's logging: every logger of the server, on standard error."""
    loggers = (NAME, "mlserver", "mlserver.parallel", "mlserver.rest", "mlserver.grpc",
               "mlserver.metrics", "uvicorn", "uvicorn.error", "uvicorn.access")  # fmt: skip
    quiet = {"mlserver": "WARNING", "uvicorn": "WARNING"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": "typica.serve._logs.JsonLines"}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "formatter": "lines",
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {
            name: {
                "handlers": ["lines"],
                "level": quiet.get(name.partition(".")[0], level),
                "propagate": False,
            }
            for name in loggers
        },
    }
