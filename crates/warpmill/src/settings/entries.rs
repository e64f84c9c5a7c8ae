//! The entries of a session's settings for `SHOW` and the documentation.

use datafusion::common::config::ConfigEntry;
use warpmill_engine::Policy;
use warpmill_format::codec::CodecChoice;
use warpmill_format::column_cache;
use warpmill_format::pruning::Metadata;

use super::{
    DATA_SOURCES, EXCHANGES, FILE_ACCESS, FIRST_RUNS, JOINS, PLACEMENTS, PROFILES, PRUNING, REPLICATIONS,
    REPRESENTATIONS, WarpmillOptions, name_of,
};

/// The settings of `options`, each with its value and description.
pub(super) fn entries(options: &WarpmillOptions) -> Vec<ConfigEntry> {
    let switch = |on: bool| if on { "on" } else { "off" }.to_string();
    let bytes = |bytes: usize| if bytes == usize::MAX { "unlimited".to_string() } else { bytes.to_string() };
    let (memory_limit, temp_directory_limit) = (bytes(options.memory_limit), bytes(options.temp_directory_limit));
    let limit = |bytes: usize| if bytes == 0 { "unlimited".to_string() } else { bytes.to_string() };
    let gpu_memory_limit = limit(options.gpu_memory_limit);
    let io_bandwidth_limit = limit(options.io_bandwidth_limit);
    let pinned_memory_limit = limit(options.pinned_memory_limit);
    let or_auto = |number: u64| if number == 0 { "auto".to_string() } else { number.to_string() };
    let device_batch = or_auto(options.device_pipelines.batch_bytes);
    let segment_rows = or_auto(options.segment_rows as u64);
    let codec = match options.codec.choice {
        None => "keep".to_string(),
        Some(CodecChoice::Auto) => "auto".to_string(),
        Some(CodecChoice::Fixed(codec)) => codec.to_string(),
    };
    let block = options.codec.block_bytes.map_or("auto".to_string(), |bytes| bytes.to_string());
    let entries = [
        (
            "warpmill.chunk_rows",
            options.chunk_rows.to_string(),
            "Rows that the CPU back end processes at a time (a power of two up to 2048; small values are for tests)",
        ),
        (
            "warpmill.cluster",
            options.cluster.clone(),
            "Sort order of written tables: column names, or auto (the columns with the fewest distinct values)",
        ),
        (
            "warpmill.codec",
            codec,
            "Compression of written tables: keep, none, lz4, snappy, zstd, deflate, gdeflate or auto",
        ),
        ("warpmill.codec_block", block, "Bytes of a compressed block before compression, or auto"),
        (
            "warpmill.codec_light",
            switch(options.codec.light),
            "Store each compressed column a second time without compression, so that queries read whichever is faster",
        ),
        (
            "warpmill.representation",
            name_of(&REPRESENTATIONS, &options.representation).to_string(),
            "Form in which columns are copied to a device for a run: light (without codec), heavy (compressed; the device decompresses), heavy_host (the host decompresses) or auto",
        ),
        (
            "warpmill.codec_objective",
            options.codec.objective.name().to_string(),
            "Goal of codec = 'auto': time (fast scans), size or balanced",
        ),
        (
            "warpmill.codec_sample",
            options.codec.sample.to_string(),
            "Fraction of a column's bytes that codec = 'auto' compresses on trial",
        ),
        (
            "warpmill.compaction",
            options.compaction_name().to_string(),
            "When the CPU back end merges chunks with few rows left: none, full, binary, logical, learning or smart",
        ),
        (
            "warpmill.device",
            options.device_name(),
            "Where queries run: auto, cpu, gpu, gpu:0,1 (GPUs by number), sim or sim:4 (simulated devices)",
        ),
        (
            "warpmill.placement",
            name_of(&PLACEMENTS, &(options.placement, options.claim_unit)).to_string(),
            "How work is divided between the CPU and devices: auto, program, segment or range (for comparisons: segment_ungrouped, operator_by_data, operator_by_cost)",
        ),
        (
            "warpmill.debug.placement_seed",
            options.placement_seed.map_or("off".to_string(), |seed| seed.to_string()),
            "Seed for assigning row segments to the CPU and devices at random (for tests)",
        ),
        (
            "warpmill.debug.first_runs",
            name_of(&FIRST_RUNS, &options.first_runs).to_string(),
            "Where a query runs whose kernels are not compiled yet: device (waits for the compiler), cpu (the device is prepared meanwhile) or auto",
        ),
        (
            "warpmill.debug.plan_templates",
            switch(options.plan_templates),
            "Reuse plans for statements that differ in constants only, while plan_cache is on (off: for measurements)",
        ),
        (
            "warpmill.debug.least_marked",
            options.least_marked.to_string(),
            "Number of rows from which on a row segment keeps its deleted rows, marked, if they are at most half of it (for tests)",
        ),
        (
            "warpmill.device_data",
            name_of(&DATA_SOURCES, &options.device_data).to_string(),
            "Where the data of queries on a device is kept before they run: cache (device memory), mirrored, pinned, host or disk",
        ),
        (
            "warpmill.device_cache_policy",
            name_of(&Policy::ALL, &options.mirror.policy).to_string(),
            "Which segments stay in device memory with device_data = 'mirrored': semantic, lru_column, lfu_column, lru2_column, lru_segment, lfu_segment or lru2_segment",
        ),
        (
            "warpmill.device_cache_limit",
            limit(options.mirror.limit as usize),
            "Bytes of device memory for segments of mirrored data; unlimited: three quarters of the usable memory",
        ),
        (
            "warpmill.device_cache_every",
            options.mirror.every.to_string(),
            "Number of runs after which the segments of mirrored data in device memory are chosen again",
        ),
        (
            "warpmill.device_partitions",
            options.device_partitions.to_string(),
            "Number of parts in which a device builds every hash table (for tests); 0: chosen by the memory available",
        ),
        (
            "warpmill.device_join",
            name_of(&JOINS, &options.device_join).to_string(),
            "Strategy for joins whose hash table does not fit device memory: auto, partitioned, hybrid, fallback, naive or cpu",
        ),
        (
            "warpmill.device_exchange",
            name_of(&EXCHANGES, &options.device_exchange).to_string(),
            "How devices that share a query get data that several of them need: auto (from each other), staged (through host memory) or off (each from the host)",
        ),
        (
            "warpmill.device_replication",
            name_of(&REPLICATIONS, &options.mirror.replication).to_string(),
            "Whether mirrored data that several devices read is copied to all of them: auto, always or never",
        ),
        (
            "warpmill.device_pipelines",
            options.device_pipelines.count.to_string(),
            "Number of batches in flight while data larger than device memory is streamed through it; 0: automatic",
        ),
        ("warpmill.device_batch", device_batch, "Bytes of a batch of data streamed through device memory, or auto"),
        (
            "warpmill.device_overlap",
            switch(options.device_overlap),
            "Prepare the next batch while a device's kernels run (off: for measurements)",
        ),
        (
            "warpmill.device_fallback",
            options.device_fallback.name().to_string(),
            "Queries that the chosen device cannot run: allow (the CPU runs them) or error",
        ),
        ("warpmill.direct_io", switch(options.direct_io), "Align all written chunks to 4096 bytes, for direct I/O"),
        (
            "warpmill.fallback",
            options.fallback.name().to_string(),
            "Operators that Warpmill does not have: allow (DataFusion runs them) or error",
        ),
        (
            "warpmill.file_access",
            name_of(&FILE_ACCESS, &options.file_access).to_string(),
            "How files of tables are read: map (memory-mapped) or read (copied into memory that counts in memory_limit)",
        ),
        ("warpmill.gpu_memory_limit", gpu_memory_limit, "Bytes of GPU memory that may be used"),
        (
            "warpmill.io_bandwidth_limit",
            io_bandwidth_limit,
            "Most bytes per second read from files with device_data = 'disk'",
        ),
        (
            "warpmill.pinned_memory_limit",
            pinned_memory_limit,
            "Bytes of page-locked host memory for copies of a device's data",
        ),
        ("warpmill.equal_hashes", switch(options.equal_hashes), "Make all hashes equal (for tests)"),
        ("warpmill.join_order", switch(options.join_order), "Reorder joins by estimated cardinality"),
        (
            "warpmill.memory_limit",
            memory_limit,
            "Bytes that a query may hold in hash tables, groups, sorts and decompressed data",
        ),
        (
            "warpmill.column_cache",
            switch(options.column_cache),
            "Cache columns of local Parquet files that queries have read, for later queries",
        ),
        (
            "warpmill.column_cache_limit",
            column_cache::limit().to_string(),
            "Bytes of the process's cache of columns of Parquet files and DuckDB tables",
        ),
        ("warpmill.plan_cache", switch(options.plan_cache), "Reuse the plans of repeated queries"),
        (
            "warpmill.progress",
            options.progress.name().to_string(),
            "When the progress of long queries is shown: off, on, or auto (in the shell, on the command line and in notebooks)",
        ),
        (
            "warpmill.profile",
            name_of(&PROFILES, &options.profile).to_string(),
            "Profile that results carry: off, on, or kernels (also times a device's kernels)",
        ),
        (
            "warpmill.pruning",
            name_of(&PRUNING, &options.pruning).to_string(),
            "Metadata by which scans skip rows: none, minmax (least and greatest values) or all (also histograms and Bloom filters)",
        ),
        (
            "warpmill.pruning_metadata",
            name_of(&Metadata::NAMES, &options.pruning_metadata).to_string(),
            "Metadata stored with written tables, for pruning: auto, none, minmax, histogram, bloom or all",
        ),
        ("warpmill.segment_rows", segment_rows, "Rows of a segment in written tables (a multiple of 1024), or auto"),
        (
            "warpmill.sideways",
            options.sideways.clone(),
            "Attributes of joined tables for which written tables store pruning metadata: table.column=other.key:attribute,...; ...",
        ),
        (
            "warpmill.spill",
            switch(options.spill),
            "Write rows that exceed memory_limit to temporary files (off: the query fails)",
        ),
        (
            "warpmill.storage_bandwidth",
            options.codec.storage_bandwidth.to_string(),
            "Bytes per second at which tables are read from storage, as codec = 'auto' assumes",
        ),
        ("warpmill.temp_directory", options.temp_directory.clone(), "Folder of temporary files; empty: the system's"),
        (
            "warpmill.temp_directory_limit",
            temp_directory_limit,
            "Bytes that a query's temporary files may take together",
        ),
        ("warpmill.threads", options.threads.to_string(), "Worker threads (0: all cores)"),
        (
            "warpmill.keep_versions",
            options.keep_versions.to_string(),
            "Number of versions of a table that stay readable after a write",
        ),
        (
            "warpmill.zone_rows",
            options.zone_rows.to_string(),
            "Rows of a zone of pruning metadata in written tables (a multiple of 1024)",
        ),
    ];
    let entry = |(key, value, description): (&str, String, &'static str)| ConfigEntry {
        key: key.to_string(),
        value: Some(value),
        description,
    };
    entries.into_iter().map(entry).chain(options.remote.entries()).chain(options.workers.entries()).collect()
}
