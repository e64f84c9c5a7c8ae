// Column chunks of Parquet files, from the pages as they are stored to values that kernels read; needs value.cuh, lane.cuh, utf8.cuh,
// decompress.cuh, parquet_delta.cuh and parquet_text.cuh. What the host has made ready is described in warpmill-format/src/parquet_file/slice.rs.
//
// Three launches: pages are decompressed (a warp each), what finds values in them is written down (a warp each), and values are
// decoded (a warp per 1024). The host has checked that pages lie in their image, that their places lie in the work area, and that
// together they hold all rows. Everything within a page is checked here: no byte outside of it is touched, whatever it says. A page
// that is not what it should be raises ERROR_DATA, and its rows are NULL.

struct ParquetChunk {
    u32 pages;               // a dictionary included, which comes first
    u32 rows;
    u32 kind;
    u32 width;               // bytes of a stored value
    u32 made;                // bytes of a value that is made
    u32 flags;
    u32 entries;             // of the dictionary
    u32 tiles;
    u64 valid_at;            // in the work area: a bit per row
    u64 strings_at;          // in the work area: where in the dictionary its strings are
    u64 least[2];            // no integer is smaller (128 bits)
    u64 greatest[2];
    u64 room_at;             // in the work area: for strings that are made, behind 16 bytes that count what is taken
    u64 room_bytes;
};

enum ParquetKind : u32 {
    PARQUET_SIGNED = 0,
    PARQUET_UNSIGNED = 1,
    PARQUET_FLOAT = 2,
    PARQUET_BOOL = 3,
    PARQUET_BIG_ENDIAN = 4,
    PARQUET_TEXT = 5
};

enum ParquetFlag : u32 {
    PARQUET_DICTIONARY = 1,  // there is one
    PARQUET_NULLS = 2,       // some rows may be NULL
    PARQUET_LEVELS = 4       // pages say which
};

struct ParquetPage {
    u64 stored_at;           // in the image
    u64 made_at;             // in the work area, decompressed
    u64 masks_at;            // in the work area: a bit per value, set where it is not NULL
    u64 ranks_at;            // in the work area: values that are not NULL before each tile, and all of them; ~0: damaged
    u64 runs_at;             // in the work area: where the run of each tile's first value is; of strings that are no indices: where
                             // each is; of differences: the integers; of prefixes: see `parquet_prefixed`
    i64 first_row;           // its first value is this row of the segment; may lie before it
    u32 stored;
    u32 bytes;               // decompressed, levels of version 2 not included
    u32 codec;               // 0: none
    u32 encoding;
    u32 values;              // NULLs included
    u32 levels;              // bytes of levels of version 2
    u32 flags;
    u32 first_tile;
    u64 unused[2];
};

enum ParquetPageFlag : u32 { PARQUET_VERSION_2 = 1, PARQUET_IS_DICTIONARY = 2 };

enum ParquetEncoding : u32 {
    PARQUET_PLAIN = 0,
    PARQUET_DICTIONARY_OF_OLD = 2,
    PARQUET_RLE = 3,
    PARQUET_DELTAS = 5,
    PARQUET_LENGTHS = 6,     // differences, and then all strings
    PARQUET_PREFIXES = 7,    // the same of what strings do not share with the ones before, which comes first
    PARQUET_INDICES = 8,
    PARQUET_SPLIT = 9        // all first bytes of values, all second ones, ...
};

// Whether values are found by runs of numbers.
__device__ __forceinline__ bool parquet_has_runs(u32 encoding) {
    return encoding == PARQUET_RLE || encoding == PARQUET_INDICES || encoding == PARQUET_DICTIONARY_OF_OLD;
}

// A chunk of a batch.
struct ParquetTask {
    const u8* image;
    u8* work;
    u32 first_page;          // pages and tiles of the chunks before this one
    u32 first_tile;
};

struct ParquetParams {
    QueryState* state;
    const ParquetTask* tasks;
    u32 count;
    u32 pages;               // of all chunks
    u32 tiles;
    u32 unused;
};

__device__ __forceinline__ const ParquetChunk& parquet_chunk(const ParquetTask& t) { return *(const ParquetChunk*)t.image; }

__device__ __forceinline__ const ParquetPage& parquet_page(const ParquetTask& t, u32 page) {
    return ((const ParquetPage*)(t.image + sizeof(ParquetChunk)))[page];
}

