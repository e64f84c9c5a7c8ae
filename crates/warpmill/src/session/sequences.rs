//! CREATE SEQUENCE, DROP SEQUENCE, `nextval` and `currval`.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result as DataFusionResult, TableReference};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use parking_lot::Mutex;

use super::statements::Taken;
use super::{QueryResult, Session};
use crate::catalog::{Catalog, Sequence, SequenceOptions};
use crate::{Error, Result};

impl Session {
    /// `CREATE [OR REPLACE] [TEMP] SEQUENCE [IF NOT EXISTS] name [options]`.
    pub(super) fn create_sequence(&self, sql: &str) -> Result<Taken> {
        let mut words = Words::of(sql);
        words.next();
        let replaces = words.takes(&["or", "replace"]);
        let temporary = words.takes(&["temp"]) || words.takes(&["temporary"]);
        words.next();
        let if_not_exists = words.takes(&["if", "not", "exists"]);
        let Some(name) = words.next() else {
            return Err(Error::Parse(format!("{sql}: the name of a sequence is expected")));
        };
        let (schema, name) = self.place_of(name)?;
        let sequence = Sequence::new(options(words)?)?;
        if schema.has_sequence(&name) && !replaces {
            return match if_not_exists {
                true => Ok(Taken::Done(QueryResult::empty())),
                false => Err(Error::Catalog(format!("sequence '{name}' already exists"))),
            };
        }
        schema.put_sequence(&name, sequence, temporary)?;
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// `DROP SEQUENCE [IF EXISTS] name`.
    pub(super) fn drop_sequence(&self, sql: &str) -> Result<Taken> {
        let mut words = Words::of(sql);
        words.takes(&["drop", "sequence"]);
        let if_exists = words.takes(&["if", "exists"]);
        let (Some(name), None) = (words.next(), words.next()) else {
            return Err(Error::Parse(format!("{sql}: the name of one sequence is expected")));
        };
        let (schema, name) = self.place_of(name)?;
        match schema.remove_sequence(&name)? || if_exists {
            true => Ok(Taken::Done(QueryResult::empty())),
            false => Err(Error::Catalog(format!("sequence '{name}' does not exist"))),
        }
    }
}

/// The words of a statement, consumed in order.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(sql: &'a str) -> Self {
        Self(sql.trim_end_matches([';', ' ']).split_whitespace().rev().collect())
    }

    fn next(&mut self) -> Option<&'a str> {
        self.0.pop()
    }

    /// Consumes these words, if they are next.
    fn takes(&mut self, words: &[&str]) -> bool {
        let here = self.0.iter().rev().zip(words).filter(|(word, wanted)| word.eq_ignore_ascii_case(wanted)).count();
        let found = here == words.len();
        self.0.truncate(self.0.len() - if found { here } else { 0 });
        found
    }

    fn number(&mut self, of: &str) -> Result<i64> {
        let word = self.next().unwrap_or_default();
        word.parse().map_err(|_| Error::Plan(format!("CREATE SEQUENCE: {of} {word}: a whole number is expected")))
    }
}

/// Reads the options after the name, in any order.
fn options(mut words: Words<'_>) -> Result<SequenceOptions> {
    let mut said = SequenceOptions::default();
    loop {
        if words.takes(&["start"]) {
            words.takes(&["with"]);
            said.start = Some(words.number("START")?);
        } else if words.takes(&["increment"]) {
            words.takes(&["by"]);
            said.increment = Some(words.number("INCREMENT")?);
        } else if words.takes(&["minvalue"]) {
            said.min = Some(words.number("MINVALUE")?);
        } else if words.takes(&["maxvalue"]) {
            said.max = Some(words.number("MAXVALUE")?);
        } else if words.takes(&["cycle"]) {
            said.cycle = true;
        } else if words.takes(&["no", "minvalue"]) || words.takes(&["no", "maxvalue"]) || words.takes(&["no", "cycle"])
        {
            // The default.
        } else {
            return match words.next() {
                None => Ok(said),
                Some(word) => Err(Error::NotImplemented(format!("CREATE SEQUENCE: {word}"))),
            };
        }
    }
}

/// The functions over sequences of a session.
pub(super) fn functions(catalog: &Arc<Catalog>) -> [ScalarUDF; 2] {
    let given = Arc::new(Mutex::default());
    [Which::Next, Which::Current].map(|which| {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Volatile);
        let (catalog, given) = (Arc::clone(catalog), Arc::clone(&given));
        ScalarUDF::from(OfSequence { which, catalog, given, signature })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Next,
    Current,
}

/// The last value that the session got from each sequence, by schema and name.
type Given = Mutex<HashMap<(String, String), i64>>;

/// `nextval('sequence')`: a number for each row. `currval('sequence')`: the last one.
struct OfSequence {
    which: Which,
    catalog: Arc<Catalog>,
    given: Arc<Given>,
    signature: Signature,
}

impl OfSequence {
    fn numbers(&self, name: &str, count: usize, default_schema: &str) -> Result<Vec<i64>> {
        let (schema, name) = self.catalog.place(&TableReference::parse_str_normalized(name, true), default_schema)?;
        let key = (schema.name().to_string(), name.to_lowercase());
        match self.which {
            Which::Next => {
                let numbers = schema.next_values(&name, count)?;
                if let Some(last) = numbers.last() {
                    self.given.lock().insert(key, *last);
                }
                Ok(numbers)
            }
            Which::Current if !schema.has_sequence(&name) => {
                Err(Error::Catalog(format!("sequence '{name}' does not exist")))
            }
            Which::Current => match self.given.lock().get(&key) {
                Some(last) => Ok(vec![*last; count]),
                None => {
                    Err(Error::Execution(format!("currval: sequence {name:?} has given no number in this session")))
                }
            },
        }
    }
}

impl fmt::Debug for OfSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for OfSequence {
    fn eq(&self, other: &Self) -> bool {
        self.which == other.which && Arc::ptr_eq(&self.catalog, &other.catalog)
    }
}

impl Eq for OfSequence {}

impl Hash for OfSequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.which.hash(state);
    }
}

impl ScalarUDFImpl for OfSequence {
    fn name(&self) -> &str {
        match self.which {
            Which::Next => "nextval",
            Which::Current => "currval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let schema = &args.config_options.catalog.default_schema;
        let names = args.args[0].to_array(args.number_rows)?;
        let names = names.as_string::<i32>();
        let mut numbers: Vec<Option<i64>> = Vec::with_capacity(names.len());
        while numbers.len() < names.len() {
            let at = numbers.len();
            if names.is_null(at) {
                numbers.push(None);
                continue;
            }
            let same = (at..names.len()).take_while(|row| names.is_valid(*row) && names.value(*row) == names.value(at));
            let given = self.numbers(names.value(at), same.count(), schema)?;
            numbers.extend(given.into_iter().map(Some));
        }
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(numbers)) as ArrayRef))
    }
}
