//! Tables and views: `duckdb_tables()`, `duckdb_views()`, `sqlite_master`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use datafusion::catalog::TableProvider;
use warpmill_format::table::Constraint;

use super::{Described, integers, shown_schema, table, texts, truths};
use crate::Result;
use crate::catalog::{CATALOG, Kind, comment_of, creating};

/// A table or a view.
struct Named {
    schema: String,
    name: String,
    comment: Option<String>,
    temporary: bool,
    /// The statement that creates it; `None` if there is no such statement, or if the table cannot be read.
    sql: Option<String>,
    /// The names of its unique indexes, and the statements that create them.
    indexes: Vec<(String, String)>,
    constraints: Arc<[Constraint]>,
    rows: Option<u64>,
}

impl Described {
    /// All tables, or all views.
    fn named(&self, kind: Kind) -> Result<Vec<Named>> {
        let mut all = vec![];
        for info in self.catalog.infos()? {
            if (info.kind == "view") != (kind == Kind::View) {
                continue;
            }
            let schema = self.catalog.schema_called(&info.schema)?;
            let mut found = Named {
                schema: shown_schema(&info.schema),
                temporary: schema.is_temporary(&info.name)?,
                comment: None,
                sql: None,
                indexes: vec![],
                constraints: Arc::default(),
                rows: info.rows,
                name: info.name,
            };
            let qualified = creating::qualified(&info.schema, &found.name);
            if kind == Kind::View {
                if let Ok(Some(view)) = schema.view(&found.name) {
                    found.comment = view.comment().map(str::to_string);
                    found.sql = creating::view(&qualified, &view).ok();
                }
            } else if let Ok(Some(table)) = schema.warpmill_table(&found.name)
                && let Ok(snapshot) = table.snapshot()
            {
                let (fields, constraints) = (snapshot.schema(), snapshot.constraints());
                found.comment = comment_of(fields.metadata()).map(str::to_string);
                found.sql = Some(creating::table(&info.schema, &found.name, fields, constraints));
                found.constraints = Arc::clone(constraints);
                for constraint in constraints.iter() {
                    if let (Some(sql), Constraint::Unique { index: Some(name), .. }) =
                        (creating::index(&qualified, fields, constraint), constraint)
                    {
                        found.indexes.push((name.clone(), sql));
                    }
                }
            }
            all.push(found);
        }
        Ok(all)
    }

    /// `duckdb_tables()`.
    pub(super) async fn tables(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.named(Kind::Table)?;
        let columns = self.column_counts(&all).await?;
        let count = |of: &dyn Fn(&Constraint) -> bool| {
            integers(
                all.iter().map(|one| Some(one.constraints.iter().filter(|constraint| of(constraint)).count() as i64)),
            )
        };
        let is_primary = |one: &Named| one.constraints.iter().any(Constraint::is_primary);
        table(vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(all.iter().map(|one| Some(one.schema.clone())))),
            ("table_name", texts(all.iter().map(|one| Some(one.name.clone())))),
            ("comment", texts(all.iter().map(|one| one.comment.clone()))),
            ("internal", truths(all.iter().map(|_| false))),
            ("temporary", truths(all.iter().map(|one| one.temporary))),
            ("has_primary_key", truths(all.iter().map(is_primary))),
            ("estimated_size", integers(all.iter().map(|one| one.rows.map(|rows| rows as i64)))),
            ("column_count", integers(columns.into_iter().map(Some))),
            ("index_count", count(&|constraint| constraint.key().is_some())),
            ("check_constraint_count", count(&|constraint| matches!(constraint, Constraint::Check(_)))),
            ("sql", texts(all.iter().map(|one| one.sql.clone()))),
        ])
    }

    /// `duckdb_views()`.
    pub(super) async fn views(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.named(Kind::View)?;
        let columns = self.column_counts(&all).await?;
        table(vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(all.iter().map(|one| Some(one.schema.clone())))),
            ("view_name", texts(all.iter().map(|one| Some(one.name.clone())))),
            ("comment", texts(all.iter().map(|one| one.comment.clone()))),
            ("internal", truths(all.iter().map(|_| false))),
            ("temporary", truths(all.iter().map(|one| one.temporary))),
            ("column_count", integers(columns.into_iter().map(Some))),
            ("sql", texts(all.iter().map(|one| one.sql.clone()))),
        ])
    }

    async fn column_counts(&self, all: &[Named]) -> Result<Vec<i64>> {
        let columns = self.all().await?;
        let of = |one: &Named| {
            columns.iter().filter(|column| column.schema == one.schema && column.table == one.name).count() as i64
        };
        Ok(all.iter().map(of).collect())
    }

    /// `sqlite_master`: tables, views and unique indexes.
    pub(super) fn master(&self) -> Result<Arc<dyn TableProvider>> {
        let mut rows: Vec<[Option<String>; 4]> = vec![];
        let mut indexes = vec![];
        for (kind, word) in [(Kind::Table, "table"), (Kind::View, "view")] {
            for Named { name, sql, indexes: own, .. } in self.named(kind)? {
                let of_index =
                    |(index, sql): (String, String)| [Some("index".into()), Some(index), Some(name.clone()), Some(sql)];
                indexes.extend(own.into_iter().map(of_index));
                rows.push([Some(word.to_string()), Some(name.clone()), Some(name), sql]);
            }
        }
        rows.extend(indexes);
        let column = |at: usize| texts(rows.iter().map(|row| row[at].clone()));
        let zeros: ArrayRef = Arc::new(Int32Array::from(vec![0; rows.len()]));
        table(vec![
            ("type", column(0)),
            ("name", column(1)),
            ("tbl_name", column(2)),
            ("rootpage", zeros),
            ("sql", column(3)),
        ])
    }
}
