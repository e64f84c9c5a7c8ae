//! Mutated tables: with any change to a file, a read returns the rows that were written, or an error; nothing panics, and no memory is allocated by a
//! file's claims alone. `WARPMILL_MUTATIONS` sets the number of mutations (default 2000), `WARPMILL_MUTATION_SEED` their seed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::pruning::Metadata;
use crate::{Codec, CodecOptions};

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn tries() -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    (number("WARPMILL_MUTATIONS").unwrap_or(2000) as usize, number("WARPMILL_MUTATION_SEED").unwrap_or(17))
}

/// Two versions with everything that a manifest may have: remaps, codecs, second forms, zones, keys.
fn table() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let codec = CodecOptions { light: true, ..CodecOptions::fixed(Codec::Lz4) };
    let options = WriteOptions { metadata: Metadata::All, zone_rows: 1024, codec: Some(codec), ..small() };
    let mut writer = Table::build(&path, rows(0, 0).schema(), options.clone()).unwrap();
    let keys = [Constraint::PrimaryKey(vec![0]), Constraint::Unique { columns: vec![10, 2], index: Some("i".into()) }];
    writer.declare(keys.to_vec()).unwrap();
    writer.write(&rows(0, 1100)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let options = WriteOptions { codec: Some(CodecOptions::fixed(Codec::None)), ..options };
    let mut writer = table.append(options).unwrap();
    writer.write(&golden::appended()).unwrap();
    writer.commit().unwrap();
    (dir, path)
}

const MANIFEST: &str = "0000000000000002.manifest";

/// All rows of the table in `path`, as text by column, or the error.
fn read(path: &Path) -> Result<Vec<Vec<Option<String>>>> {
    let snapshot = Table::open(path)?.snapshot()?;
    snapshot.verify()?;
    let columns = 0..snapshot.schema().fields().len();
    Ok(columns.map(|c| column(&snapshot, c)).collect())
}

/// Counts of mutations' outcomes, by the mutated part.
#[derive(Default)]
struct Outcomes {
    counts: BTreeMap<String, [usize; 5]>,
    failures: Vec<String>,
}

impl Outcomes {
    /// Reads a mutated table, which must have the `expected` rows, or return an error.
    fn note(&mut self, kind: &str, path: &Path, expected: &[Vec<Option<String>>], context: &dyn Fn() -> String) {
        let outcome = match catch_unwind(AssertUnwindSafe(|| read(path))) {
            Ok(Ok(found)) if found == expected => 1,
            Ok(Err(_)) => 2,
            Ok(Ok(_)) => 3,
            Err(_) => 4,
        };
        let counts = self.counts.entry(kind.to_owned()).or_default();
        counts[0] += 1;
        counts[outcome] += 1;
        if outcome > 2 {
            self.failures.push(format!("{kind}: {}: {}", ["other rows", "a panic"][outcome - 3], context()));
        }
    }

    fn finish(self) {
        println!("{:20}{:>8}{:>8}{:>8}{:>8}{:>8}", "mutation of", "tried", "right", "error", "wrong", "panic");
        for (kind, counts) in &self.counts {
            println!("{kind:20}{}", counts.iter().map(|count| format!("{count:>8}")).collect::<String>());
        }
        for (what, at) in [("right", 1), ("error", 2), ("wrong", 3), ("panic", 4)] {
            tally("mutants", what, self.counts.values().map(|counts| counts[at]).sum());
        }
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

/// Pointers to all members of a document.
fn members(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| members(value, format!("{at}/{key}"), found)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| members(value, format!("{at}/{i}"), found));
        }
        _ => {}
    }
    found.push(at);
}

