"""Warpmill as a back end of Ibis: ``ibis.warpmill.connect("db/")``.

Ibis finds this module by the entry point of the package. Its expressions become SQL by Ibis' own compiler for DuckDB,
whose dialect Warpmill has; Narwhals works on Ibis tables.
"""

from __future__ import annotations

import contextlib
import datetime
import zoneinfo
from typing import TYPE_CHECKING, Any

import ibis
import ibis.common.exceptions as errors
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.schema as schemas
import ibis.expr.types as types
import pyarrow as pa
import sqlglot as sg
import sqlglot.expressions as sge
from ibis import util
from ibis.backends import CanCreateDatabase, NoUrl
from ibis.backends.sql import SQLBackend
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.formats.pyarrow import PyArrowSchema

import warpmill

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from warpmill.relation import Relation


#: The origin of SQL's time_bucket for widths without months.
_MONDAY = "2000-01-03"


class Compiler(DuckDBCompiler):
    """Ibis' compiler for DuckDB, without features that Warpmill lacks: typed STRUCTs, bucket origins, `+` of lists."""

    def cast(self, arg: Any, to: dt.DataType) -> sge.Expression:
        """`arg` as `to`: values with fields are made anew of their fields."""
        if isinstance(to, dt.Struct):
            names = [sg.to_identifier(name, quoted=self.quoted) for name in to.names]
            if isinstance(arg, sge.Struct):
                given = [e.expression if isinstance(e, sge.PropertyEQ) else e for e in arg.expressions]
            else:
                given = [sge.Dot(this=sge.Paren(this=arg.copy()), expression=name) for name in names]
            fields = zip(names, given, to.types, strict=True)
            made = sge.Struct.from_arg_list(
                [sge.PropertyEQ(this=name, expression=self.cast(value, ty)) for name, value, ty in fields]
            )
            return made if isinstance(arg, sge.Struct) else self.if_(arg.is_(sge.Null()), sge.Null(), made)
        if isinstance(to, dt.Array) and _has_fields(to.value_type):
            if isinstance(arg, sge.Array):
                return self.f.array(*(self.cast(value, to.value_type) for value in arg.expressions))
            each = sg.to_identifier("x")
            return self.f.list_transform(arg, sge.Lambda(this=self.cast(each, to.value_type), expressions=[each]))
        return super().cast(arg, to)

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: dt.DataType) -> Any:
        """A constant: moments with a zone as texts."""
        if isinstance(dtype, dt.Timestamp) and dtype.timezone is not None:
            moment = value if value.tzinfo is not None else value.replace(tzinfo=zoneinfo.ZoneInfo(dtype.timezone))
            return self.cast(moment.astimezone(datetime.UTC).isoformat(" "), dt.Timestamp("UTC"))
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def visit_TimestampBucket(self, op: Any, *, arg: Any, interval: Any, offset: Any) -> Any:
        """The bucket of a timestamp, counted from 1970, or from `offset` after that."""
        if op.interval.dtype.unit.short in ("Y", "Q", "M"):
            raise errors.UnsupportedOperationError("buckets of months: use truncate")
        moved = self.cast("1970-01-01", dt.timestamp) - self.cast(_MONDAY, dt.timestamp)
        if offset is not None:
            moved = moved + offset
        moved = sge.Paren(this=moved)
        return self.f.time_bucket(interval, arg - moved) + moved.copy()

    def visit_ApproxQuantile(self, op: Any, *, arg: Any, quantile: Any, where: Any) -> Any:
        """The exact one."""
        del op
        return self.agg.quantile_cont(arg, quantile, where=where)

    visit_ApproxMultiQuantile = visit_ApproxQuantile

    def visit_ApproxMedian(self, op: Any, *, arg: Any, where: Any) -> Any:
        """The exact one."""
        del op
        return self.agg.median(arg, where=where)

    def _array_distinct(self, arg: Any) -> Any:
        each = sg.to_identifier("x")
        is_null = sge.Lambda(this=each.is_(sge.Null()), expressions=[each])
        nulls = self.f.list_slice(self.f.list_filter(arg, is_null), 1, 1)
        return self.if_(arg.is_(sge.Null()), sge.Null(), self.f.list_concat(self.f.list_distinct(arg), nulls))


