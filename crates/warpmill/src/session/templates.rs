//! The part of planning that uses templates ([`crate::templates`]).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::execution::SessionState;

use super::Session;
use super::query::prepared;
use crate::offload::is_one_program;
use crate::plan_cache::{Basis, Prepared};
use crate::settings::WarpmillOptions;
use crate::templates::{Marked, Shape, Template, Templates, typed};
use crate::{Result, ScalarValue, dialect, planning};

impl Session {
    /// The plan of a query that differs from an earlier one in literals only. `basis`: the present changes of catalog and settings.
    pub(super) fn plan_from_template(
        &self,
        shape: &Shape,
        key: &(String, Vec<ScalarValue>),
        basis: (u64, u64),
    ) -> Option<Arc<Prepared>> {
        let (plan, of) = Templates::plan_of(&self.inner.templates, shape, basis.0, basis.1)?;
        let prepared = Arc::new(Prepared { plan, fallbacks: vec![], last_nanos: AtomicU64::new(0) });
        self.inner.plan_cache.lock().put(key.clone(), Arc::clone(&prepared), of);
        Some(prepared)
    }

    /// Makes a template of a query that was planned, if it is worth it and can be.
    pub(super) async fn make_template(
        &self,
        state: &Arc<SessionState>,
        (text, shape): (String, Shape),
        (plain, basis): (&Arc<Prepared>, Arc<Basis>),
        options: &WarpmillOptions,
    ) -> Result<()> {
        if !is_one_program(&*plain.plan) || !self.inner.templates.lock().wants(&shape) {
            return Ok(());
        }
        let (state, plain, options) = (Arc::clone(state), Arc::clone(plain), options.clone());
        let made = planning::run(async move {
            // The query has been planned without: an error here is none of it.
            let template = made(&state, (&text, &shape), (&plain, basis), &options).await.ok().flatten();
            Ok((shape, template))
        });
        let (shape, template) = made.await?;
        self.inner.templates.lock().put(&shape, template);
        Ok(())
    }
}

async fn made(
    state: &SessionState,
    (text, shape): (&str, &Shape),
    (plain, basis): (&Prepared, Arc<Basis>),
    options: &WarpmillOptions,
) -> Result<Option<Template>> {
    for only_single in [false, true] {
        let Some(marked) = Marked::of(dialect::parsed(state, text)?, shape, only_single) else { continue };
        let bound = typed(dialect::planned(state, marked.statement.clone(), Some(marked.values())).await?)?;
        let (prepared, _) = prepared(state, &bound, options).await?;
        if !is_one_program(&*prepared.plan) {
            continue;
        }
        let (plan, basis) = (Arc::clone(&prepared.plan), (options.pruning, Arc::clone(&basis)));
        if let Some(template) = marked.template(shape, (&bound, &plain.plan), plan, basis)? {
            return Ok(Some(template));
        }
    }
    Ok(None)
}
