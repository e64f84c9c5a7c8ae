//! Profiles of scans.

use std::collections::BTreeSet;

use warpmill_format::TableSnapshot;
use warpmill_ir::Source;

use super::profile::{ParquetProfile, ScanProfile};
use crate::compile::prepared::Prepared;
use crate::data::segments::OpenScan;

/// The Parquet profile of `scan`, whose files are those of `table`.
fn profile_of(scan: &OpenScan, table: &TableSnapshot) -> ParquetProfile {
    let (mut profile, mut reasons) = (ParquetProfile::default(), BTreeSet::new());
    profile.pages_left_out = table.left_out().pages;
    for chunk in scan.rows.columns.iter().flat_map(|row| row.iter()) {
        if chunk.is_pages() {
            profile.by_device += 1;
            profile.stored_bytes += chunk.stored_bytes();
            profile.decoded_bytes += chunk.bytes;
        } else if let Some(reason) = &chunk.decoded_by_host {
            profile.by_host += 1;
            reasons.insert(reason.clone());
        }
    }
    profile.reasons = reasons.into_iter().collect();
    profile
}

/// The profiles of all scans of `prepared`.
pub(super) fn scan_profiles(prepared: &Prepared) -> Vec<ScanProfile> {
    let profile = |(pipeline, scan): (&usize, &OpenScan)| {
        let Source::Scan(source) = &prepared.program.pipelines[*pipeline].source else { return None };
        let (table, plain_bytes) = (source.name.clone(), source.plain_bytes());
        let (pruning, parquet) =
            (scan.selected.report.clone(), source.table.is_parquet().then(|| profile_of(scan, &source.table)));
        Some(ScanProfile { pipeline: *pipeline, table, plain_bytes, pruning, parquet })
    };
    let mut profiles: Vec<ScanProfile> = prepared.scans.iter().filter_map(profile).collect();
    profiles.sort_by_key(|profile| profile.pipeline);
    profiles
}
