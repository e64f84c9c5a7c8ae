"""``warpmill bench decode|join|groupby|sort|like``: the device's kernels alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from warpmill.cli.bench import DeviceName, JsonFile, Runs

if TYPE_CHECKING:
    from collections.abc import Callable


Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", min=0.0, help="Factor of all row counts (default: 1; on the simulated device nearly none)."
    ),
]
Tune = Annotated[bool, typer.Option("--tune", help="Try several launch shapes where there is a choice.")]
KernelDevice = Annotated[DeviceName, typer.Option("--device", help="gpu, or sim, whose times mean nothing.")]


#: Suites of single kernels, with descriptions.
KERNELS = {
    "decode": "Decoding on the device: every encoding and width, fused with a sum or written out; answers checked.",
    "join": "Hash and direct-address joins on the device; answers checked.",
    "groupby": "Grouping with one sum on the device, from few groups to very many; answers checked.",
    "sort": "Radix sort and prefix sums on the device; answers checked.",
    "like": "LIKE '%a%b%' over strings of 50 bytes on the device; answers checked.",
}


def command(suite: str) -> Callable[..., None]:
    """The command of one of `KERNELS`."""

    def measure(
        device: KernelDevice = DeviceName.gpu,
        scale: Scale = None,
        runs: Runs = 5,
        tune: Tune = False,
        json_file: JsonFile = None,
    ) -> None:
        from warpmill.bench import report
        from warpmill_bench import kernels

        if device is DeviceName.cpu:
            raise typer.BadParameter("--device takes gpu or sim here: there are no kernels on the CPU")
        with Console(stderr=True).status(suite):
            found = kernels.measure(suite, device is DeviceName.sim, scale, runs, tune)
        Console(width=None if sys.stdout.isatty() else 200).print(kernels.table(found))
        if json_file:
            report.save({**found, "machine": report.machine()}, json_file)
        if not all(row["verified"] for row in found["measurements"]):
            raise typer.Exit(1)

    return measure
