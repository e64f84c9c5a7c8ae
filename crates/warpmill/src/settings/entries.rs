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
        ("warpmill.chunk_rows", options.chunk_rows.to_string(), "Rows of a full chunk"),
        (
            "warpmill.cluster",
            options.cluster.clone(),
            "Columns, or auto: what rows of tables that are written are sorted by",
        ),
        ("warpmill.codec", codec, "How tables that are written are compressed"),
        ("warpmill.codec_block", block, "Uncompressed bytes of a codec's block"),
        ("warpmill.codec_light", switch(options.codec.light), "Store what is compressed without its codec as well"),
        (
            "warpmill.representation",
            name_of(&REPRESENTATIONS, &options.representation).to_string(),
            "auto, light, heavy or heavy_host: which form of columns passes through a device's memory",
        ),
        (
            "warpmill.codec_objective",
            options.codec.objective.name().to_string(),
            "time, size or balanced: what codec = 'auto' chooses for",
        ),
        ("warpmill.codec_sample", options.codec.sample.to_string(), "The part of a column that codec = 'auto' samples"),
        ("warpmill.compaction", options.compaction_name().to_string(), "When small chunks are copied together"),
        ("warpmill.device", options.device_name(), "auto, cpu, gpu, gpu:0,1, sim or sim:4: where queries run"),
        (
            "warpmill.placement",
            name_of(&PLACEMENTS, &(options.placement, options.claim_unit)).to_string(),
            "auto, program, segment (or a baseline: segment_ungrouped, operator_by_data, operator_by_cost): the unit in which work is given to the CPU and to devices",
        ),
        (
            "warpmill.debug.placement_seed",
            options.placement_seed.map_or("off".to_string(), |seed| seed.to_string()),
            "A seed by which row segments of shared pipelines are given to sites at random (for tests)",
        ),
        (
            "warpmill.debug.first_runs",
            name_of(&FIRST_RUNS, &options.first_runs).to_string(),
            "auto, device or cpu: which runs a program for which a device has to be opened, or to compile kernels first; auto: the CPU, with device = 'auto'",
        ),
        (
            "warpmill.debug.plan_templates",
            switch(options.plan_templates),
            "Keep optimized plans for statements with other constants, while plan_cache is on (off: for measurements)",
        ),
        (
            "warpmill.device_data",
            name_of(&DATA_SOURCES, &options.device_data).to_string(),
            "cache, mirrored, pinned, host or disk: where the data of a device's programs is",
        ),
        (
            "warpmill.device_cache_policy",
            name_of(&Policy::ALL, &options.mirror.policy).to_string(),
            "Which segments of mirrored data have copies in device memory: lru, lfu or lru2, each _column or _segment, or semantic",
        ),
        ("warpmill.device_cache_limit", limit(options.mirror.limit as usize), "Bytes of such copies"),
        (
            "warpmill.device_cache_every",
            options.mirror.every.to_string(),
            "Queries between replacements of such copies",
        ),
        (
            "warpmill.device_partitions",
            options.device_partitions.to_string(),
            "Parts in which a device makes hash tables, whatever their size (for tests); 0: as memory asks for",
        ),
        (
            "warpmill.device_join",
            name_of(&JOINS, &options.device_join).to_string(),
            "auto, partitioned, hybrid, fallback, naive or cpu: how joins are done of which hash builds do not fit a device",
        ),
        (
            "warpmill.device_exchange",
            name_of(&EXCHANGES, &options.device_exchange).to_string(),
            "auto, staged or off: whether devices with parts of a query copy what several of them need from each other",
        ),
        (
            "warpmill.device_replication",
            name_of(&REPLICATIONS, &options.mirror.replication).to_string(),
            "auto, always or never: whether mirrored data that several devices read has copies on all of them",
        ),
        (
            "warpmill.device_pipelines",
            options.device_pipelines.count.to_string(),
            "Batches of data that passes through a device which are on their way at once; 0: as many as overlap",
        ),
        ("warpmill.device_batch", device_batch, "Bytes of such a batch"),
        (
            "warpmill.device_overlap",
            switch(options.device_overlap),
            "Make batches ready while a device's kernels work (off: for measurements)",
        ),
        (
            "warpmill.device_fallback",
            options.device_fallback.name().to_string(),
            "allow: the CPU runs what the chosen device cannot; error: refuse",
        ),
        ("warpmill.direct_io", switch(options.direct_io), "Align all chunks that are written for direct I/O"),
        (
            "warpmill.fallback",
            options.fallback.name().to_string(),
            "allow: DataFusion runs what Warpmill does not; error: refuse",
        ),
        (
            "warpmill.file_access",
            name_of(&FILE_ACCESS, &options.file_access).to_string(),
            "map or read: how the bytes of tables' files come into memory",
        ),
        ("warpmill.gpu_memory_limit", gpu_memory_limit, "Bytes of GPU memory that may be used"),
        (
            "warpmill.io_bandwidth_limit",
            io_bandwidth_limit,
            "Bytes per second that a device's data is read with from files",
        ),
        (
            "warpmill.pinned_memory_limit",
            pinned_memory_limit,
            "Bytes of page-locked memory that copies of a device's data may take",
        ),
        ("warpmill.equal_hashes", switch(options.equal_hashes), "Make all hashes equal (for tests)"),
        ("warpmill.join_order", switch(options.join_order), "Reorder joins by estimated cardinality"),
        ("warpmill.memory_limit", memory_limit, "Bytes that a query may hold in pipeline breakers"),
        (
            "warpmill.column_cache",
            switch(options.column_cache),
            "Keep columns of Parquet files that queries have read, encoded as those of tables",
        ),
        (
            "warpmill.column_cache_limit",
            column_cache::limit().to_string(),
            "Bytes of columns of files, and of DuckDB's tables, that are kept in the process",
        ),
        ("warpmill.plan_cache", switch(options.plan_cache), "Keep the plans of repeated queries"),
        (
            "warpmill.progress",
            options.progress.name().to_string(),
            "off, on or auto: whether the progress of queries is shown on a terminal or in a notebook; auto: in the shell, on the command line and in notebooks",
        ),
        ("warpmill.profile", name_of(&PROFILES, &options.profile).to_string(), "off, on or kernels: what results tell"),
        (
            "warpmill.pruning",
            name_of(&PRUNING, &options.pruning).to_string(),
            "none, minmax or all: what scans skip rows by",
        ),
        (
            "warpmill.pruning_metadata",
            name_of(&Metadata::NAMES, &options.pruning_metadata).to_string(),
            "auto, none, minmax, histogram, bloom or all: metadata of tables that are written",
        ),
        ("warpmill.segment_rows", segment_rows, "Rows of a segment in tables that are written"),
        (
            "warpmill.sideways",
            options.sideways.clone(),
            "Attributes of other tables of which tables that are written get metadata",
        ),
        ("warpmill.spill", switch(options.spill), "Put aside in temporary files what exceeds the memory limit"),
        (
            "warpmill.storage_bandwidth",
            options.codec.storage_bandwidth.to_string(),
            "Bytes per second of the storage, for the cost model",
        ),
        ("warpmill.temp_directory", options.temp_directory.clone(), "Where temporary files are made"),
        (
            "warpmill.temp_directory_limit",
            temp_directory_limit,
            "Bytes that a query's temporary files may take together",
        ),
        ("warpmill.threads", options.threads.to_string(), "Worker threads (0: all cores)"),
        ("warpmill.keep_versions", options.keep_versions.to_string(), "Versions of a table that stay readable"),
        ("warpmill.zone_rows", options.zone_rows.to_string(), "Rows that pruning metadata is about"),
    ];
    let entry = |(key, value, description): (&str, String, &'static str)| ConfigEntry {
        key: key.to_string(),
        value: Some(value),
        description,
    };
    entries.into_iter().map(entry).chain(options.remote.entries()).chain(options.workers.entries()).collect()
}
