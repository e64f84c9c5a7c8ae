"""``warpmill bench nvcomp`` and ``nvcomp-check``, programs with a command line of their own."""

from __future__ import annotations

import typer  # noqa: TC002  # typer reads annotations


def nvcomp(context: typer.Context) -> None:
    """nvCOMP's decompression of SSB's columns, beside decoding (--help: its options)."""
    from warpmill_bench import nvcomp as study

    study.main(context.args)


def nvcomp_check(context: typer.Context) -> None:
    """Codecs through the whole engine, undone by the device and by the host, beside nvCOMP (--help: its options)."""
    from warpmill_bench import nvcomp_check as study

    study.main(context.args)