// The chunk that page `at` is of.
__device__ inline const ParquetTask& parquet_task_of_page(const ParquetParams& p, u32 at) {
    u32 low = 0, high = p.count - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (p.tasks[middle].first_page <= at) low = middle;
        else high = middle - 1;
    }
    return p.tasks[low];
}

// The last chunk that begins at tile `at` or before it: chunks without tiles come before it or not at all.
__device__ inline const ParquetTask& parquet_task_of_tile(const ParquetParams& p, u32 at) {
    u32 low = 0, high = p.count - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (p.tasks[middle].first_tile <= at) low = middle;
        else high = middle - 1;
    }
    return p.tasks[low];
}

// The bytes of a page: levels and values.
struct ParquetBody {
    const u8* levels;
    const u8* values;
    u32 level_bytes;
    u32 value_bytes;
    bool sound;
};

__device__ inline ParquetBody parquet_body(const ParquetTask& t, const ParquetPage& page) {
    const u8* const stored = t.image + page.stored_at;
    ParquetBody body = {stored, page.codec ? t.work + page.made_at : stored + page.levels, page.levels, page.bytes, true};
    const bool has_levels = parquet_chunk(t).flags & PARQUET_LEVELS;
    if (!has_levels || (page.flags & (PARQUET_VERSION_2 | PARQUET_IS_DICTIONARY))) return body;
    // Version 1 has levels in front of the values, behind their length.
    const u32 length = page.bytes >= 4 ? parquet_u32(body.values) : 0;
    if (page.bytes < 4 || length > page.bytes - 4) {
        body.sound = false;
        body.level_bytes = body.value_bytes = 0;
        return body;
    }
    body.levels = body.values + 4;
    body.level_bytes = length;
    body.values += 4 + length;
    body.value_bytes = page.bytes - 4 - length;
    return body;
}

// Runs of equal numbers and of packed ones, mixed: the hybrid encoding of levels and of dictionary indices.
struct ParquetRuns {
    const u8* data;
    u32 bytes;
    u32 width;               // bits of a number
    u32 head;                // where the header of this run is
    u32 at;                  // where the next one is
    u64 first;               // numbers before this run
    u64 count;               // its numbers
    u32 body;                // where packed numbers begin
    u32 value;               // the number of a run of equal ones
    bool packed;
};

__device__ __forceinline__ ParquetRuns parquet_runs(const u8* data, u32 bytes, u32 width, u32 at, u64 first) {
    return ParquetRuns{data, bytes, width, at, at, first, 0, 0, 0, false};
}

// Goes to the next run; false where there is none.
__device__ inline bool parquet_next_run(ParquetRuns& r) {
    r.first += r.count;
    r.count = 0;
    r.head = r.at;
    u64 header = 0;
    for (u32 shift = 0; shift < 35; shift += 7) {
        if (r.at >= r.bytes) return false;
        const u32 byte = r.data[r.at++];
        header |= (u64)(byte & 127) << shift;
        if (byte < 128) break;
        if (shift == 28) return false;
    }
    r.packed = header & 1;
    const u64 size = header >> 1;
    if (r.packed) {
        r.body = r.at;
        r.count = 8 * size;
        const u64 wanted = size * r.width, left = r.bytes - r.at;
        // The last run may end before its padding does.
        if (wanted > left) r.count = left * 8 / r.width;
        r.at += (u32)(wanted < left ? wanted : left);
        return r.count > 0 || r.at < r.bytes;
    }
    const u32 bytes = (r.width + 7) / 8;
    if (bytes > r.bytes - r.at) return false;
    r.value = 0;
    for (u32 i = 0; i < bytes; i++) r.value |= (u32)r.data[r.at + i] << (8 * i);
    r.at += bytes;
    r.count = size;
    return true;
}

// Number `index` of this run, counted from the run's first.
__device__ __forceinline__ u32 parquet_number(const ParquetRuns& r, u64 index) {
    if (!r.packed || r.width == 0) return r.packed ? 0 : r.value;
    const u64 bit = index * r.width;
    const u64 bits = parquet_u64(r.data + r.body + (bit >> 3)) >> (bit & 7);
    return (u32)bits & lane_field_mask(r.width);
}

