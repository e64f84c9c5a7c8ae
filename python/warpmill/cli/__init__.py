"""The command line: ``warpmill``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import warpmill
from warpmill import progress
from warpmill.cli import ballista, bench, data, doctor, query, serve, shell, worker


class ErrorsAsMessages(TyperGroup):
    """Turns the engine's errors, and the system's, into one line on stderr and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (warpmill.Error, OSError, ImportError, ValueError, TypeError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="warpmill",
    cls=ErrorsAsMessages,
    help="Analytical SQL over compressed columnar segments.",
    epilog="Start with: warpmill sql \"SELECT * FROM 'data.parquet' LIMIT 10\"",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"warpmill {warpmill.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Analytical SQL over compressed columnar segments."""
    del version


app.command("sql", epilog=query.EXAMPLES)(query.sql)
app.command("shell", epilog=shell.EXAMPLES)(shell.shell)
app.command("import", epilog=data.IMPORT_EXAMPLES)(data.import_)
app.command("generate", epilog=data.GENERATE_EXAMPLES)(data.generate)
app.command("inspect", epilog=data.INSPECT_EXAMPLES)(data.inspect)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("worker", epilog=worker.EXAMPLES)(worker.worker)
app.command("ballista-scheduler", epilog=ballista.SCHEDULER_EXAMPLES)(ballista.scheduler)
app.command("ballista-executor", epilog=ballista.EXECUTOR_EXAMPLES)(ballista.executor)
app.command("doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point of the ``warpmill`` command."""
    progress.attended = True
    app(prog_name="warpmill")


if __name__ == "__main__":
    main()
