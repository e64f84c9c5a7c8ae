//! Substrait plans in and out: `execute_substrait` and `to_substrait` (Substrait specification, <https://substrait.io>).