// Up to 32 numbers of one bit from `index` of this run on.
__device__ __forceinline__ u32 parquet_bits(const ParquetRuns& r, u64 index, u32 count) {
    const u32 all = count == 32 ? ~0u : (1u << count) - 1;
    if (!r.packed) return r.value ? all : 0;
    return (u32)(parquet_u64(r.data + r.body + (index >> 3)) >> (index & 7)) & all;
}

extern "C" __global__ void __launch_bounds__(128) parquet_open(const ParquetParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < p.pages; at += warps) {
        const ParquetTask t = parquet_task_of_page(p, at);
        const ParquetChunk& chunk = parquet_chunk(t);
        const u32 number = at - t.first_page;
        const ParquetPage page = parquet_page(t, number);
        if (number == 0 && lane == 0 && chunk.room_bytes) *(u64*)(t.work + chunk.room_at) = 0;
        if (chunk.flags & PARQUET_NULLS) {
            // Each page's warp clears its share of the bits, not those of its own rows: pages share words.
            const u64 words = ((u64)chunk.rows + 63) / 64 * 2;
            u32* const valid = (u32*)(t.work + chunk.valid_at);
            const u64 end = words * (number + 1) / chunk.pages;
            for (u64 i = words * number / chunk.pages + lane; i < end; i += 32) valid[i] = 0;
        }
        // None, or a library for batches has undone it.
        if (page.codec != CODEC_LZ4 && page.codec != CODEC_SNAPPY) continue;
        Window w = window_open(t.image + page.stored_at + page.levels, page.stored - page.levels, lane);
        u8* const out = t.work + page.made_at;
        const u32 done = page.codec == CODEC_LZ4 ? lz4_block(w, out, page.bytes) : snappy_block(w, out, page.bytes);
        if (done != page.bytes) {
            if (lane == 0) raise(p.state, ERROR_DATA);
            // What is read of it is defined.
            for (u32 i = lane; i < page.bytes; i += 32) out[i] = 0;
        }
    }
}

// The levels of a page: masks and ranks. Gives how many values are not NULL, or ~0.
__device__ inline u32 parquet_levels(const ParquetTask& t, const ParquetPage& page, const ParquetBody& body, u32 lane) {
    u32* const masks = (u32*)(t.work + page.masks_at);
    u32* const ranks = (u32*)(t.work + page.ranks_at);
    const bool has_levels = parquet_chunk(t).flags & PARQUET_LEVELS;
    ParquetRuns runs = parquet_runs(body.levels, body.level_bytes, 1, 0, 0);
    u64 next = 0;
    u32 rank = 0;
    for (u32 v = 0; v < page.values; v += 32) {
        const u32 wanted = page.values - v < 32 ? page.values - v : 32;
        u32 mask = 0, found = has_levels ? 0 : wanted;
        while (found < wanted) {
            if (next == runs.first + runs.count) {
                if (!parquet_next_run(runs) || (!runs.packed && runs.value > 1)) return ~0u;
                continue;
            }
            const u64 left = runs.first + runs.count - next;
            const u32 take = left < wanted - found ? (u32)left : wanted - found;
            mask |= parquet_bits(runs, next - runs.first, take) << found;
            found += take;
            next += take;
        }
        if (!has_levels) mask = wanted == 32 ? ~0u : (1u << wanted) - 1;
        if (lane == 0) {
            if (has_levels) masks[v / 32] = mask;
            if (v % 1024 == 0) ranks[v / 1024] = rank;
        }
        rank += __popc(mask);
    }
    __syncwarp(FULL_WARP);
    return rank;
}

// The runs of a page's indices, or of its truth values.
__device__ inline bool parquet_index_runs(const ParquetPage& page, const ParquetBody& body, ParquetRuns& runs) {
    if (page.encoding == PARQUET_RLE) {
        const u32 length = body.value_bytes >= 4 ? parquet_u32(body.values) : 0;
        if (body.value_bytes < 4 || length > body.value_bytes - 4) return false;
        runs = parquet_runs(body.values + 4, length, 1, 0, 0);
        return true;
    }
    if (body.value_bytes < 1 || body.values[0] > 32) return false;
    runs = parquet_runs(body.values + 1, body.value_bytes - 1, body.values[0], 0, 0);
    return true;
}

