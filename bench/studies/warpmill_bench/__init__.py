"""Studies of Warpmill: benchmarks of its parts and of what papers claim, which ``warpmill bench`` finds when installed.

- `suites`: tables, queries and sizes as data;
- `maxbench`: engines, states and places of data, measured and modelled like MaxBench;
- `qj`, `qj_findings`: joins, selectivity, number of drives and codec against each other;
- `golap`, `golap_sweeps`, `golap_joins`, `golap_report`: compression and pruning, sizes, pipelines, co-execution;
- `compaction`: the chunk compaction micro-benchmark and its plots;
- `scan`: every codec on every column, read back on the CPU;
- `kernels`: the device's kernels alone;
- `nvcomp`: nvCOMP's decompression of SSB's columns (`lineorder`) on the GPU (`cuda`), beside Warpmill's;
- `nvcomp_check`: codecs through the whole engine, undone by the device and by the host, beside nvCOMP alone;
- `flight`: a soak test of the Flight SQL server;
- `pandas_groupby`: the queries of H2O.ai's group-by benchmark in pandas, for `maxbench`;
- `udaf`: aggregate functions in Python beside pandas and DuckDB;
- `disk`: the rate that a database's disk is read at.
"""
