//! Deletions and updates of rows, in memory and on disk, compared with a list of the expected rows.

use super::*;
use crate::pruning::{Metadata, of_segment};

/// A small deterministic generator of numbers.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn options(metadata: Metadata) -> WriteOptions {
    WriteOptions { metadata, zone_rows: 1024, segment_rows: 2048, ..small() }
}

/// Asserts rows given by the numbers from which they are made: `rows(number, 1)`.
fn assert_rows(snapshot: &TableSnapshot, numbers: &[usize], names: &[usize]) {
    snapshot.verify().unwrap();
    assert_eq!(snapshot.num_rows(), numbers.len() as u64);
    for c in 0..snapshot.schema().fields().len() {
        let of = if snapshot.schema().field(c).name() == "name" { names } else { numbers };
        let wanted: Vec<_> = of.iter().flat_map(|&number| expected(rows(number, 1).column(c))).collect();
        assert!(column(snapshot, c) == wanted, "column {}", snapshot.schema().field(c).name());
        let (stats, nulls) = (snapshot.column_stats(c), wanted.iter().filter(|value| value.is_none()).count() as u64);
        assert_eq!(stats.rows, snapshot.stored_rows());
        assert!(if snapshot.has_deletions() { stats.nulls >= nulls } else { stats.nulls == nulls });
    }
    assert_zones(snapshot);
}

/// Asserts that the metadata match the values, as if computed now.
fn assert_zones(snapshot: &TableSnapshot) {
    for map in snapshot.zone_maps() {
        for c in 0..snapshot.schema().fields().len() {
            let Some(found) = map.column(snapshot, c).unwrap() else { continue };
            let mut zone = 0;
            for s in map.segments() {
                let segment = snapshot.segment(s, c).unwrap();
                for own in of_segment(&segment, map.zone_rows(), Metadata::MinMax) {
                    let code = |rank: i128| match &found.remap {
                        Some(remap) => i128::from(remap[rank as usize]),
                        None => rank,
                    };
                    let bounds = found.zones.bounds(zone).map(|(lo, hi)| (code(lo), code(hi)));
                    assert_eq!(bounds, own.bounds, "column {c}, segment {s}, zone {zone}");
                    assert_eq!(found.zones.has_nulls(zone), own.nulls);
                    zone += 1;
                }
            }
            assert_eq!(zone, found.zones.len());
        }
    }
}

/// The numbers of the stored rows that are not deleted.
fn stored_places(snapshot: &TableSnapshot) -> Vec<u64> {
    let (mut places, mut first) = (vec![], 0);
    for segment in 0..snapshot.num_segments() {
        let rows = snapshot.segment_rows(segment);
        let deleted = snapshot.deleted(segment).unwrap();
        let kept = (0..rows).filter(|&row| deleted.is_none_or(|deleted| !deleted.get(row)));
        places.extend(kept.map(|row| first + row as u64));
        first += rows as u64;
    }
    places
}