// Writes down at which run each tile begins: where its header is, and the numbers before it.
__device__ inline bool parquet_index(const ParquetTask& t, const ParquetPage& page, const ParquetBody& body, u32 count,
                                     u32 lane) {
    const u32* const ranks = (const u32*)(t.work + page.ranks_at);
    u32* const starts = (u32*)(t.work + page.runs_at);
    const u32 tiles = (page.values + 1023) / 1024;
    ParquetRuns runs = {};
    if (count == 0) return true;
    if (!parquet_index_runs(page, body, runs)) return false;
    for (u32 tile = 0; tile < tiles && ranks[tile] < count;) {
        if (ranks[tile] >= runs.first + runs.count) {
            if (!parquet_next_run(runs)) return false;
            continue;
        }
        if (lane == 0) {
            starts[2 * tile] = runs.head;
            starts[2 * tile + 1] = (u32)runs.first;
        }
        tile++;
    }
    // The last tile's values are there, too.
    while (runs.first + runs.count < count)
        if (!parquet_next_run(runs)) return false;
    return true;
}

__device__ inline bool parquet_index_page(const ParquetTask& t, const ParquetPage& page, u32 lane, u32& count) {
    const ParquetChunk& chunk = parquet_chunk(t);
    const ParquetBody body = parquet_body(t, page);
    if (!body.sound) return false;
    if (page.flags & PARQUET_IS_DICTIONARY) {
        if (chunk.kind != PARQUET_TEXT) return true;
        u32* const places = (u32*)(t.work + chunk.strings_at);
        if (!parquet_strings(body.values, body.value_bytes, chunk.entries, places, lane)) return false;
        bool sound = true;
        for (u32 i = lane; i < chunk.entries; i += 32) {
            const Str text = parquet_str(body.values, body.value_bytes, places[i], sound);
            sound = sound && is_utf8(text);
        }
        return __all_sync(FULL_WARP, sound);
    }
    count = parquet_levels(t, page, body, lane);
    if (count == ~0u || (count < page.values && !(chunk.flags & PARQUET_NULLS))) return false;
    if (parquet_has_runs(page.encoding)) return parquet_index(t, page, body, count, lane);
    u8* const found = t.work + page.runs_at;
    if (page.encoding == PARQUET_DELTAS) {
        u32 end = 0;
        return count == 0 || parquet_deltas(body.values, body.value_bytes, end, count, chunk.width, found, lane);
    }
    if (page.encoding == PARQUET_LENGTHS) return parquet_lengths(body.values, body.value_bytes, count, (u32*)found, lane);
    if (page.encoding == PARQUET_PREFIXES) {
        return parquet_prefixed(body.values, body.value_bytes, count, page.values, chunk.width, t.work + chunk.room_at,
                                chunk.room_bytes, found, lane);
    }
    if (chunk.kind == PARQUET_TEXT) return parquet_strings(body.values, body.value_bytes, count, (u32*)found, lane);
    if (chunk.kind == PARQUET_BOOL) return ((u64)count + 7) / 8 <= body.value_bytes;
    return (u64)count * chunk.width <= body.value_bytes;
}

extern "C" __global__ void __launch_bounds__(128) parquet_index_pages(const ParquetParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < p.pages; at += warps) {
        const ParquetTask t = parquet_task_of_page(p, at);
        const ParquetPage page = parquet_page(t, at - t.first_page);
        u32 count = 0;
        const bool sound = parquet_index_page(t, page, lane, count);
        if (lane > 0) continue;
        if (!sound) raise(p.state, ERROR_DATA);
        if (page.flags & PARQUET_IS_DICTIONARY) continue;
        ((u32*)(t.work + page.ranks_at))[(page.values + 1023) / 1024] = sound ? count : ~0u;
    }
}

// Writes integer `value`, if it is one that statistics allow; false otherwise.
__device__ __forceinline__ bool parquet_integer(const ParquetChunk& chunk, u64 bits, u8* out) {
    const bool is_signed = chunk.kind == PARQUET_SIGNED;
    const u64 value = chunk.width == 8 ? bits : is_signed ? (u64)(i64)(i32)bits : (u64)(u32)bits;
    const bool within = is_signed ? (i64)value >= (i64)chunk.least[0] && (i64)value <= (i64)chunk.greatest[0]
                                  : value >= chunk.least[0] && value <= chunk.greatest[0];
    if (chunk.kind != PARQUET_FLOAT && !within) return false;
    if (chunk.made == 8) *(u64*)out = bits;
    else *(u32*)out = (u32)bits;
    return true;
}

