//! Files of COPY ... TO: written under temporary names, and renamed when all are complete.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use warpmill_format::table::leftovers::{self, HiddenFolder};

use crate::Error;

/// The temporary and the final location of the files of a COPY.
#[derive(Debug)]
pub(super) struct Staging {
    folder: HiddenFolder,
    name: String,
    target: PathBuf,
}

/// `plan` with its files written to a hidden folder first, if it writes local files.
///
/// # Errors
/// A device or a pipe, which a file would replace; a non-empty folder as the target of partitioned files; errors of the file system.
pub(super) fn stage(plan: &LogicalPlan) -> crate::Result<Option<(LogicalPlan, Staging)>> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(None) };
    let path = copy.output_url.strip_prefix("file://").unwrap_or(&copy.output_url);
    if path.contains("://") {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Error::Io(format!("{path}: {error}"));
    let mut target = std::path::absolute(path).map_err(failed)?;
    if let Ok(there) = std::fs::metadata(&target) {
        let filled = || std::fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some());
        if !copy.partition_by.is_empty() && there.is_dir() && filled() {
            let what =
                "the folder is not empty, and files of other rows would stay in it: remove them, or name another";
            return Err(Error::Io(format!("{path}: {what}")));
        }
        if !there.is_file() && !there.is_dir() {
            return Err(Error::NotImplemented(format!("COPY to {path}, which is neither a file nor a folder")));
        }
        // The target of a link is replaced, and not the link.
        target = std::fs::canonicalize(&target).map_err(failed)?;
    }
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return Ok(None) };
    std::fs::create_dir_all(parent).map_err(failed)?;
    leftovers::clean(parent)?;
    let folder = HiddenFolder::beside(&target)?;
    let slash = if path.ends_with('/') { "/" } else { "" };
    let name = name.to_string_lossy().into_owned();
    let output_url = format!("{}/{name}{slash}", folder.path().display());
    let staged = LogicalPlan::Copy(CopyTo { output_url, ..copy.clone() });
    Ok(Some((staged, Staging { folder, name, target })))
}

impl Staging {
    /// Moves the files to their final names.
    fn publish(&self) -> crate::Result<()> {
        let written = self.folder.path().join(&self.name);
        if written.exists() {
            move_over(&written, &self.target)
                .map_err(|error| Error::Io(format!("{}: {error}", self.target.display())))?;
        }
        Ok(leftovers::sync_folder_of(&self.target)?)
    }
}

/// Moves a file, or the files of a folder into the folder of the target name.
fn move_over(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        std::fs::File::open(from)?.sync_all()?;
        return std::fs::rename(from, to);
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        move_over(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Runs a plan that writes to a [`Staging`], and then moves the files to their final names.
#[derive(Debug)]
pub(super) struct WrittenExec {
    input: Arc<dyn ExecutionPlan>,
    staging: Arc<Staging>,
}

impl WrittenExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, staging: Staging) -> Self {
        Self { input, staging: Arc::new(staging) }
    }
}

impl DisplayAs for WrittenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrittenExec: {}", self.staging.target.display())
    }
}

impl ExecutionPlan for WrittenExec {
    fn name(&self) -> &str {
        "WrittenExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self { input, staging: Arc::clone(&self.staging) })),
            _ => internal_err!("WrittenExec has one input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, staging) = (self.input.execute(partition, context)?, Arc::clone(&self.staging));
        let written = async move {
            let batches: Vec<_> = rows.try_collect().await?;
            let published = tokio::task::spawn_blocking(move || staging.publish()).await;
            published.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            Ok::<_, DataFusionError>(futures::stream::iter(batches.into_iter().map(Ok)))
        };
        let schema = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(written).try_flatten())))
    }
}
