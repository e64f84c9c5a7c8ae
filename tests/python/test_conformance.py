"""The runner of other systems' tests: its parser, its steps, its comparison, its processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pytest

from conformance import accepted
from conformance.answers import Answer, Failure
from conformance.compare import Difference, Judge
from conformance.doors import DuckDoor
from conformance.lockstep import FileRun
from conformance.ordering import Parser
from conformance.outcome import Outcome
from conformance.report import Tally
from conformance.script import Corpus, Reopen, Script, Step, StopError
from conformance.sqlite import formatted, without_keys
from conformance.sqllogic import Directive, Loop, Record, UnknownError, parse
from conformance.workers import Pool, Stopped, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILE = """\
# name: a test
require parquet

statement ok con1
CREATE TABLE t(i INT,
  j INT)

statement error
SELECT nothing
----
<REGEX>:.*Binder.*

foreach type <unsigned> !uhugeint

onlyif type=utinyint
query I rowsort
SELECT 1::${type}
----
1

endloop

mode skip unstable

statement ok
never

mode unskip

concurrentloop i 0 2

loop j ${i} 2

query II
SELECT {i}, ${j}
----
0	0

endloop

endloop

restart

load {TEST_DIR}/x.db readonly v1.5.0
"""


def steps(text: str, folder: Path, systems: frozenset[str] = frozenset({"duckdb"})) -> list[Step]:
    (folder / "a.test").write_text(text)
    return list(Script(folder / "a.test", Corpus(folder, "test/sql/", systems)).steps())


def test_the_tree_of_a_file() -> None:
    nodes = parse(FILE)
    assert isinstance(nodes[0], Directive)
    assert nodes[0].arguments == ("parquet",)
    assert nodes[1] == Record(4, "ok", "CREATE TABLE t(i INT,\n  j INT)", "con1")
    assert isinstance(nodes[2], Record)
    assert nodes[2].expected == ("<REGEX>:.*Binder.*",)
    assert isinstance(nodes[3], Loop)
    assert nodes[3].arguments == ("<unsigned>", "!uhugeint")


def test_steps_with_loops_conditions_and_variables(tmp_path: Path) -> None:
    made = steps(FILE, tmp_path)
    records = [step for step in made if isinstance(step, Record)]
    assert [record.sql for record in records[2:]] == ["SELECT 1::utinyint", "SELECT 0, 0", "SELECT 0, 1", "SELECT 1, 1"]
    # Iterations of a concurrent loop have separate connections.
    assert len({record.connection for record in records[3:]}) == 2
    assert [step for step in made if isinstance(step, Reopen)] == [
        Reopen(made[-2].line, None),
        Reopen(made[-1].line, "{TEST_DIR}/x.db", True, "v1.5.0"),
    ]


def test_values_of_several_names(tmp_path: Path) -> None:
    text = "foreach a,b 1,x 2,y\n\nskipif a>1\nstatement ok\nSELECT ${a}${b}\n\nendloop\n"
    assert [step.sql for step in steps(text, tmp_path) if isinstance(step, Record)] == ["SELECT 1x"]


def test_a_query_names_its_connection_or_its_sort() -> None:
    nodes = parse("query I con2\nSELECT 1\n----\n1\n\nquery I valuesort label-1\nSELECT 1\n----\n1\n")
    assert [(node.connection, node.sort) for node in nodes if isinstance(node, Record)] == [
        ("con2", "nosort"),
        (None, "valuesort"),
    ]


def test_sqlite_conditions(tmp_path: Path) -> None:
    text = "onlyif mssql\nhalt\n\nskipif postgresql # not\nstatement ok\nA\n\nonlyif postgresql\nstatement ok\nB\n"
    made = steps(text, tmp_path, frozenset({"postgresql"}))
    assert [step.sql for step in made if isinstance(step, Record)] == ["B"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("require tpch\n", "require tpch"), ("require exact_vector_size 2\n", "2"), ("include a/b\n", "a/b is not here")],
)
def test_what_is_not_here_stops_a_file(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(StopError, match=reason):
        steps(text, tmp_path)


@pytest.mark.parametrize("text", ["surprise me\n", "statement perhaps\nA\n", "loop i 0 1\n", "endloop\n", "mode odd\n"])
def test_what_is_not_known_is_said(text: str) -> None:
    with pytest.raises(UnknownError):
        parse(text)


def judged(sql: str, ours: Answer, reference: Answer, setup: str = "") -> Difference | None:
    """The difference of two answers, for which plain DuckDB runs further queries."""
    con = duckdb.connect()
    con.execute(setup)

    def run(text: str) -> Answer:
        result = con.execute(text)
        return Answer(reference.names, reference.types, tuple(result.fetchall()))

    return Judge(Parser(duckdb.connect()), run, run).difference(sql, ours, reference)


def rows(*values: object, kind: str = "INTEGER") -> Answer:
    return Answer(("x",), (kind,), tuple((value,) for value in values))


def test_rows_are_a_bag_unless_ordered() -> None:
    assert judged("SELECT x FROM t", rows(1, 2, 2), rows(2, 1, 2)) is None
    assert judged("SELECT x FROM t", rows(1, 1, 2), rows(2, 1, 2)) is not None
    found = judged("SELECT x FROM t ORDER BY x", rows(2, 1), rows(1, 2))
    assert found is not None
    assert found.kind == "order"


def test_rows_that_tie_come_in_any_order() -> None:
    names, kinds = ("x", "y"), ("INTEGER", "INTEGER")
    left = Answer(names, kinds, ((1, 1), (1, 2), (2, 0)))
    right = Answer(names, kinds, ((1, 2), (1, 1), (2, 0)))
    assert judged("SELECT x, y FROM t ORDER BY x", left, right) is None
    assert judged("SELECT x, y FROM t ORDER BY x, 2", left, right) is not None


def test_a_limit_may_choose_among_rows_but_not_make_them_up() -> None:
    setup = "CREATE TABLE t AS SELECT unnest([1, 2, 3]) AS x"
    assert judged("SELECT x FROM t LIMIT 1", rows(3), rows(1), setup) is None
    assert judged("SELECT x FROM t LIMIT 1", rows(7), rows(1), setup) is not None
    assert judged("SELECT x FROM t ORDER BY x LIMIT 1", rows(3), rows(1), setup) is not None


def test_floats_are_near_and_nothing_else_is() -> None:
    assert judged("SELECT x", rows(0.1 + 0.2, kind="DOUBLE"), rows(0.3, kind="DOUBLE")) is None
    assert judged("SELECT x", rows(0.3001, kind="DOUBLE"), rows(0.3, kind="DOUBLE")) is not None
    assert judged("SELECT x", rows(float("nan"), kind="DOUBLE"), rows(float("nan"), kind="DOUBLE")) is None
    assert judged("SELECT x", rows(None), rows(0)) is not None
    assert judged("SELECT x", rows(True), rows(1)) is None
    assert judged("SELECT x", rows((1, None)), rows((1, 2))) is not None


def test_errors_are_compared_by_class() -> None:
    def error(kind: str) -> Answer:
        return Answer(failure=Failure(kind, "words"))

    assert judged("SELECT x", error("BinderException"), error("BinderException")) is None
    kinds = [
        judged("SELECT x", error("InternalException"), error("BinderException")),
        judged("SELECT x", error("BinderException"), rows(1)),
        judged("SELECT x", rows(1), error("BinderException")),
        judged("SELECT x", rows(1), rows(1, kind="BIGINT")),
    ]
    assert [found.kind for found in kinds if found] == ["error class", "fails", "succeeds", "types"]


def test_answers_hold_what_python_does_not(tmp_path: Path) -> None:
    door = DuckDoor(duckdb.connect, tmp_path / "door")
    pairs = [
        ("DATE 'infinity'", "DATE '9999-12-31'"),
        ("INTERVAL 1 MONTH", "INTERVAL 30 DAY"),
        ("'2020-01-01 00:00:00.000000001'::TIMESTAMP_NS", "'2020-01-01'::TIMESTAMP_NS"),
        ("[DATE '-infinity']", "[DATE '0001-01-01']"),
        ("{'a': TIMESTAMP 'infinity'}", "{'a': NULL::TIMESTAMP}"),
        ("MAP {1: TIME '24:00:00'}", "MAP {1: TIME '00:00:00'}"),
    ]
    for left, right in pairs:
        answers = [door.run(f"SELECT {text} AS x") for text in (left, right, left)]
        assert all(answer.failure is None for answer in answers)
        assert answers[0].rows != answers[1].rows
        assert answers[0].rows == answers[2].rows
    door.close()


def test_every_type_of_the_host_is_fetched(tmp_path: Path) -> None:
    door = DuckDoor(duckdb.connect, tmp_path / "door")
    names = door.run("FROM test_all_types()").names or door.run("DESCRIBE FROM test_all_types()").rows
    assert names
    answers = {name: door.run(f'SELECT "{name}" FROM test_all_types()') for name in names if isinstance(name, str)}
    assert {name: answer.brief() for name, answer in answers.items() if answer.failure} == {}
    assert {len(answer.rows) for answer in answers.values()} == {3}
    door.close()


def test_sqlite_writes_values_in_its_way() -> None:
    answer = Answer(("a", "b", "c"), ("", "", ""), ((2.75, 1, ""), (None, None, "a\tb")))
    record = Record(1, "query", "", types="IRT", sort="rowsort")
    assert formatted(answer, record) == ["2", "1.000", "(empty)", "NULL", "NULL", "a@b"]
    assert without_keys("CREATE TABLE t(a INT PRIMARY KEY, b INT UNIQUE, PRIMARY KEY (a, b))").count("KEY") == 0


def test_every_accepted_difference_has_a_reason_and_none_is_of_values() -> None:
    for entry in accepted.accepted():
        assert len(entry.reason) > 20, entry.name
        # SQLite's files have statements that DuckDB refuses, too.
        never = {"types", "values"} | ({"fails"} if entry.corpora != ("sqlite",) else set())
        # Natively there are answers where DuckDB refuses; the refusal says which.
        never |= {"succeeds"} if entry.corpora != ("duckdb-native",) else set()
        assert not set(entry.kinds) & never, entry.name
        # Rows may differ only where the statement or the file says why.
        assert entry.sql or entry.files or (set(entry.kinds) == {"succeeds"} and entry.text), entry.name


def test_a_file_in_lockstep_with_duckdb_itself(tmp_path: Path) -> None:
    (tmp_path / "a.test").write_text(
        "statement ok\nCREATE TABLE t AS SELECT range i FROM range(5)\n\n"
        "query I\nSELECT sum(i) FROM t\n----\n10\n\nstatement error\nSELECT nothing\n\n"
        "load {TEST_DIR}/b.db\n\nstatement ok\nCREATE TABLE u(i INT)\n\nrestart\n\nquery I\nFROM u\n----\n"
    )
    run = FileRun(tmp_path / "a.test", tmp_path, tmp_path / "work", duckdb.connect, lambda *_: None, {})
    tally = Tally("duckdb")
    for outcome in run.outcomes():
        tally.add(outcome)
    assert run.stopped is None
    assert (tally.verdicts["equal"], tally.verdicts["both fail"], tally.unlike_file) == (4, 1, 0)
    assert tally.line() == "conformance duckdb: 5 records, 4 equal, 0 wrong, 0 failed, 1 both fail, 0 accelerated"


@dataclass(frozen=True)
class Doomed:
    """A task that ends its process, or never ends, at line 2 of 3."""

    how: str
    first: int = 1

    @property
    def title(self) -> str:
        return self.how

    def run(self, folder: Path, progress: Callable[[int, str], None]) -> Iterator[Outcome | Stopped]:
        for line in range(self.first, 4):
            progress(line, "ours")
            if line == 2 and self.how == "dies":
                os.abort()
            if line == 2 and self.how == "hangs":
                time.sleep(60)
            yield Outcome(str(folder.name), line, "", "equal")

    def rest(self, line: int) -> Task | None:
        return Doomed(self.how, line + 1)


def test_a_process_that_dies_or_hangs_ends_its_task_only() -> None:
    tasks: list[Task] = [Doomed("dies"), Doomed("hangs"), Doomed("ends")]
    seen: dict[str, list[str]] = {task.title: [] for task in tasks}
    for task, result in Pool(2, 2.0).results(tasks):
        if isinstance(result, Outcome):
            seen[task.title].append(f"{result.line} {result.verdict}")
    assert seen == {
        "dies": ["1 equal", "2 crash", "3 equal"],
        "hangs": ["1 equal", "2 hang", "3 equal"],
        "ends": ["1 equal", "2 equal", "3 equal"],
    }
