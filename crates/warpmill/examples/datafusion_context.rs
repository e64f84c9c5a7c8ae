//! A DataFusion program that Warpmill accelerates: `cargo run --release -p warpmill --example datafusion_context -- FILE.parquet`.
//!
//! Without a file it runs over rows in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::functions_aggregate::expr_fn::{avg, count};
use datafusion::prelude::{ParquetReadOptions, SessionContext, col, lit};

#[tokio::main]
async fn main() -> Result<()> {
    let context = SessionContext::new();
    warpmill::accelerate(&context);

    if let Some(file) = std::env::args().nth(1) {
        context.register_parquet("t", file, ParquetReadOptions::default()).await?;
        return context.sql("SELECT count(*) AS n FROM t").await?.show().await;
    }
    let columns: [(&str, ArrayRef); 2] = [
        ("city", Arc::new(StringArray::from(vec!["Oslo", "Rome", "Oslo", "Lima"]))),
        ("degrees", Arc::new(Int64Array::from(vec![4, 21, 6, 19]))),
    ];
    context.register_batch("t", RecordBatch::try_from_iter(columns)?)?;

    // SQL and data frames work as before.
    context.sql("SELECT city, max(degrees) FROM t GROUP BY city ORDER BY city").await?.show().await?;
    let frame = context.table("t").await?.filter(col("degrees").gt(lit(5)))?;
    let frame = frame.aggregate(vec![col("city")], vec![avg(col("degrees")), count(lit(1))])?;
    frame.clone().sort_by(vec![col("city")])?.show().await?;

    // The part that runs on Warpmill is a WarpmillExec.
    frame.explain(false, false)?.show().await
}
