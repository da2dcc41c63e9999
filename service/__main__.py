"""`python -m service --name a1 --port 8001 --data-dir DIR`: run one agent."""

import os

# Before numpy is imported: on busy cores a second BLAS thread can make small products a hundred times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys

import uvloop
from pydantic import ValidationError

from service.errors import DelboError
from service.logs import start_logging
from service.server import serve
from service.settings import Settings


def main() -> int:
    """Read the settings, run the agent."""
    parser = argparse.ArgumentParser(prog="delbo agent", description="Run one agent.", allow_abbrev=False)
    for name, field in Settings.model_fields.items():
        default = "; required" if field.is_required() else f"; default {field.default}" if field.default else ""
        text, option = f"{field.description} [DELBO_{name.upper()}{default}]", f"--{name.replace('_', '-')}"
        if field.annotation is bool:
            parser.add_argument(option, help=text, action="store_true", default=None)
        else:
            parser.add_argument(option, help=text, metavar=name.rpartition("_")[2].upper())
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as fault:
        first = fault.errors()[0]
        option, message = str(first["loc"][0]).replace("_", "-"), first["msg"].removeprefix("Value error, ")
        print(f"delbo agent: --{option}: {message[0].lower()}{message[1:]}", file=sys.stderr)
        return 2
    start_logging(settings.name, settings.log_format, settings.log_level)
    try:
        uvloop.run(serve(settings))
    except DelboError as fault:
        print(f"delbo agent: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
