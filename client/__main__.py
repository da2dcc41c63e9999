"""The `delbo` command: `python -m client` is the same."""

import os

# Before numpy is imported: on busy cores a second BLAS thread can make small products a hundred times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Run the command line."""
    from client.cli import run

    run()


if __name__ == "__main__":
    main()
