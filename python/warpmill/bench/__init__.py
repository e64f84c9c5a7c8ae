"""Benchmarks: every engine in one run, on the same data, threads and machine, results compared.

- `data`: the suite's tables on disk, made once;
- `engines`: Warpmill and its peers behind one interface;
- `verify`: whether two results are equal;
- `runner`: the interleaved measurement;
- `report`: the table people read and the JSON that machines read (docs/bench.md);
- `compaction`: the chunk compaction micro-benchmark and its plots;
- `nvcomp`: nvCOMP's decompression of SSB's columns (`lineorder`) on the GPU (`cuda`), beside Warpmill's;
- `nvcomp_check`: codecs through the whole engine, undone by the device and by the host, beside nvCOMP alone.
"""
