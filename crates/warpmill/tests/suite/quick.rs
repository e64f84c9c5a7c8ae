//! Runs with fewer cases.

/// The cases to run: all of them, or every `step`-th where `WARPMILL_QUICK` asks for fewer, as CI does.
pub fn cases<T>(all: impl IntoIterator<Item = T>, step: usize) -> impl Iterator<Item = T> {
    let step = if std::env::var_os("WARPMILL_QUICK").is_some() { step } else { 1 };
    all.into_iter().step_by(step)
}
