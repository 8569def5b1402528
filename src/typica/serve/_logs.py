"""The log: one JSON object per line, without images, their names, or features."""

from __future__ import annotations

import json
import logging
import time
import traceback
from pathlib import Path
from typing import Any

NAME = "typica.serve"
FRAMES = 6  # of an error's traceback that are logged
_logger = logging.getLogger(NAME)


def log(event: str, level: str = "info", **facts: Any) -> None:
    """Write one line: what happened, and the facts, which are JSON values."""
    _logger.log(logging.getLevelNamesMapping()[level.upper()], event, extra={"facts": facts})


def place_of(error: BaseException) -> dict[str, Any]:
    """Return what kind of error it was and where, without its text, which may quote an input."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return {"kind": type(error).__name__, "places": places}


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
        if record.exc_info and record.exc_info[1] is not None:
            line |= place_of(record.exc_info[1])
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
        "root": {"handlers": ["lines"], "level": "WARNING"},
    }