fn hostile(random: &mut Random, value: &Value) -> Value {
    let numbers = [0, 1, 63, 64, 1 << 20, (1 << 20) + 1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, 1 << 63, u64::MAX];
    match value {
        Value::Number(number) => match random.below(4) {
            0 => json!(number.as_u64().unwrap_or(0) ^ 1 << random.below(64)),
            1 => json!(number.as_u64().unwrap_or(0).wrapping_add(1)),
            2 => json!(-1),
            _ => json!(random.one(&numbers)),
        },
        Value::String(text) => match random.below(4) {
            0 => json!(random.one(&[
                "",
                "..",
                "../../x",
                "/etc/passwd",
                "a/b",
                "0000000000000001-0000.manifest",
                "\u{0}"
            ])),
            1 => json!("9".repeat(random.below(60))),
            _ => {
                let mut bytes: Vec<u8> = text.bytes().filter(u8::is_ascii).collect();
                if let Some(at) = (!bytes.is_empty()).then(|| random.below(bytes.len())) {
                    bytes[at] = *random.one(b"0123456789abcdefz-./");
                }
                json!(String::from_utf8(bytes).unwrap())
            }
        },
        _ => [json!(null), json!([]), json!({}), json!("x"), json!(1)][random.below(5)].clone(),
    }
}

/// A manifest of `body` with a checksum that fits.
fn sealed(body: &Value) -> Vec<u8> {
    let body = serde_json::to_vec(body).unwrap();
    let mut bytes = format!("warpmill-manifest 5 {:016x}\n", xxh3_64(&body)).into_bytes();
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    bytes
}

fn body_of(manifest: &[u8]) -> Value {
    let start = manifest.iter().position(|&byte| byte == b'\n').unwrap();
    serde_json::from_slice(&manifest[start + 1..]).unwrap()
}

/// Members whose change, with a valid checksum, results in another valid table: the rows themselves, and the dictionary generation of a chunk's
/// codes.
fn is_content(at: &str) -> bool {
    let parts: Vec<&str> = at.split('/').skip(1).collect();
    matches!(parts[..], ["segments"] | ["segments", _] | ["segments", _, _, _, "generation"])
}

#[test]
fn manifests() {
    let (_dir, path) = table();
    let expected = read(&path).unwrap();
    let file = path.join(MANIFEST);
    let good = std::fs::read(&file).unwrap();
    let (tries, seed) = tries();
    let (mut random, mut outcomes) = (Random(seed), Outcomes::default());
    let body = body_of(&good);
    let mut all = vec![];
    members(&body, String::new(), &mut all);
    all.retain(|at| !is_content(at));
    for _ in 0..tries {
        let mut mutated = body.clone();
        let at = random.one(&all).clone();
        let value = mutated.pointer_mut(&at).unwrap();
        let before = value.clone();
        *value = hostile(&mut random, value);
        let after = value.clone();
        std::fs::write(&file, sealed(&mutated)).unwrap();
        let kind = at.split('/').nth(1).unwrap_or("all");
        outcomes.note(kind, &path, &expected, &|| format!("{at}: {before} became {after}"));
    }
    for _ in 0..tries / 4 {
        let mut bytes = good.clone();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        std::fs::write(&file, &bytes).unwrap();
        outcomes.note("a bit", &path, &expected, &|| format!("byte {at}"));
        bytes.truncate(at);
        std::fs::write(&file, &bytes).unwrap();
        outcomes.note("the end", &path, &expected, &|| format!("byte {at}"));
    }
    // Bits of the schema, which Arrow reads.
    let schema = body["schema"].as_str().unwrap().as_bytes();
    for _ in 0..tries {
        let (mut mutated, mut hex) = (body.clone(), schema.to_vec());
        for _ in 0..=random.below(3) {
            let at = random.below(hex.len());
            hex[at] = *random.one(b"0123456789abcdef");
        }
        mutated["schema"] = json!(String::from_utf8(hex).unwrap());
        std::fs::write(&file, sealed(&mutated)).unwrap();
        outcomes.note("schema bytes", &path, &expected, &|| mutated["schema"].to_string());
    }
    outcomes.finish();
}

