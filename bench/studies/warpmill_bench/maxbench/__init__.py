"""MaxBench's measurements and model, for `warpmill bench matrix` and `warpmill bench model` (docs/maxbench.md).

What is measured:

- `cells`: what an engine's process is asked to run: suite, size, engine, site, source, location; the plans;
- `answers`: DuckDB's rows, which those of all engines are compared with;
- `worker`: one cell: an engine's process, its queries in their states;
- `session`: all cells, within a time, resumed where an earlier run ended;
- `links`: transfers by size.

What is made of it:

- `fits`: B(s) of links, T(s) of queries; `characteristics`: the slope matrix; `limits`: data that grows without end;
- `observations`: the runs of reports as sizes and times;
- `model`: everything fitted, as one object that predicts; `errors`: against runs that it has not seen;
- `figures`, `page`: the report.
"""