def _has_fields(of: dt.DataType) -> bool:
    return isinstance(of, dt.Struct) or (isinstance(of, dt.Array) and _has_fields(of.value_type))


class Backend(SQLBackend, CanCreateDatabase, NoUrl):
    """A connection of Warpmill."""

    name = "warpmill"
    compiler = Compiler()
    supports_temporary_tables = True

    @property
    def version(self) -> str:
        """Warpmill's version."""
        return warpmill.__version__

    def do_connect(self, database: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        """Open a directory of tables, or one in memory; `settings` as in `warpmill.connect`."""
        self.con = warpmill.connect(database, **settings)
        self._frames: set[str] = set()

    @classmethod
    def from_connection(cls, con: warpmill.Connection, /) -> Backend:
        """A back end for a connection that exists."""
        made = cls()
        made.con = con
        made._frames = set()
        made._can_reconnect = False
        return made

    @property
    def current_database(self) -> str:
        """The schema of names that say none."""
        [(name,)] = self.con.sql("SELECT current_schema()").fetchall()
        return str(name)

    def list_databases(self, *, like: str | None = None, catalog: str | None = None) -> list[str]:
        """The schemas."""
        del catalog
        return list(self._filter_with_like([name for (name,) in self.con.sql("SHOW SCHEMAS").fetchall()], like))

    def create_database(self, name: str, /, *, catalog: str | None = None, force: bool = False) -> None:
        """Make a schema."""
        with self._safe_raw_sql(sge.Create(kind="SCHEMA", this=sg.table(name, db=catalog, quoted=True), exists=force)):
            pass

    def drop_database(self, name: str, /, *, catalog: str | None = None, force: bool = False) -> None:
        """Drop a schema."""
        self._drop("SCHEMA", name, catalog, force)

    def drop_table(self, name: str, /, *, database: Any = None, force: bool = False) -> None:
        """Drop a table."""
        self._drop("TABLE", name, database, force)

    def drop_view(self, name: str, /, *, database: Any = None, force: bool = False) -> None:
        """Drop a view."""
        self._drop("VIEW", name, database, force)

    def _drop(self, kind: str, name: str, database: Any, force: bool) -> None:
        # As text: the arguments of the sqlglot expression differ between versions.
        parts = [*([database] if isinstance(database, str) else database or ()), name]
        path = ".".join(sg.to_identifier(part, quoted=True).sql(self.dialect) for part in parts)
        self.raw_sql(f"DROP {kind} {'IF EXISTS ' if force else ''}{path}")

    def list_tables(self, *, like: str | None = None, database: str | None = None) -> list[str]:
        """The tables and views of a schema."""
        wanted = database or self.current_database
        wanted = warpmill.connection.MAIN_SCHEMA if wanted == "main" else wanted
        names = [table.name for table in self.con.tables() if table.schema == wanted]
        return list(self._filter_with_like([name for name in names if name not in self._frames], like))

    def get_schema(self, name: str, *, catalog: str | None = None, database: str | None = None) -> schemas.Schema:
        """The columns of a table."""
        del catalog
        source = sg.table(name, db=database, quoted=True).sql(self.dialect)
        try:
            return self._get_schema_using_query(f"SELECT * FROM {source}")
        except warpmill.CatalogError as error:
            raise errors.TableNotFound(name) from error

    def _get_schema_using_query(self, query: str) -> schemas.Schema:
        empty = self.con.sql(f"SELECT * FROM ({query}) LIMIT 0")
        return PyArrowSchema.to_ibis(_plain(pa.schema(empty)))

    def raw_sql(self, query: str | sge.Expression, **_: Any) -> Relation:
        """Run a statement as it is."""
        with contextlib.suppress(AttributeError):
            query = query.sql(dialect=self.dialect)  # type: ignore[union-attr]  # a text has none, which is why
        self._log(str(query))
        return self.con.sql(str(query))

    @contextlib.contextmanager
    def _safe_raw_sql(self, query: str | sge.Expression, **kwargs: Any) -> Iterator[Relation]:
        yield self.raw_sql(query, **kwargs)

    def to_pyarrow_batches(
        self,
        expr: types.Expr,
        /,
        *,
        params: Mapping[types.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **_: Any,
    ) -> pa.RecordBatchReader:
        """The rows of an expression in Arrow batches."""
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        schema = table.schema().to_pyarrow()
        rows = self.raw_sql(self.compile(table, params=params, limit=limit)).arrow()
        rows = rows.rename_columns(schema.names).cast(schema, safe=False)
        return pa.RecordBatchReader.from_batches(schema, rows.to_batches(max_chunksize=chunk_size))

    def to_pyarrow(
        self,
        expr: types.Expr,
        /,
        *,
        params: Mapping[types.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> pa.Table:
        """The rows of an expression as an Arrow table."""
        rows = self.to_pyarrow_batches(expr, params=params, limit=limit, **kwargs).read_all()
        return expr.__pyarrow_result__(rows)

    def execute(
        self,
        expr: types.Expr,
        /,
        *,
        params: Mapping[types.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows of an expression as a pandas DataFrame, a column as a Series, a scalar as its value."""
        rows = self.to_pyarrow_batches(expr, params=params, limit=limit, **kwargs).read_all()
        return expr.__pandas_result__(rows.to_pandas(timestamp_as_object=False), schema=expr.as_table().schema())

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: schemas.SchemaLike | None = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> types.Table:
        """Make a table of an expression or a frame, or an empty one."""
        if obj is None and schema is None:
            raise ValueError("create_table takes rows or a schema")
        target: sge.Expression = sg.table(name, db=database, quoted=True)
        query = None
        if obj is not None:
            table = obj if isinstance(obj, types.Table) else ibis.memtable(obj, schema=schema)
            self._run_pre_execute_hooks(table)
            query = self.compiler.to_sqlglot(table)
        else:
            columns = ibis.schema(schema).to_sqlglot_column_defs(self.dialect)
            target = sge.Schema(this=target, expressions=columns)
        properties = [sge.TemporaryProperty()] if temp else []
        statement = sge.Create(
            kind="TABLE",
            this=target,
            expression=query,
            replace=overwrite,
            properties=sge.Properties(expressions=properties),
        )
        with self._safe_raw_sql(statement):
            pass
        return self.table(name, database=database)

    def read_parquet(self, path: str | os.PathLike[str], /, *, table_name: str | None = None) -> types.Table:
        """Parquet files as a table."""
        return self._file(path, table_name or util.gen_name("read_parquet"))

    def read_csv(self, path: str | os.PathLike[str], /, *, table_name: str | None = None) -> types.Table:
        """CSV files with headers as a table."""
        return self._file(path, table_name or util.gen_name("read_csv"))

    def _file(self, path: str | os.PathLike[str], name: str) -> types.Table:
        self.con.register_file(name, path)
        return self.table(name)

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self._frames.add(op.name)
        self.con.register(op.name, op.data.to_pyarrow(op.schema))

    def _make_memtable_finalizer(self, name: str) -> Callable[..., None]:
        con, frames = self.con, self._frames

        def forget() -> None:
            frames.discard(name)
            # The connection may have been closed before.
            with contextlib.suppress(warpmill.Error):
                con.unregister(name)

        return forget


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema with strings and bytes of one layout, as Ibis has one type of each."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])
