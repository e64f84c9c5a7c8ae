//! Errors of connections as errors of workers.

use datafusion::common::DataFusionError;
use tonic::{Code, Status};
use warpmill::Error;

/// Converts a worker's status to an error.
fn of_status(worker: &str, status: &Status) -> Error {
    let reason = match status.code() {
        Code::Unauthenticated | Code::FailedPrecondition => status.message().to_string(),
        Code::Unimplemented => "something else than a Warpmill worker answers there".to_string(),
        _ => format!("it does not answer any more ({})", text(status)),
    };
    Error::Worker { worker: worker.to_string(), reason }
}

/// The text of a status including its sources.
fn text(status: &Status) -> String {
    let mut text = status.message().to_string();
    let mut source = std::error::Error::source(status);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    if text.is_empty() { format!("{:?}", status.code()) } else { text }
}

/// Adds the worker's name to errors of its connection; errors of its query are kept unchanged.
pub(crate) fn named(worker: &str, error: DataFusionError) -> DataFusionError {
    match status_in(&error) {
        Some(status) => of_status(worker, status).into(),
        None => error,
    }
}

fn status_in(error: &DataFusionError) -> Option<&Status> {
    match error {
        DataFusionError::External(inner) => inner.downcast_ref::<Status>(),
        DataFusionError::Context(_, inner) => status_in(inner),
        DataFusionError::Shared(inner) => status_in(inner),
        _ => None,
    }
}

/// The worker that `error` is about, if it is one of `workers`. Other processes forward such errors as texts.
pub(crate) fn as_worker_error(error: &DataFusionError, workers: &[String]) -> Option<Error> {
    if let error @ Error::Worker { .. } = Error::from(DataFusionError::Shared(std::sync::Arc::new(copied(error)))) {
        return Some(error);
    }
    let text = error.strip_backtrace();
    workers.iter().find_map(|worker| {
        let (_, reason) = text.split_once(&format!("worker {worker}: "))?;
        Some(Error::Worker { worker: worker.clone(), reason: reason.to_string() })
    })
}

/// A copy of an error with the same root.
fn copied(error: &DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => copied(inner),
        DataFusionError::Shared(inner) => copied(inner),
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(error) => error.clone().into(),
            None => DataFusionError::Execution(inner.to_string()),
        },
        error => DataFusionError::Execution(error.strip_backtrace()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_found_in_what_others_say_about_it() {
        let workers = ["a:1".to_string(), "b:2".to_string()];
        let direct: DataFusionError = of_status("b:2", &Status::unavailable("gone")).into();
        let shared = DataFusionError::Shared(std::sync::Arc::new(direct));
        for error in [shared, DataFusionError::Execution("External error: worker b:2: gone".into())] {
            let Some(Error::Worker { worker, reason }) = as_worker_error(&error, &workers) else { panic!("{error}") };
            assert!(worker == "b:2" && reason.contains("gone"), "{worker} {reason}");
        }
        assert!(as_worker_error(&DataFusionError::Execution("Overflow".into()), &workers).is_none());
    }
}
