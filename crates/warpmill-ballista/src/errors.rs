//! Errors of tasks, which Ballista sends as texts within texts.

use ballista_core::error::BallistaError;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use warpmill::Error;

/// Surrounds the error of a task in hexadecimal digits, which no formatting changes.
const MARK: &str = "warpmill-error:";

/// Beginnings of texts of errors that have others within, in their order.
const LAYERS: [&str; 3] = ["DataFusion error: ", "External error: ", "Execution error: "];

/// The error of a task as the scheduler gets it: Ballista's own errors, by which it knows lost rows, stay.
pub(crate) fn of_task(error: DataFusionError) -> DataFusionError {
    if is_of_exchange(&error.to_string()) {
        return error;
    }
    let (kind, text) = match Error::from(error) {
        Error::OutOfMemory(text) => ('m', text),
        error => ('e', error.to_string()),
    };
    // The writer's errors have others within.
    let text = LAYERS.iter().fold(text.as_str(), |text, layer| text.strip_prefix(layer).unwrap_or(text));
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    exec_datafusion_err!("{MARK}{kind}{digits};")
}

/// The error of a failed job: that of its task, if one has failed.
pub(crate) fn of_job(text: &str) -> DataFusionError {
    let marked = text.split_once(MARK).and_then(|(_, rest)| rest.split_once(';'));
    let Some((kind, text)) = marked.and_then(|(marked, _)| decoded(marked)) else {
        return exec_datafusion_err!("{text}");
    };
    let error = if kind == 'm' { Error::OutOfMemory(text) } else { Error::Execution(text) };
    error.into()
}

fn decoded(marked: &str) -> Option<(char, String)> {
    let kind = marked.chars().next()?;
    let digits = marked.get(kind.len_utf8()..)?;
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    Some((kind, String::from_utf8(bytes.collect::<Option<_>>()?).ok()?))
}

/// Whether an error is about rows of another stage that could not be fetched.
pub(crate) fn is_of_exchange(text: &str) -> bool {
    text.contains("Shuffle fetch partition error") || text.contains("FetchFailed")
}

pub(crate) fn of_ballista(error: BallistaError) -> DataFusionError {
    error.into_datafusion()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_tasks_come_back_whatever_surrounds_them() {
        let text = "value \"a\\b;\n\u{fc}\" is no INTEGER";
        let sent = of_task(Error::Execution(text.into()).into());
        let failed = format!("Job failed due to stage 1: {:?}", DataFusionError::Shared(std::sync::Arc::new(sent)));
        assert!(matches!(Error::from(of_job(&failed)), Error::Execution(found) if found == text));
        let sent = of_task(Error::OutOfMemory("too little".into()).into()).to_string();
        assert!(matches!(Error::from(of_job(&sent)), Error::OutOfMemory(found) if found == "too little"));
        assert!(of_job("something else").to_string().contains("something else"));
        assert!(of_job("warpmill-error:ezz;").to_string().contains("zz"));
    }
}