fn strike(table: &Arc<Table>, metadata: Metadata, least_marked: usize, seed: u64) {
    let mut draw = Draw(seed);
    let count = 9000;
    let options = |metadata: Metadata| WriteOptions { least_marked, ..options(metadata) };
    let mut marked = false;
    let mut writer = table.append(options(metadata)).unwrap();
    writer.write(&rows(0, count)).unwrap();
    writer.commit().unwrap();
    let mut numbers: Vec<usize> = (0..count).collect();
    let mut names = numbers.clone();
    let name = rows(0, 0).schema().index_of("name").unwrap();
    for step in 0..12 {
        let mut writer = table.append(options(metadata)).unwrap();
        let base = Arc::clone(writer.base().unwrap());
        assert_eq!(base.num_rows(), numbers.len() as u64);
        let places = stored_places(&base);
        let one = draw.below(2) == 0;
        let all: Vec<usize> = (0..base.schema().fields().len()).collect();
        let mut changes = Changes::new(&base, if one { vec![name] } else { all.clone() });
        // A part of the table, so that some row segments stay unchanged.
        let (from, to) = (draw.below(numbers.len() as u64) as usize, numbers.len());
        let to = (from + 1 + draw.below(4000) as usize).min(to);
        let fresh = 20_000 + 5000 * step;
        let batch = rows(fresh, to - from);
        let values: Vec<ArrayRef> = if one { vec![batch.column(name).clone()] } else { batch.columns().to_vec() };
        let values = changes.add_values(&values).unwrap();
        let kind = draw.below(3);
        let mut gone = vec![];
        for row in from..to {
            if kind == 0 || (kind == 1 && draw.below(3) == 0) {
                assert!(changes.delete(places[row]));
                assert!(!changes.delete(places[row]));
                gone.push(row);
            } else if draw.below(2) == 0 {
                assert!(changes.update(places[row], values, row - from));
                names[row] = fresh + row - from;
                if !one {
                    numbers[row] = fresh + row - from;
                }
            }
        }
        for row in gone.into_iter().rev() {
            numbers.remove(row);
            names.remove(row);
        }
        writer.change(&changes).unwrap();
        if draw.below(2) == 0 {
            writer.write(&rows(100_000 + 10 * step, 10)).unwrap();
            numbers.extend(100_000 + 10 * step..100_010 + 10 * step);
            names.extend(100_000 + 10 * step..100_010 + 10 * step);
        }
        let committed = writer.commit().unwrap();
        marked |= committed.has_deletions();
        assert_rows(&committed, &numbers, &names);
        // Readers of the version before are not affected.
        base.verify().unwrap();
        if let Some(path) = table.path() {
            assert_rows(&Table::open(path).unwrap().snapshot().unwrap(), &numbers, &names);
        }
    }
    let mut writer = table.append(options(metadata)).unwrap();
    let (before, had_deletions) = (writer.base().unwrap().num_segments(), writer.base().unwrap().has_deletions());
    let any = writer.merge_small(0).unwrap();
    let merged = writer.commit().unwrap();
    assert_eq!(merged.num_segments() < before || had_deletions, any);
    assert!(!merged.has_deletions());
    assert_eq!(marked, least_marked < 4096);
    assert_rows(&merged, &numbers, &names);
    let mut writer = table.append(options(metadata)).unwrap();
    let mut changes = Changes::new(writer.base().unwrap(), vec![]);
    changes.delete_all();
    writer.change(&changes).unwrap();
    assert_rows(&writer.commit().unwrap(), &[], &[]);
    let mut writer = table.append(options(metadata)).unwrap();
    writer.write(&rows(7, 3)).unwrap();
    assert_rows(&writer.commit().unwrap(), &[7, 8, 9], &[7, 8, 9]);
}

#[test]
fn random_changes() {
    let cases = [(1, Metadata::Auto, 1), (2, Metadata::All, 8192), (3, Metadata::None, 1), (4, Metadata::All, 1)];
    for (seed, metadata, least_marked) in cases {
        strike(&Table::in_memory(rows(0, 0).schema()), metadata, least_marked, seed);
        let dir = tempfile::tempdir().unwrap();
        let table = Table::create(&dir.path().join("t"), rows(0, 0).schema()).unwrap();
        strike(&table, metadata, least_marked, seed);
    }
}

#[test]
fn rows_have_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::create(&dir.path().join("t"), rows(0, 0).schema()).unwrap();
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(0, 3000)).unwrap();
    let numbered = writer.commit().unwrap().numbered("row").unwrap();
    let last = numbered.schema().fields().len() - 1;
    let numbers: Vec<_> = (0..3000).map(|row| Some(row.to_string())).collect();
    assert_eq!(column(&numbered, last), numbers);
    for s in 0..numbered.num_segments() {
        let made = numbered.segment(s, last).unwrap();
        assert_eq!(made.encoding(), numbered.segment_encoding(s, last));
        let (own, said) = (made.stats(), numbered.segment_stats(s, last));
        assert_eq!((&own.min, &own.max, own.nulls), (&said.min, &said.max, said.nulls));
    }
}

#[test]
fn values_that_do_not_fit_change_nothing() {
    let table = Table::in_memory(rows(0, 0).schema());
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(0, 10)).unwrap();
    let base = writer.commit().unwrap();
    let mut changes = Changes::new(&base, vec![0]);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    assert!(changes.add_values(&[null]).unwrap_err().to_string().contains("NOT NULL"));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    assert!(changes.add_values(&[text]).unwrap_err().to_string().contains("id"));
    assert!(changes.is_empty());
}

#[test]
fn versions_that_are_kept_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::create(&dir.path().join("t"), rows(0, 0).schema()).unwrap();
    let keeping = || WriteOptions { keep_versions: 3, ..small() };
    for step in 0..6 {
        let mut writer = table.append(keeping()).unwrap();
        writer.write(&rows(10 * step, 10)).unwrap();
        writer.commit().unwrap();
    }
    let counts: Vec<_> = (1..=8).map(|version| table.snapshot_at(version).map(|found| found.num_rows()).ok()).collect();
    assert_eq!(counts, [None, None, None, None, Some(40), Some(50), Some(60), None]);
    assert!(table.snapshot_at(2).unwrap_err().to_string().contains("5, 6, 7"));
    table.snapshot_at(5).unwrap().verify().unwrap();
    // Keeping one version means one, and the one before until the next write.
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(0, 1)).unwrap();
    writer.commit().unwrap();
    let there: Vec<_> = (1..=8).filter(|version| table.snapshot_at(*version).is_ok()).collect();
    assert_eq!(there, [7, 8]);
}
