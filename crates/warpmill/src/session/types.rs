//! CREATE TYPE and DROP TYPE.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{ObjectName, Query as SqlQuery};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use warpmill_format::TableSnapshot;
use warpmill_format::table::Constraint;

use super::constraints::parsed;
use super::ddl::default_of;
use super::running::Query;
use super::statements::{Taken, reference};
use super::{QueryResult, Session};
use crate::catalog::Defined;
use crate::dialect::{casts_to, is_type, type_name, type_of, value_text};
use crate::{Error, Result};

/// A statement CREATE TYPE.
struct CreateType {
    or_replace: bool,
    temporary: bool,
    if_not_exists: bool,
    name: ObjectName,
    definition: Definition,
}

/// The definition of a type.
enum Definition {
    /// The type of this name.
    Type(String),
    /// An ENUM whose members a query returns.
    Members(Box<SqlQuery>),
}

impl CreateType {
    /// Reads `CREATE [OR REPLACE] [TEMP] TYPE [IF NOT EXISTS] name AS type`.
    fn parse(sql: &str) -> Result<Self, ParserError> {
        let mut parser = Parser::new(&DuckDbDialect).with_recursion_limit(10_000).try_with_sql(sql)?;
        parser.expect_keyword(Keyword::CREATE)?;
        let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
        let temporary = parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
        parser.expect_keyword(Keyword::TYPE)?;
        let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        parser.expect_keyword(Keyword::AS)?;
        let begins_query = |token: &Token| {
            matches!(token, Token::Word(word)
                if matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES))
        };
        let of_query = matches!(&parser.peek_nth_token(0).token, Token::Word(word) if word.keyword == Keyword::ENUM)
            && begins_query(&parser.peek_nth_token(2).token);
        let definition = match of_query {
            true => {
                parser.expect_keyword(Keyword::ENUM)?;
                parser.expect_token(&Token::LParen)?;
                let members = Definition::Members(parser.parse_query()?);
                parser.expect_token(&Token::RParen)?;
                members
            }
            false => Definition::Type(parser.parse_data_type()?.to_string()),
        };
        let _ = parser.consume_token(&Token::SemiColon);
        parser.expect_token(&Token::EOF)?;
        Ok(Self { or_replace, temporary, if_not_exists, name, definition })
    }
}

/// A statement DROP TYPE.
struct DropType {
    if_exists: bool,
    name: ObjectName,
    cascade: bool,
}

impl DropType {
    fn parse(sql: &str) -> Result<Self, ParserError> {
        let mut parser = Parser::new(&DuckDbDialect).try_with_sql(sql)?;
        parser.expect_keywords(&[Keyword::DROP, Keyword::TYPE])?;
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        let cascade = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]) == Some(Keyword::CASCADE);
        let _ = parser.consume_token(&Token::SemiColon);
        parser.expect_token(&Token::EOF)?;
        Ok(Self { if_exists, name, cascade })
    }
}

impl Session {
    /// `CREATE [OR REPLACE] [TEMP] TYPE [IF NOT EXISTS] name AS type`: types that it refers to are resolved now.
    pub(super) async fn create_type(&self, sql: &str, query: &Query) -> Result<Taken> {
        let create = CreateType::parse(sql).map_err(|error| Error::Parse(format!("{error} (of {sql})")))?;
        let CreateType { or_replace, temporary, if_not_exists, name, definition } = create;
        let (schema, name) = self.place(&reference(&name)?)?;
        if is_type(&name) {
            return Err(Error::Catalog(format!("type '{name}' already exists")));
        }
        let there = schema.defined_names(Defined::Type)?.contains(&name.to_lowercase());
        match (there, or_replace, if_not_exists) {
            (_, true, true) => return Err(Error::Plan("IF NOT EXISTS and OR REPLACE exclude each other".into())),
            (true, _, true) => return Ok(Taken::Done(QueryResult::empty())),
            (true, false, false) => return Err(Error::Catalog(format!("type '{name}' already exists"))),
            _ => {}
        }
        if there {
            self.check_unused(&name)?;
        }
        let written = match definition {
            Definition::Type(written) => written,
            Definition::Members(members) => self.enum_of(&members, query).await?,
        };
        let plain = type_name(&self.type_called(&written).await?);
        // The text that is kept has to name a type.
        type_of(&plain)?;
        schema.put_definition(Defined::Type, &name, &plain, temporary)?;
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// The text of the ENUM type whose members are the distinct texts of a query, in its order.
    async fn enum_of(&self, members: &SqlQuery, query: &Query) -> Result<String> {
        let rows = Box::pin(self.run_statement(&members.to_string(), &[], query)).await?;
        let [_] = rows.schema.fields()[..] else {
            return Err(Error::Plan("The query must return a single column".into()));
        };
        let (mut texts, mut known) = (vec![], HashSet::new());
        for batch in &rows.batches {
            for row in 0..batch.num_rows() {
                let text = value_text(batch.column(0), row)?.map(|text| format!("'{}'", text.replace('\'', "''")));
                texts.extend(text.filter(|text| known.insert(text.clone())));
            }
        }
        Ok(format!("ENUM({})", texts.join(", ")))
    }

    /// `DROP TYPE [IF EXISTS] name [RESTRICT]`: columns of the type keep their types.
    pub(super) fn drop_type(&self, sql: &str) -> Result<Taken> {
        let DropType { if_exists, name, cascade } =
            DropType::parse(sql).map_err(|error| Error::Parse(format!("{error} (of {sql})")))?;
        let (schema, name) = match self.place(&reference(&name)?) {
            Err(_) if if_exists => return Ok(Taken::Done(QueryResult::empty())),
            place => place?,
        };
        match self.check_unused(&name) {
            Err(Error::Catalog(reason)) if cascade => return Err(Error::NotImplemented(format!("CASCADE: {reason}"))),
            checked => checked?,
        }
        match schema.remove_definition(Defined::Type, &name)? || if_exists {
            true => Ok(Taken::Done(QueryResult::empty())),
            false => Err(Error::Catalog(format!("Type with name {name} does not exist"))),
        }
    }

    /// Whether no table names the type called `name` in a default or a condition.
    ///
    /// # Errors
    /// Names one that does; tables that cannot be read.
    fn check_unused(&self, name: &str) -> Result<()> {
        let catalog = &self.inner.catalog;
        for schema in catalog.all_schemas()? {
            let Some(schema) = catalog.find_schema(&schema)? else { continue };
            for table in schema.names()? {
                let Some(found) = schema.warpmill_table(&table)? else { continue };
                let snapshot = found.snapshot()?;
                if is_named(name, &snapshot)? {
                    return Err(Error::Catalog(format!("type '{name}' cannot be dropped: table '{table}' names it")));
                }
            }
        }
        Ok(())
    }
}

/// Whether a column default or a condition of a table casts to the type called `name`.
fn is_named(name: &str, table: &TableSnapshot) -> Result<bool> {
    let conditions = table.constraints().iter().filter_map(|constraint| match constraint {
        Constraint::Check(text) => Some(text.as_str()),
        _ => None,
    });
    for text in table.schema().fields().iter().filter_map(|field| default_of(field)).chain(conditions) {
        if casts_to(&parsed(text)?, name) {
            return Ok(true);
        }
    }
    Ok(false)
}
