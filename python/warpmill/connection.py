"""Connections: sessions of the engine with Python's conveniences."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from warpmill._warpmill import (
    BinderError,
    CatalogError,
    Error,
    QueryResult,
    Session,
    execute_substrait,
    explain_substrait,
    inspect,
    to_substrait,
)
from warpmill.dbapi import DatabaseCalls
from warpmill.explanation import Explanation
from warpmill.frames import arrow_source, caller, find_function, find_variable, missing_function, missing_table
from warpmill.progress import shown
from warpmill.reading import rows_of
from warpmill.relation import Relation
from warpmill.substrait import Plan, SubstraitRelation, plan_source
from warpmill.udf.function import UserFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType

    from warpmill._warpmill import Layout
    from warpmill.reading import Paths
    from warpmill.relation import Params
    from warpmill.udf.function import FunctionInfo, Mode

    Progress = Callable[[int, int], None]

T = TypeVar("T")

#: The formats of plans.
EXPLAIN_FORMATS = ("text", "json", "mermaid", "html")

#: Python variables that one query may name as tables.
_MAX_REPLACEMENTS = 32

#: The schema of names without one; "main" is the same.
MAIN_SCHEMA = "public"

_SQL_STARTS = ("select", "with", "values", "from", "table", "(")


@dataclass(frozen=True)
class TableInfo:
    """A table that a connection knows."""

    name: str
    #: The place of its rows: "stored" (in the database directory), "memory", "view", "external" (files, frames) or
    #: "damaged" (stored, but it cannot be read).
    kind: str
    rows: int | None
    #: Bytes of its encoded segments.
    stored_bytes: int | None
    #: Bytes of the same values in plain columns.
    plain_bytes: int | None
    #: Bytes of the metadata by which queries skip rows.
    pruning_bytes: int | None = None
    #: The schema that it is in.
    schema: str = MAIN_SCHEMA
    #: Its keys, unique indexes and CHECK conditions, such as "PRIMARY KEY(id)".
    constraints: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """Its name as SQL finds it from the main schema."""
        return self.name if self.schema == MAIN_SCHEMA else f"{self.schema}.{self.name}"


class Notice(UserWarning):
    """A part of a statement that was not done as it said: plain indexes are declared only."""


def connect(
    database: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    workers: str | Sequence[str] | None = None,
    **settings: object,
) -> Connection:
    """Open a session.

    `database` is a directory of tables, made where it does not exist; without one, tables live in memory.
    `memory_limit` is in bytes, or text such as "4GB". Further settings are those of ``SET warpmill.name = value``, with
    their short names: ``connect(fallback="error")``. `workers` are the addresses ("host:port") of processes that run
    queries together with this one (``warpmill worker``).
    """
    if workers is not None:
        settings["workers"] = workers if isinstance(workers, str) else ",".join(workers)
    named = [(key if "." in key else f"warpmill.{key}", _setting(value)) for key, value in settings.items()]
    path = None if database is None else os.fspath(database)
    return Connection(Session(path, threads, _bytes(memory_limit), named), path)


class Connection(DatabaseCalls):
    """A session: tables, settings and queries. Usable from several threads; closes at the end of a ``with`` block.

    Its rows can be fetched as Python's database API (PEP 249) has it: ``execute``, ``fetchall``, ``description``.
    """

    def __init__(self, session: Session, database: str | None) -> None:
        self._session: Session | None = session
        self._database = database
        self._last: Relation | None = None
        # Variables of callers that queries have called as functions.
        self._found_functions: dict[str, UserFunction] = {}

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise Error("the connection is closed")
        return self._session

    def sql(self, query: str, params: Params = None) -> Relation:
        """Run a statement and return its rows; of several with semicolons between them, the rows of the last one.

        `params` fill ``?`` and ``$1`` (a sequence) or ``$name`` (a dict). A name in the query that is no table may be
        a variable of the caller that holds a frame: pandas, Polars, Arrow, another relation.
        """
        result = self._run(query, params)
        relation = Relation(self, query, params, lambda: result)
        _ = relation._result
        return relation

    def cursor(self) -> Connection:
        """A further connection to the same session, with a last statement of its own."""
        return Connection(self._open, self._database)

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` has begun a transaction that has not ended. All cursors of a connection are in it."""
        return self._open.is_in_transaction()

    def query(self, query: str, params: Params = None) -> Relation:
        """The same as `sql`."""
        return self.sql(query, params)

    def append(self, table: str, data: object, by_name: bool = False) -> None:
        """Add the rows of a frame to a table: by position, or `by_name` of their columns."""
        name = f"frame to append {id(data)}"
        self.register(name, data)
        try:
            self._run(f'INSERT INTO {_quoted(table)}{" BY NAME" if by_name else ""} SELECT * FROM "{name}"', None)
        finally:
            self.unregister(name)

    def explain(
        self,
        query: str,
        analyze: bool = False,
        params: Params = None,
        *,
        kernels: bool = False,
        format: str | None = None,  # noqa: A002 - SQL's word
    ) -> str:
        """The plan of a query: what Warpmill runs and where, what falls back to DataFusion and why.

        With `analyze` the query runs, and every operator and kernel shows rows, bytes and time. With `kernels` the text
        is instead that of the kernels generated for the device (the simulated one where there is no GPU). `format` is
        "text", "json", "mermaid" or "html"; without it the plan is a text that notebooks show as a tree.
        """
        if kernels and (analyze or format is not None):
            raise ValueError("explain takes kernels, or analyze and format")
        if format not in (None, *EXPLAIN_FORMATS):
            raise ValueError(f"explain has no format {format!r}: {', '.join(EXPLAIN_FORMATS)}")
        if params is not None:
            if format is not None:
                options = f"FORMAT {format}, ANALYZE {str(analyze).lower()}"
                [(_, text)] = self._run(f"EXPLAIN ({options}) {query}", params).rows(0, 1)
                return str(text)
            keyword = "EXPLAIN ANALYZE" if analyze else "EXPLAIN KERNELS" if kernels else "EXPLAIN"
            result = self._run(f"{keyword} {query}", params)
            parts = (f"== {title} ==\n{str(text).rstrip()}\n" for title, text in result.rows(0, result.num_rows))
            return "\n".join(parts)
        if kernels:
            return self._with_variables(lambda: self._open.explain_kernels(query))
        if format is not None:
            return self._with_variables(lambda: self._open.explain_as(query, analyze, [format]))[0]
        text, page = self._with_variables(lambda: self._open.explain_as(query, analyze, ["text", "html"]))
        return Explanation(text, page)

    def execute_substrait(self, plan: Plan) -> SubstraitRelation:
        """Run a Substrait plan and return its rows.

        `plan` is its bytes, its JSON form (a text or a dict), or a protobuf message. Named tables are those of the
        connection, in any case of letters where none is the same; they may be variables of the caller as in `sql`.
        """
        source = plan_source(plan)
        result = self._with_variables(lambda: execute_substrait(self._open, source))
        relation = SubstraitRelation(self, source, lambda: result)
        _ = relation._result
        return relation

    def explain_substrait(self, plan: Plan, analyze: bool = False) -> str:
        """The meaning of a Substrait plan as a logical plan, and how it is run; `analyze` as in `explain`."""
        source = plan_source(plan)
        return self._with_variables(lambda: explain_substrait(self._open, source, analyze))

    def to_substrait(self, query: str) -> bytes:
        """The Substrait plan of a query, optimized, as the bytes of a `substrait.Plan`."""
        return self._with_variables(lambda: to_substrait(self._open, query))

    def register(self, name: str, data: object) -> None:
        """Make a frame (Arrow, pandas, Polars, a dict of columns, ...) the table `name`, replacing what it was."""
        self._open.register(name, arrow_source(data))

    def unregister(self, name: str) -> None:
        """Forget a registered table; one of the database's own tables is dropped by SQL only."""
        self._open.deregister(name)

    def read_parquet(self, path: Paths, **options: object) -> Relation:
        """The rows of a Parquet file, of all files that match a glob, or of several; read when they are asked for.

        `options` are those of SQL's `read_parquet`: `filename`, `union_by_name`, `hive_partitioning`.
        """
        return self._files("read_parquet", path, options)

    def read_csv(self, path: Paths, **options: object) -> Relation:
        """The rows of a CSV file, of all files that match a glob, or of several.

        `options` are those of SQL's `read_csv`: `delim`, `header`, `skip`, `types`, `nullstr`, `dateformat` and so on.
        """
        return self._files("read_csv", path, options)

    def read_json(self, path: Paths, **options: object) -> Relation:
        """The rows of a JSON file (lines, or an array), of all files that match a glob, or of several.

        `options` are those of SQL's `read_json`: `columns`, `format`, `compression`, `filename`, `ignore_errors`.
        """
        return self._files("read_json", path, options)

    def register_file(self, name: str, path: str | os.PathLike[str]) -> None:
        """Give a Parquet or CSV file (or all files that match a glob) a table name, without reading its rows."""
        text = os.fspath(path)
        if text.lower().endswith((".csv", ".tsv", ".csv.gz")):
            self._open.register_csv(name, text)
        else:
            self._open.register_parquet(name, text)

    def generate(
        self, suite: str, table: str, sf: float, *, threads: int = 0, progress: Progress | None = None
    ) -> None:
        """Make (or make anew) a table of benchmark suite "tpch" or "ssb" at scale factor `sf`."""
        self._open.generate(suite, table, sf, threads, progress)

    def create_table(
        self,
        name: str,
        source: object,
        *,
        sort_by: Sequence[str] = (),
        cluster: str | Sequence[str] = (),
        pruning: str = "auto",
        sideways: Sequence[str] = (),
        replace: bool = False,
        codec: str | None = None,
        objective: str | None = None,
        codec_sample: float | None = None,
        codec_block: int | str | None = None,
        codec_light: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write `source` as a table of compressed segments.

        `source` is a frame, a relation, the text of a query, or the path (or glob) of Parquet or CSV files. With
        `replace` an existing table gets the new rows as its next version, which readers see at once or not at all.
        `progress(rows, total)` is called now and then; total is 0 where it is not known.

        Rows are sorted by `sort_by` (or `cluster`, which may also name attributes of `sideways`, or be "auto": those
        with the fewest distinct values first), so that queries on those columns skip rows. `pruning` says by which
        metadata: "none", "minmax", "histogram", "bloom", "all", or "auto" (what takes at most about 1% of the data).
        `sideways` keeps it of attributes of other tables: "lo_custkey=customer.c_custkey:c_region,c_nation".

        `codec` compresses the column chunks ("none", "lz4", "snappy", "zstd", "deflate", "gdeflate"; "auto" chooses
        for each column by samples). `objective` ("time", "size", "balanced") is what it chooses for, `codec_sample` the
        part of each column that it samples, `codec_block` the bytes of a block (64 KiB). With `codec_light`
        what is compressed is stored without the codec as well: queries on a device read what is faster. What is not
        said is as the settings say.
        """
        layout = _layout(sort_by, cluster, pruning, sideways)
        storage = _storage(codec, objective, codec_sample, codec_block, codec_light)
        if isinstance(source, os.PathLike) or (isinstance(source, str) and not _is_query(source)):
            path = os.fspath(source)
            if not replace and self._find(name) is not None:
                raise CatalogError(f"table '{name}' exists already: pass replace=True to give it new rows")
            self._open.import_files(str(path), name, layout, storage, progress)
            return
        # Rows of a query may get company that is NULL: its columns are NOT NULL by accident.
        data: object
        if isinstance(source, Relation):
            data = source.nullable_rows()
        else:
            data = self._run(source, None).nullable() if isinstance(source, str) else arrow_source(source)
        self._open.create_table(name, data, layout, replace, storage, progress)

    def tables(self) -> list[TableInfo]:
        """All tables and views of the session, of all schemas."""
        found = [TableInfo(**{**row, "constraints": tuple(row["constraints"])}) for row in self._open.tables()]
        return sorted(found, key=lambda table: (table.schema != MAIN_SCHEMA, table.schema, table.name))

    def functions(self) -> list[str]:
        """The names of all functions that SQL can call."""
        return self._open.function_names()

    def table(self, name: str) -> Relation:
        """The rows of a table or view, read when they are asked for; `name` may say its schema: "sales.orders"."""
        query = f"SELECT * FROM {_quoted(name)}"
        shape = self._run(f"{query} LIMIT 0", None)
        return Relation(self, query, None, lambda: self._run(query, None), shape)

    def create_aggregate(
        self,
        name: str | Callable[..., Any],
        function: Callable[..., Any] | None = None,
        parameters: Sequence[str] | None = None,
        returns: object = None,
        *,
        mode: Mode = "auto",
    ) -> FunctionInfo:
        """Make a Python function an aggregate function of this connection's SQL.

        Its parameters are columns of a group, on which it works as on a pandas Series; those with defaults are
        constants. Where its code is an expression, it runs like SQL; otherwise it is compiled where that is possible,
        or called for each group. A class with `add(values)`, `merge(other)` and `finish()` (and `init()`) is called for
        each row. `returns` is the type of the result ("DOUBLE", "BIGINT", ..., or a Python type); else the function's
        annotation says it, else DOUBLE. `mode` "symbolic" refuses what is no expression, "compiled" what cannot be
        compiled, "python" always calls. A function of that name is replaced.
        """
        return self._create(name, function, parameters, returns, mode, is_aggregate=True, side_effects=False)

    def create_function(
        self,
        name: str | Callable[..., Any],
        function: Callable[..., Any] | None = None,
        parameters: Sequence[str] | None = None,
        returns: object = None,
        *,
        mode: Mode = "auto",
        side_effects: bool = False,
    ) -> FunctionInfo:
        """Make a Python function of values a function of this connection's SQL.

        Where an argument is NULL, so is the result. What is no expression is compiled where that is possible, or called
        with numpy arrays of many rows, in `mode` "scalar" with the values of each, and so where all parameters are
        annotated as values (``s: str``). `side_effects`: it may give different results for the same arguments.
        """
        return self._create(name, function, parameters, returns, mode, is_aggregate=False, side_effects=side_effects)

    def remove_function(self, name: str) -> None:
        """Forget a function that `create_aggregate` or `create_function` has made."""
        self._open.remove_function(name)
        self._found_functions.pop(name.lower(), None)

    def _create(
        self,
        name: str | Callable[..., Any],
        function: Callable[..., Any] | None,
        parameters: Sequence[str] | None,
        returns: object,
        mode: Mode,
        *,
        is_aggregate: bool,
        side_effects: bool,
    ) -> FunctionInfo:
        if function is None:
            if isinstance(name, str):
                raise TypeError(f"the function '{name}' is missing")
            function, name = name, name.name if isinstance(name, UserFunction) else name.__name__
        if not isinstance(name, str):
            raise TypeError("a function has a name, which comes first")
        if isinstance(function, UserFunction):
            if function.is_aggregate != is_aggregate:
                made, takes = ("udaf", "create_aggregate") if function.is_aggregate else ("udf", "create_function")
                raise TypeError(f"'{name}' was made by {made}: {takes} takes it")
            user = replace(function, name=name)
        else:
            given = None if parameters is None else tuple(parameters)
            user = UserFunction(function, is_aggregate, name, given, returns, mode, side_effects)
        info = _define(self._open, user)
        self._found_functions.pop(info.name, None)
        return info

    def info(self, name: str) -> TableInfo:
        """The facts about the table or view `name`, in any case of letters, which may say its schema."""
        found = self._find(name)
        if found is None:
            raise CatalogError(f"table '{name}' not found")
        return found

    def _find(self, name: str) -> TableInfo | None:
        wanted = name.replace('"', "").lower().removeprefix("main.").removeprefix(f"{MAIN_SCHEMA}.")
        return next((table for table in self.tables() if table.qualified.lower() == wanted), None)

    def inspect(self, table: str) -> list[dict[str, Any]]:
        """The way each column of a Warpmill table is stored: name, type, encodings, codecs and their segments, bytes.

        `decompress_bytes_per_s` is measured now, on one thread; `predicted_bytes_per_s` are plain bytes of a scan from
        storage by the cost model.
        """
        _ = self._open
        if self._database is None:
            raise CatalogError(f"table '{table}' is not in a database directory: connect(\"dir\") opens one")
        bandwidth = float(self.settings()["warpmill.storage_bandwidth"])
        info = self.info(table)
        folder = Path(self._database) / (f"{info.schema}.schema" if info.schema != MAIN_SCHEMA else "") / info.name
        return inspect(str(folder), bandwidth)

    def set(self, name: str, value: object) -> None:
        """Change a setting, like SQL's SET: ``con.set("fallback", "error")``."""
        self._open.set(name if "." in name else f"warpmill.{name}", _setting(value))

    def settings(self) -> dict[str, str]:
        """All settings and their values."""
        return dict(self._open.settings())

    def interrupt(self) -> None:
        """Cancel what the connection runs on other threads: their calls raise `InterruptError`."""
        self._open.interrupt()

    def close(self) -> None:
        """Release the session; relations that exist keep their rows."""
        self._session = None
        self._last = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _files(self, function: str, paths: Paths, options: dict[str, object]) -> Relation:
        text = rows_of(function, paths, options)
        return Relation(self, text, None, lambda: self._run(text, None))

    def _run(self, query: str, params: Params) -> QueryResult:
        if isinstance(params, str | bytes):
            raise TypeError("params is a sequence of values or a dict, not one string")
        with shown(lambda: self._open.progress_mode()) as progress:
            result = self._with_variables(lambda: self._open.execute(query, params, progress))
        for notice in result.notices:
            warnings.warn(notice, Notice, stacklevel=3)
        return result

    def _with_variables(self, run: Callable[[], T]) -> T:
        """Run; where a table is missing, register the caller's variable of that name for the time of the run."""
        session, frame = self._open, caller()
        registered: list[str] = []
        self._forget_functions(frame)
        try:
            while True:
                try:
                    return run()
                except BinderError as error:
                    function = missing_function(str(error))
                    user = find_function(function, frame) if function else None
                    if function is None or user is None or function in self._found_functions:
                        raise
                    _define(session, replace(user, name=function))
                    self._found_functions[function] = user
                except CatalogError as error:
                    name = missing_table(str(error))
                    value: Any = find_variable(name, frame) if name else None
                    if name is None or value is None or name in registered or len(registered) == _MAX_REPLACEMENTS:
                        raise
                    session.register(name, arrow_source(value))
                    registered.append(name)
        finally:
            for name in registered:
                session.deregister(name)

    def _forget_functions(self, frame: FrameType | None) -> None:
        """Remove the functions that were variables of callers, and are others for this one, or none."""
        for name, function in list(self._found_functions.items()):
            if find_function(name, frame) is not function:
                del self._found_functions[name]
                self._open.remove_function(name)


def _quoted(name: str) -> str:
    """A name as SQL takes it: one that is not quoted already, in quotes, part by part."""
    if '"' in name:
        return name
    return ".".join(f'"{part}"' for part in name.split("."))


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _layout(sort_by: Sequence[str], cluster: str | Sequence[str], pruning: str, sideways: Sequence[str]) -> Layout:
    keys, clusters = _names(sort_by), _names(cluster)
    if keys and clusters:
        raise ValueError("sort_by and cluster exclude each other: both give the order of rows")
    auto = clusters == ["auto"]
    return {
        "sort_by": keys or ([] if auto else clusters),
        "cluster": auto,
        "pruning": pruning,
        "sideways": _names(sideways),
    }


def _is_query(text: str) -> bool:
    words = text.split(maxsplit=1)
    return bool(words) and (words[0].lower() in _SQL_STARTS or text.lstrip().startswith("("))


def _storage(
    codec: str | None, objective: str | None, sample: float | None, block: int | str | None, light: bool | None
) -> list[tuple[str, str]]:
    """The settings that one table is written with."""
    if codec is None and (objective is not None or sample is not None):
        codec = "auto"
    given = {
        "codec": codec,
        "codec_objective": objective,
        "codec_sample": sample,
        "codec_block": block,
        "codec_light": light,
    }
    return [(name, _setting(value)) for name, value in given.items() if value is not None]


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(size: int | str | None) -> int | None:
    """Bytes of a size such as "512MB" or "4 GiB": powers of 1000 and of 1024."""
    if size is None or isinstance(size, int):
        return size
    digits = size.strip().rstrip("BbiIkKmMgGtT ")
    unit = size.strip()[len(digits) :].strip().lower().removesuffix("b")
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    base = 1024 if unit.endswith("i") else 1000
    try:
        return int(float(digits) * base ** powers[unit.removesuffix("i")])
    except (KeyError, ValueError):
        raise ValueError(f"{size!r} is not a size: write 500MB, 4GB or 4GiB") from None


def _define(session: Session, function: UserFunction) -> FunctionInfo:
    """Define a function in a session. Importing the translator takes longer than importing everything else."""
    from warpmill.udf.definition import define

    return define(session, function)


__all__ = ["MAIN_SCHEMA", "Connection", "Notice", "TableInfo", "connect"]
