"""The commands that this package adds to ``warpmill bench`` (entry point group ``warpmill.bench``)."""

from __future__ import annotations

import typer

from warpmill_bench.cli import compaction, golap, kernels, lancelot, matrix, model, mordred, nvcomp, qj, scan, udaf

app = typer.Typer()
app.command("scan", epilog=scan.EXAMPLES)(scan.scan)
for suite, what in kernels.KERNELS.items():
    app.command(suite, help=what, epilog=f"Example: warpmill bench {suite} --json {suite}.json")(kernels.command(suite))
app.command("qj", epilog=qj.EXAMPLES)(qj.qj)
app.command("golap", epilog=golap.EXAMPLES)(golap.golap)
app.command("mordred", help=mordred.HELP, epilog=mordred.EXAMPLES)(mordred.mordred)
app.command("lancelot", help=lancelot.HELP, epilog=lancelot.EXAMPLES)(lancelot.lancelot)
app.command("matrix", epilog=matrix.EXAMPLES)(matrix.matrix)
app.command("model", epilog=model.EXAMPLES)(model.model)
app.command("compaction", epilog=compaction.EXAMPLES)(compaction.compaction)
app.command("udaf", epilog=udaf.EXAMPLES)(udaf.udaf)
# Programs with a command line of their own, which needs packages that are imported when they run.
own = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command("nvcomp", add_help_option=False, context_settings=own)(nvcomp.nvcomp)
app.command("nvcomp-check", add_help_option=False, context_settings=own)(nvcomp.nvcomp_check)
