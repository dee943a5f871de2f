"""Entry point: the words that need nothing heavy are answered before anything is imported."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from doctor import __version__

        print(f"doctor {__version__}")
        return 0
    import gc

    # loading makes many objects and no garbage; collecting in between is a twentieth of a short call
    gc.set_threshold(50_000, 20, 20)
    from doctor.cli import run

    code = run(sys.argv[1:])
    gc.freeze()  # what is left goes with the process: Python need not look through it once more
    return code


if __name__ == "__main__":
    sys.exit(main())