#[test]
fn data_files() {
    let (_dir, path) = table();
    let expected = read(&path).unwrap();
    let (tries, seed) = tries();
    let (mut random, mut outcomes) = (Random(seed), Outcomes::default());
    let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|found| found == "data")).collect();
    names.sort();
    let good: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(name).unwrap()).collect();
    for _ in 0..tries {
        let which = random.below(names.len());
        let mut bytes = good[which].clone();
        let at = random.below(bytes.len());
        let kind = match random.below(8) {
            0 => {
                bytes.truncate(at);
                "the end of data"
            }
            1 => {
                let other = random.below(bytes.len());
                bytes.swap(at, other);
                "two bytes of data"
            }
            _ => {
                bytes[at] ^= 1 << random.below(8);
                "a bit of data"
            }
        };
        std::fs::write(&names[which], &bytes).unwrap();
        outcomes.note(kind, &path, &expected, &|| format!("{} at {at}", names[which].display()));
        std::fs::write(&names[which], &good[which]).unwrap();
    }
    outcomes.finish();
}

#[test]
fn a_manifest_that_is_gone_is_missed() {
    let (_dir, path) = table();
    let open = Table::open(&path).unwrap();
    std::fs::remove_file(path.join(MANIFEST)).unwrap();
    assert!(path.join("0000000000000001.manifest").exists());
    for error in [Table::open(&path).unwrap_err(), open.snapshot().unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, FormatError::Corrupt { .. }) && text.contains(MANIFEST), "{text}");
    }
    assert!(Table::exists(&path).unwrap() && open.append(small()).is_err());
    // Tables of earlier builds have no commit marks.
    std::fs::remove_file(path.join("0000000000000002.committed")).unwrap();
    assert_eq!(fresh(&path).version(), 1);
}

#[test]
fn numbers_of_hostile_manifests_are_refused_before_they_are_used() {
    let (_dir, path) = table();
    let file = path.join(MANIFEST);
    let body = body_of(&std::fs::read(&file).unwrap());
    let lies = [
        ("/segments/0/rows", json!(1u64 << 63)),
        ("/segments/0/rows", json!(0)),
        ("/segments/0/columns/1/nulls", json!(u64::MAX)),
        ("/segments/0/columns/1/plain_bytes", json!(u64::MAX)),
        ("/segments/0/columns/0/nulls", json!(1)),
        ("/segments/0/columns/1/max", json!({"int": "128"})),
        ("/segments/0/columns/1/min", json!({"str": "x"})),
        ("/segments/0/columns/0/heavy/codec/bytes", json!(1u64 << 33)),
        ("/segments/0/columns/0/offset", json!(65)),
        ("/files/0/name", json!("../0000000000000001-0000.data")),
        ("/files/0/name", json!("/0000000000000001-0000.data")),
        ("/dictionaries/9/generation", json!(u32::MAX)),
        ("/pruning/0/zone_rows", json!(1000)),
        ("/pruning/0/first", json!(u64::MAX)),
        ("/constraints/0/primary_key", json!([99])),
        ("/constraints/0/primary_key", json!([0, 0])),
        ("/constraints/1/unique/columns", json!([])),
        ("/constraints/1/unique/index", json!("x".repeat(1 << 17))),
        ("/constraints/1", json!({"foreign_key": [1]})),
        ("/constraints/1", json!({"foreign_key": {"columns": [99], "table": "p", "keys": ["id"]}})),
        ("/constraints/1", json!({"foreign_key": {"columns": [0], "table": "p", "keys": []}})),
        ("/constraints/1", json!({"foreign_key": {"columns": [0], "keys": ["nothing"]}})),
        ("/constraints/1", json!({"referenced_by": "x".repeat(1 << 17)})),
        ("/version", json!(u64::MAX)),
        ("/schema", json!("ff")),
    ];
    for (at, value) in lies {
        let mut mutated = body.clone();
        *mutated.pointer_mut(at).unwrap_or_else(|| panic!("{at}")) = value.clone();
        std::fs::write(&file, sealed(&mutated)).unwrap();
        let error = Table::open(&path).err().unwrap_or_else(|| panic!("{at}: {value}"));
        let text = error.to_string();
        assert!(matches!(error, FormatError::Corrupt { .. }) && text.contains(MANIFEST), "{at}: {text}");
    }
}
