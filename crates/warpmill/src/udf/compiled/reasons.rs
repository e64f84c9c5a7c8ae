//! The reasons for which compiled code gives a group up.

/// Status of a group: `place * WHY + reason` (`kernels/udf/value.cuh`).
const WHY: i32 = 16;

/// The status of a run that was stopped.
const STOPPED: i32 = 9;

pub(super) fn is_stopped(status: i32) -> bool {
    status % WHY == STOPPED
}

/// The reason of a failure as text, with its line from `lines`.
pub(super) fn reason(status: i32, lines: &[u32]) -> String {
    let why = match status % WHY {
        1 => "an operator of None (NULL)",
        2 => "a whole number of more than 64 bits, or one that a float does not hold exactly",
        3 => "a division by zero",
        4 => "an index of no row",
        5 => "a number outside of a function's domain, or a result that is too large",
        6 => "a float that is no whole number of 64 bits",
        7 => "a variable without a value",
        8 => "a number that is missing",
        10 => "a result that does not fit its type",
        11 => "an exception",
        _ => "an unknown reason",
    };
    let place = (status / WHY) as usize;
    match place.checked_sub(1).and_then(|at| lines.get(at)) {
        Some(line) => format!("line {line}: {why}"),
        None => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_lines() {
        assert_eq!(reason(2 * WHY + 3, &[7, 9]), "line 9: a division by zero");
        assert_eq!(reason(3, &[7]), "a division by zero");
        assert!(is_stopped(STOPPED) && !is_stopped(3));
    }
}
