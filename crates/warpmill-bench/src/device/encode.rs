//! Packs benchmark columns on the host, from the specification of the format alone (docs/format.md, section 5): the kernels' output is checked
//! against the original values.

const VECTOR: usize = 1024;
const BLOCK: usize = 128;
const TILE: usize = 512;

/// Lane-packed fields of one width.
pub(crate) struct LaneColumn {
    pub words: Vec<u32>,
    pub width: u32,
    pub reference: u32,
}

/// Lane-packed deltas.
pub(crate) struct DeltaColumn {
    pub words: Vec<u32>,
    pub width: u32,
    pub step: u32,
    pub base_bytes: u32,
    /// In words, the last one padded.
    pub bases: Vec<u32>,
    /// i128 each.
    pub references: Vec<u32>,
}

/// Lane-packed run lengths.
pub(crate) struct RleColumn {
    pub starts: Vec<u32>,
    pub ends: LaneColumn,
    pub values: LaneColumn,
    pub runs: u32,
}

/// One stream of a published scheme.
pub(crate) struct TileStream {
    pub starts: Vec<u32>,
    pub data: Vec<u32>,
}

fn bits(x: u32) -> u32 {
    32 - x.leading_zeros()
}

/// Appends a packed vector; `row(l, j)` is the row of field `j` of lane `l`.
fn pack_vector(fields: &[u32], width: u32, row: fn(usize, usize) -> usize, out: &mut Vec<u32>) {
    let (w, start) = (width as usize, out.len());
    out.resize(start + 32 * w, 0);
    let packed = &mut out[start..];
    let quads = w / 4;
    let place = |k: usize, l: usize| match k {
        _ if k < 4 * quads => 128 * (k / 4) + 4 * l + k % 4,
        _ if w & 2 != 0 && k < 4 * quads + 2 => 128 * quads + 2 * l + (k - 4 * quads),
        _ => 32 * (w - 1) + l,
    };
    for l in 0..32 {
        for j in 0..32 {
            let field = u64::from(fields.get(row(l, j)).copied().unwrap_or(0));
            let (k, shift) = (j * w / 32, j * w % 32);
            let both = field << shift;
            if w > 0 {
                packed[place(k, l)] |= both as u32;
            }
            if shift + w > 32 {
                packed[place(k + 1, l)] |= (both >> 32) as u32;
            }
        }
    }
}

fn striped(l: usize, j: usize) -> usize {
    128 * (j / 4) + 4 * l + j % 4
}

fn blocked(l: usize, j: usize) -> usize {
    32 * l + j
}

/// Frame of reference.
pub(crate) fn lane_for(values: &[u32]) -> LaneColumn {
    let reference = *values.iter().min().expect("values");
    let width = bits(values.iter().max().expect("values") - reference);
    let fields: Vec<u32> = values.iter().map(|x| x - reference).collect();
    let mut words = vec![];
    fields.chunks(VECTOR).for_each(|vector| pack_vector(vector, width, striped, &mut words));
    LaneColumn { words, width, reference }
}

/// Deltas; `values` fill whole vectors.
pub(crate) fn lane_delta(values: &[u32]) -> DeltaColumn {
    let deltas = || {
        let pairs = values.chunks(32).flat_map(|lane| lane.windows(2));
        pairs.map(|pair| i64::from(pair[1]) - i64::from(pair[0]))
    };
    let (step, most) = (deltas().min().unwrap_or(0), deltas().max().unwrap_or(0));
    let width = bits((most - step) as u32);
    let minimum = |vector: &[u32]| *vector.iter().min().expect("values");
    let span = values.chunks(VECTOR).map(|vector| vector.iter().max().expect("values") - minimum(vector)).max();
    let base_bytes = match span.unwrap_or(0) {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    };
    let (mut words, mut bases, mut references) = (vec![], vec![], vec![]);
    for vector in values.chunks(VECTOR) {
        let reference = minimum(vector);
        references.extend([reference, 0, 0, 0]);
        let mut fields = vec![0; vector.len()];
        for (l, lane) in vector.chunks(32).enumerate() {
            bases.extend_from_slice(&(lane[0] - reference).to_le_bytes()[..base_bytes as usize]);
            for (j, pair) in lane.windows(2).enumerate() {
                fields[32 * l + j + 1] = (i64::from(pair[1]) - i64::from(pair[0]) - step) as u32;
            }
        }
        pack_vector(&fields, width, blocked, &mut words);
    }
    let bases = bases.chunks(4).map(|b| u32::from_le_bytes(std::array::from_fn(|i| b.get(i).copied().unwrap_or(0))));
    DeltaColumn { words, width, step: step as u32, base_bytes, bases: bases.collect(), references }
}

