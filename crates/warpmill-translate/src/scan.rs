//! Scans of tables.

use std::sync::Arc;

use warpmill_format::TableSnapshot;
use warpmill_ir::{Expr, Field, Scan, Source, Unsupported};

use super::{Translator, unsupported_column};
use crate::scan_exec::{KeysOfPart, WarpmillScanExec};
use crate::stream::{Rows, Stream, column_type};

impl Translator<'_> {
    pub(super) fn scan(&mut self, scan: &WarpmillScanExec) -> Result<Stream, Unsupported> {
        let with_kept = scan.table().with_kept();
        let with_kept = with_kept.map_err(|error| Unsupported::new(scan.table_name(), error.to_string()))?;
        let Some(table) = with_kept else { return self.table_scan(scan, scan.table(), scan.projection().to_vec()) };
        let given = scan.projection().len();
        let columns = scan.projection().iter().copied().chain([table.schema().fields().len() - 1]).collect();
        let mut stream = self.table_scan(scan, &table, columns)?;
        stream.filter(vec![Expr::column(given, stream.fields[given].ty.clone())]);
        stream.columns.truncate(given);
        stream.rows.likely = scan.table().num_rows() as f64;
        Ok(stream)
    }

    /// A scan of `columns` of `table`.
    fn table_scan(
        &mut self,
        scan: &WarpmillScanExec,
        table: &Arc<TableSnapshot>,
        columns: Vec<usize>,
    ) -> Result<Stream, Unsupported> {
        let fields = columns.iter().map(|&column| {
            let field = table.schema().field(column);
            let ty = column_type(table, column).ok_or_else(|| unsupported_column(scan.table_name(), field))?;
            Ok(Field { name: field.name().clone(), ty })
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let distinct = columns.iter().map(|&column| table.column_stats(column).distinct).collect();
        let name = scan.table_name().to_owned();
        let source = Scan {
            table: Arc::clone(table),
            name,
            columns,
            fields,
            filters: vec![],
            prune: vec![],
            sideways: vec![],
            pruning: self.options.pruning,
        };
        let stream = Stream::of_source(Source::Scan(source), Rows::at_most(table.num_rows()));
        let mut stream = Stream { distinct, ..stream };
        if let Some(keys) = scan.part().and_then(|part| part.rows.keys.as_ref()) {
            within(&mut stream, keys, table.column_stats(scan.projection()[keys.column]).int_range());
        }
        Ok(stream)
    }
}

/// Keeps the rows of a scan with these keys; `bounds`: those of the keys, if they are known.
fn within(stream: &mut Stream, keys: &KeysOfPart, bounds: Option<(i128, i128)>) {
    if bounds.is_some_and(|bounds| keys.range.contains(bounds)) {
        return;
    }
    let likely = stream.rows.likely;
    stream.filter(keys.range.conditions(keys.column, &stream.fields[keys.column].ty));
    // Nearly all rows of the segments are in the range.
    stream.rows.likely = likely;
}