// The decimal whose bytes are `stride` apart.
__device__ inline bool parquet_decimal(const ParquetChunk& chunk, const u8* from, u32 stride, u8* out) {
    u128 value = from[0] & 0x80 ? ~(u128)0 : 0;
    for (u32 i = 0; i < chunk.width; i++) value = value << 8 | from[(u64)i * stride];
    const i128 least = (i128)((u128)chunk.least[1] << 64 | chunk.least[0]);
    const i128 greatest = (i128)((u128)chunk.greatest[1] << 64 | chunk.greatest[0]);
    if ((i128)value < least || (i128)value > greatest) return false;
    ((u64*)out)[0] = (u64)value;
    if (chunk.made == 16) ((u64*)out)[1] = (u64)(value >> 64);
    return true;
}

// What the values of a tile come from.
struct ParquetSource {
    const u8* values;        // of the page, or of the dictionary
    u32 bytes;
    const u32* places;       // of strings
    u32 limit;               // values there are
    u32 encoding;            // of what `values` are
    bool checked;            // strings have been found to be UTF-8
};

// String `index` of `source`.
__device__ inline Str parquet_text(const ParquetSource& source, u32 index, bool& sound) {
    const bool apart = source.encoding == PARQUET_LENGTHS || source.encoding == PARQUET_PREFIXES;
    if (!apart) return parquet_str(source.values, source.bytes, source.places[index], sound);
    const u32 from = source.places[index], to = source.places[index + 1];
    sound = from <= to && to <= source.bytes;
    return sound ? Str{source.values + from, to - from} : Str{nullptr, 0};
}

// Value `index` of `source`, written to `out`; false where there is none, or it is not what it should be.
__device__ inline bool parquet_value(const ParquetChunk& chunk, const ParquetSource& source, u32 index, u8* out) {
    if (index >= source.limit) return false;
    if (chunk.kind == PARQUET_TEXT) {
        bool sound = true;
        const Str text = parquet_text(source, index, sound);
        if (!sound || (!source.checked && !is_utf8(text))) return false;
        *(Str*)out = text;
        return true;
    }
    if (chunk.kind == PARQUET_BOOL) {
        *out = source.values[index >> 3] >> (index & 7) & 1;
        return true;
    }
    const bool split = source.encoding == PARQUET_SPLIT;
    const u8* const from = source.values + (split ? index : (u64)index * chunk.width);
    if (chunk.kind == PARQUET_BIG_ENDIAN) return parquet_decimal(chunk, from, split ? source.limit : 1, out);
    if (split) {
        u64 bits = 0;
        for (u32 i = 0; i < chunk.width; i++) bits |= (u64)from[(u64)i * source.limit] << (8 * i);
        return parquet_integer(chunk, bits, out);
    }
    return parquet_integer(chunk, chunk.width == 8 ? parquet_u64(from) : parquet_u32(from), out);
}

// What rows hold that are NULL or damaged.
__device__ __forceinline__ void parquet_nothing(const ParquetChunk& chunk, u8* out) {
    if (chunk.made == 1) {
        *out = 0;
        return;
    }
    for (u32 i = 0; i < chunk.made; i += 4) *(u32*)(out + i) = 0;
}

// Adds the bits of 32 rows from `row` on, which may begin before the segment.
__device__ inline void parquet_valid(const ParquetChunk& chunk, u8* work, i64 row, u32 mask, u32 lane) {
    u32* const words = (u32*)(work + chunk.valid_at);
    const i64 word = (row >= 0 ? row : row - 31) / 32;
    const u32 shift = (u32)(row - 32 * word);
    const u32 bits = lane == 0 ? mask << shift : shift > 0 ? mask >> (32 - shift) : 0;
    const i64 at = word + lane;
    if (lane < 2 && bits != 0 && at >= 0 && at < ((i64)chunk.rows + 31) / 32) atomicOr(words + at, bits);
}

