//! Comments on tables and columns, in the metadata of schemas and their fields.

use std::collections::HashMap;

/// The key of comments in metadata.
const COMMENT: &str = "warpmill.comment";

/// The comment in the metadata of a table's schema, or of a column's field.
pub(crate) fn comment_of(metadata: &HashMap<String, String>) -> Option<&str> {
    metadata.get(COMMENT).map(String::as_str)
}

/// `metadata` with another comment, or without one.
pub(crate) fn with_comment(mut metadata: HashMap<String, String>, comment: Option<String>) -> HashMap<String, String> {
    match comment {
        Some(comment) => metadata.insert(COMMENT.to_string(), comment),
        None => metadata.remove(COMMENT),
    };
    metadata
}
