"""Benchmarks: every engine in one run, on the same data, threads and machine, results compared.

- `data`: the suite's tables on disk, made once;
- `states`, `queries`, `literals`: what is measured, new statements by other literals;
- `engines`, `cudf`: Warpmill and its peers behind one interface;
- `verify`: whether two results are equal;
- `runner`: the interleaved measurement;
- `processes`, `child`: engines in processes of their own, new processes measured;
- `report`, `trace`: the table people read, the JSON that machines read (docs/bench.md), profiles;
- `ingest`, `parquet`, `start`: making tables, reading Parquet files, new processes.

Studies of the engine's parts are another package, `warpmill-bench`, in the repository's folder `bench/studies`.
"""
