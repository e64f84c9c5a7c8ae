//! How similar two texts are.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, typed};

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Float64, Int64};
    vec![
        Own::new(
            "levenshtein",
            |t| typed(t, &[Is::Text; 2], Int64),
            |call| call.integers(|row| Ok(pair(call, row).map(|(a, b)| levenshtein(a, b)))),
        ),
        Own::new(
            "damerau_levenshtein",
            |t| typed(t, &[Is::Text; 2], Int64),
            |call| call.integers(|row| Ok(pair(call, row).map(|(a, b)| damerau(a, b)))),
        ),
        Own::new(
            "hamming",
            |t| typed(t, &[Is::Text; 2], Int64),
            |call| call.integers(|row| pair(call, row).map(|(a, b)| hamming(a, b)).transpose()),
        ),
        Own::new(
            "jaccard",
            |t| typed(t, &[Is::Text; 2], Float64),
            |call| call.floats(|row| pair(call, row).map(|(a, b)| jaccard(a, b)).transpose()),
        ),
        Own::new(
            "jaro_similarity",
            |t| typed(t, &[Is::Text; 2], Float64),
            |call| call.floats(|row| Ok(pair(call, row).map(|(a, b)| jaro(a, b)))),
        ),
        Own::new(
            "jaro_winkler_similarity",
            |t| typed(t, &[Is::Text; 2], Float64),
            |call| call.floats(|row| Ok(pair(call, row).map(|(a, b)| jaro_winkler(a, b)))),
        ),
    ]
}

/// Two texts as bytes, which DuckDB compares.
fn pair(call: &Call, row: usize) -> Option<(&[u8], &[u8])> {
    Some((call.text(0, row)?.as_bytes(), call.text(1, row)?.as_bytes()))
}

fn levenshtein(a: &[u8], b: &[u8]) -> i64 {
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = last[0];
        last[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = last[j + 1];
            last[j + 1] = change.min(last[j] + 1).min(diagonal + 1);
        }
    }
    last[b.len()] as i64
}

/// Damerau-Levenshtein distance: with transpositions, between which other characters may be inserted.
fn damerau(a: &[u8], b: &[u8]) -> i64 {
    let most = a.len() + b.len();
    let width = b.len() + 2;
    let mut cost = vec![0usize; (a.len() + 2) * width];
    cost[0] = most;
    for i in 0..=a.len() {
        cost[(i + 1) * width] = most;
        cost[(i + 1) * width + 1] = i;
    }
    for j in 0..=b.len() {
        cost[j + 1] = most;
        cost[width + j + 1] = j;
    }
    let mut last_row = [0usize; 256];
    for (i, x) in (1..).zip(a) {
        let mut last_match = 0;
        for (j, y) in (1..).zip(b) {
            let (row, column) = (last_row[usize::from(*y)], last_match);
            let change = usize::from(x != y);
            if x == y {
                last_match = j;
            }
            let moved = cost[row * width + column] + (i - row - 1) + 1 + (j - column - 1);
            let best = (cost[i * width + j] + change)
                .min(cost[(i + 1) * width + j] + 1)
                .min(cost[i * width + j + 1] + 1)
                .min(moved);
            cost[(i + 1) * width + j + 1] = best;
        }
        last_row[usize::from(*x)] = i;
    }
    cost[(a.len() + 1) * width + b.len() + 1] as i64
}

fn hamming(a: &[u8], b: &[u8]) -> Result<i64> {
    if a.len() != b.len() {
        return exec_err!("Mismatch Function: Strings must be of equal length!");
    }
    Ok(a.iter().zip(b).filter(|(x, y)| x != y).count() as i64)
}

fn jaccard(a: &[u8], b: &[u8]) -> Result<f64> {
    if a.is_empty() || b.is_empty() {
        return exec_err!("Jaccard Function: An argument too short!");
    }
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (a.iter().collect(), b.iter().collect());
    Ok(a.intersection(&b).count() as f64 / a.union(&b).count() as f64)
}

fn jaro(a: &[u8], b: &[u8]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut matched = vec![];
    for (i, x) in a.iter().enumerate() {
        let within = i.saturating_sub(reach)..(i + reach + 1).min(b.len());
        if let Some(j) = within.into_iter().find(|&j| !taken[j] && b[j] == *x) {
            taken[j] = true;
            matched.push(*x);
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let others = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(y, _)| *y);
    let moved = matched.iter().zip(others).filter(|(x, y)| **x != *y).count() / 2;
    let m = matched.len() as f64;
    (m / a.len() as f64 + m / b.len() as f64 + (m - moved as f64) / m) / 3.0
}

fn jaro_winkler(a: &[u8], b: &[u8]) -> f64 {
    let plain = jaro(a, b);
    if plain <= 0.7 {
        return plain;
    }
    let same = a.iter().zip(b).take(4).take_while(|(x, y)| x == y).count() as f64;
    plain + same * 0.1 * (1.0 - plain)
}