__device__ inline bool parquet_tile(const ParquetTask& t, const ParquetPage& page, u32 tile, u32 lane) {
    const ParquetChunk& chunk = parquet_chunk(t);
    const u32 first = tile * 1024, end = page.values - first < 1024 ? page.values : first + 1024;
    // Pages at the ends of the segment have rows outside of it.
    if (page.first_row + end <= 0 || page.first_row + first >= (i64)chunk.rows) return true;
    const u32* const masks = (const u32*)(t.work + page.masks_at);
    const u32* const ranks = (const u32*)(t.work + page.ranks_at);
    const u32 count = ranks[(page.values + 1023) / 1024];
    const ParquetBody body = parquet_body(t, page);
    bool sound = body.sound && count != ~0u;
    const bool runs_of_numbers = parquet_has_runs(page.encoding), bools = page.encoding == PARQUET_RLE;
    const u8* const found = t.work + page.runs_at;
    ParquetSource source = {body.values, body.value_bytes, (const u32*)found, sound ? count : 0, page.encoding, false};
    if (page.encoding == PARQUET_DELTAS) source.values = found;
    if (page.encoding == PARQUET_PREFIXES && source.limit > 0) {
        source.values = t.work + chunk.room_at + 16 + *(const u64*)found;
        source.places = (const u32*)(found + 16);
        source.bytes = source.places[count];
    }
    ParquetRuns runs = {};
    u64 rank = sound ? ranks[tile] : 0;
    if (runs_of_numbers && sound && rank < count) {
        const u32* const start = (const u32*)found + 2 * tile;
        sound = parquet_index_runs(page, body, runs);
        runs.at = start[0];
        runs.first = start[1];
        sound = sound && parquet_next_run(runs);
    }
    if (runs_of_numbers && !bools) {
        const ParquetPage& dictionary = parquet_page(t, 0);
        const ParquetBody entries = parquet_body(t, dictionary);
        const u32* const places = (const u32*)(t.work + chunk.strings_at);
        source = ParquetSource{entries.values, entries.value_bytes, places, chunk.entries, PARQUET_PLAIN, true};
    }
    for (u32 v = first; v < end; v += 32) {
        const u32 here = end - v < 32 ? end - v : 32;
        const u32 all = here == 32 ? ~0u : (1u << here) - 1;
        const u32 mask = !sound ? 0 : chunk.flags & PARQUET_LEVELS ? masks[v / 32] & all : all;
        const bool present = mask >> lane & 1;
        const u64 index = rank + __popc(mask & ((1u << lane) - 1));
        rank += __popc(mask);
        u32 number = (u32)index;
        if (runs_of_numbers && mask) {
            // Lanes wait for the run that their value is in.
            for (;;) {
                if (index >= runs.first && index < runs.first + runs.count) number = parquet_number(runs, index - runs.first);
                if (rank <= runs.first + runs.count) break;
                if (!parquet_next_run(runs)) {
                    sound = false;
                    break;
                }
            }
        }
        const i64 row = page.first_row + v + lane;
        const bool inside = lane < here && row >= 0 && row < (i64)chunk.rows;
        bool good = false;
        if (inside) {
            u8* const out = t.work + (u64)row * chunk.made;
            if (present && sound) {
                if (bools) *out = number & 1;
                good = bools || parquet_value(chunk, source, number, out);
            }
            if (!good) parquet_nothing(chunk, out);
        }
        const u32 valid = __ballot_sync(FULL_WARP, good), missing = __ballot_sync(FULL_WARP, inside && present && !good);
        if (chunk.flags & PARQUET_NULLS) parquet_valid(chunk, t.work, page.first_row + v, valid, lane);
        if (missing) sound = false;
    }
    return sound;
}

extern "C" __global__ void __launch_bounds__(256) parquet_decode(const ParquetParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < p.tiles; at += warps) {
        const ParquetTask t = parquet_task_of_tile(p, at);
        const ParquetChunk& chunk = parquet_chunk(t);
        const u32 tile = at - t.first_tile;
        u32 low = 0, high = chunk.pages - 1;
        while (low < high) {
            const u32 middle = (low + high + 1) / 2;
            if (parquet_page(t, middle).first_tile <= tile) low = middle;
            else high = middle - 1;
        }
        const ParquetPage page = parquet_page(t, low);
        if (!parquet_tile(t, page, tile - page.first_tile, lane) && lane == 0) raise(p.state, ERROR_DATA);
    }
}
