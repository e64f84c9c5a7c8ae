"""Files: CSV, JSON and Parquet by name, and what is found in them."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Files"

#: The files of the cases, by path within the folder that is the working folder.
FILES = {
    "plain.csv": 'id,name,price,day\n1,apple,1.5,2024-01-01\n2,"b,c",,2024-02-29\n3,,2.25,2024-03-01\n',
    "semicolon.csv": "id;name\n1;x\n2;y\n",
    "tab.tsv": "id\tname\n1\tx\n2\ty\n",
    "headless.csv": "1,2.5,x\n2,3.5,y\n",
    "quoted.csv": 'a,b\n"x ""y""",1\n"line\nbreak",2\n',
    "moments.csv": "t,b\n2024-01-01 10:00:00,true\n2024-01-02 11:30:00,false\n",
    "rows.ndjson": '{"id": 1, "name": "x", "tags": ["a", "b"]}\n{"id": 2, "name": null, "tags": []}\n',
    "array.json": '[{"id": 1, "v": {"p": 1.5}}, {"id": 2, "v": null}]',
    "mixed.json": '{"a": 1}\n{"b": "x"}\n',
    "parts/2023/x.csv": "id,v\n1,a\n",
    "parts/2024/y.csv": "id,v\n2,b\n",
    "parts/2024/deep/z.csv": "id,v\n3,c\n",
    "hive/year=2023/f.csv": "id\n1\n",
    "hive/year=2024/f.csv": "id\n2\n",
    "notes.txt": "first line\nsecond line\n",
}

CASES = (
    Everyday("SELECT * FROM 'plain.csv' ORDER BY id"),
    Everyday("SELECT * FROM read_csv('plain.csv') ORDER BY id"),
    Everyday(
        "SELECT * FROM read_csv_auto('semicolon.csv') ORDER BY id",
    ),
    Everyday(
        "SELECT * FROM read_csv('semicolon.csv', delim = ';', header = true) ORDER BY id",
    ),
    Everyday("SELECT * FROM 'tab.tsv' ORDER BY id"),
    Everyday(
        "SELECT * FROM read_csv('headless.csv', header = false) ORDER BY 1",
    ),
    Everyday(
        "SELECT * FROM 'headless.csv' ORDER BY 1",
    ),
    Everyday("SELECT * FROM 'quoted.csv' ORDER BY b"),
    Everyday("SELECT * FROM 'moments.csv' ORDER BY t"),
    Everyday(
        "SELECT * FROM read_csv('plain.csv', columns = {'id': 'BIGINT', 'name': 'VARCHAR', 'price': 'DOUBLE', 'day': 'VARCHAR'}) ORDER BY id",
    ),
    Everyday(
        "SELECT * FROM read_csv('plain.csv', all_varchar = true) ORDER BY id",
    ),
    Everyday(
        "SELECT * FROM read_csv('plain.csv', types = {'id': 'VARCHAR'}) ORDER BY id",
    ),
    Everyday(
        "SELECT id, name FROM read_csv('headless.csv', names = ['id', 'v', 'name']) ORDER BY id",
    ),
    Everyday(
        "SELECT * FROM read_csv('plain.csv', nullstr = 'apple', skip = 0) ORDER BY id",
    ),
    Everyday("SELECT * FROM read_csv('parts/*/*.csv') ORDER BY id"),
    Everyday("SELECT * FROM 'parts/**/*.csv' ORDER BY id"),
    Everyday(
        "SELECT * FROM read_csv(['parts/2023/x.csv', 'parts/2024/y.csv']) ORDER BY id",
    ),
    Everyday(
        "SELECT id, filename FROM read_csv('parts/2023/*.csv', filename = true)",
    ),
    Everyday(
        "SELECT * FROM read_csv('hive/*/*.csv', hive_partitioning = true) ORDER BY id",
    ),
    Everyday("SELECT * FROM 'rows.ndjson' ORDER BY id"),
    Everyday("SELECT * FROM read_json('rows.ndjson') ORDER BY id"),
    Everyday(
        "SELECT id, v.p AS p FROM 'array.json' ORDER BY id",
    ),
    Everyday(
        "SELECT * FROM read_json_auto('array.json') ORDER BY id",
    ),
    Everyday("SELECT * FROM read_json('mixed.json')"),
    Everyday("SELECT * FROM read_ndjson('rows.ndjson') ORDER BY id"),
    Everyday(
        "SELECT * FROM 'out.parquet' ORDER BY x",
        setup=("COPY (SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v(x, s)) TO 'out.parquet'",),
    ),
    Everyday(
        "SELECT * FROM read_parquet('out.parquet') ORDER BY x",
        setup=("COPY (SELECT 1 AS x) TO 'out.parquet' (FORMAT parquet)",),
    ),
    Everyday(
        "SELECT * FROM 'out.csv' ORDER BY x",
        setup=("COPY (SELECT 1 AS x, 'a,b' AS s) TO 'out.csv' (HEADER, DELIMITER ',')",),
    ),
    Everyday("SELECT content FROM read_text('notes.txt')"),
    Everyday("SELECT file FROM glob('parts/2024/*.csv')"),
    Everyday("SELECT count(*) AS n FROM t", setup=("CREATE TABLE t AS FROM 'plain.csv'",)),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=("CREATE TABLE t (id INTEGER, v VARCHAR)", "COPY t FROM 'parts/2023/x.csv' (HEADER)"),
    ),
    Everyday("DESCRIBE SELECT * FROM 'plain.csv'"),
    Everyday("SELECT column_name FROM (DESCRIBE FROM 'plain.csv')"),
)
