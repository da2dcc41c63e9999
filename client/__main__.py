"""The `delbo` command: `python -m client` is the same."""

import os
import sys

from client.agent_process import become_agent

# Before numpy is imported: on busy cores a second BLAS thread can make small products a hundred times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["agent"] and not {"-h", "--help"} & set(sys.argv):
        become_agent(sys.argv[2:])  # at once: what the other commands need takes a second to import
    from client.cli import run

    run()


if __name__ == "__main__":
    main()