/// Run lengths.
pub(crate) fn lane_rle(values: &[u32]) -> RleColumn {
    let (mut starts, mut ends, mut heads) = (vec![0], vec![], vec![]);
    for vector in values.chunks(VECTOR) {
        let mut row = 0;
        for run in vector.chunk_by(|a, b| a == b) {
            row += run.len() as u32;
            ends.push(row - 1);
            heads.push(run[0]);
        }
        starts.push(ends.len() as u32);
    }
    RleColumn { starts, runs: ends.len() as u32, ends: lane_for(&ends), values: lane_for(&heads) }
}

impl TileStream {
    fn new() -> Self {
        // Four header words; decoders ignore them.
        Self { starts: vec![], data: vec![0; 4] }
    }

    /// Packs one block in miniblocks of `mini` entries.
    fn block(&mut self, entries: &[u32], mini: usize, counted: bool) {
        self.starts.push(self.data.len() as u32);
        let reference = *entries.iter().min_by_key(|&&x| x as i32).expect("entries");
        let offsets: Vec<u32> = entries.iter().map(|x| x.wrapping_sub(reference)).collect();
        let widths: Vec<u32> = offsets.chunks(mini).map(|m| bits(m.iter().fold(0, |all, x| all | x))).collect();
        self.data.push(reference);
        self.data.push(widths.iter().enumerate().fold(0, |word, (m, w)| word | w << (8 * m)));
        if counted {
            self.data.push(entries.len() as u32);
        }
        for (chunk, &width) in offsets.chunks(mini).zip(&widths) {
            let (mut acc, mut filled) = (0u64, 0);
            for i in 0..chunk.len().next_multiple_of(32) {
                acc |= u64::from(chunk.get(i).copied().unwrap_or(0)) << filled;
                filled += width;
                if filled >= 32 {
                    self.data.push(acc as u32);
                    (acc, filled) = (acc >> 32, filled - 32);
                }
            }
        }
    }

    fn finish(mut self) -> Self {
        self.starts.push(self.data.len() as u32);
        self.data.push(0);
        self
    }
}

/// GPU-FOR; `values` fill whole tiles.
pub(crate) fn gpu_for(values: &[u32]) -> TileStream {
    let mut stream = TileStream::new();
    values.chunks(BLOCK).for_each(|block| stream.block(block, 32, false));
    stream.finish()
}

/// GPU-DFOR; `values` fill whole tiles.
pub(crate) fn gpu_dfor(values: &[u32]) -> TileStream {
    let mut stream = TileStream::new();
    for tile in values.chunks(TILE) {
        stream.data.push(tile[0]);
        let deltas: Vec<u32> = (0..tile.len()).map(|i| tile[i].wrapping_sub(tile[i.saturating_sub(1)])).collect();
        deltas.chunks(BLOCK).for_each(|block| stream.block(block, 32, false));
    }
    stream.finish()
}

/// GPU-RFOR: run values and run lengths.
pub(crate) fn gpu_rfor(values: &[u32]) -> [TileStream; 2] {
    let (mut heads, mut lengths) = (TileStream::new(), TileStream::new());
    for tile in values.chunks(TILE) {
        let runs: Vec<&[u32]> = tile.chunk_by(|a, b| a == b).collect();
        let mini = runs.len().div_ceil(4).next_multiple_of(32);
        heads.block(&runs.iter().map(|run| run[0]).collect::<Vec<_>>(), mini, true);
        lengths.block(&runs.iter().map(|run| run.len() as u32).collect::<Vec<_>>(), mini, true);
    }
    [heads.finish(), lengths.finish()]
}
