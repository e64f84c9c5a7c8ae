//! Queries: information on a result before it is read, and its rows.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::sql::{Command, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket as FlightTicket};
use parking_lot::Mutex;
use prost::Message;
use tonic::Status;
use warpmill::ScalarValue;

use super::held::Bound;
use super::{metadata, no_such_command, no_transactions, update};
use crate::answer::{Messages, announced, answer, batch_messages, planning};
use crate::server::Shared;
use crate::session::{ClientSession, Item, Ticket, Work};
use crate::statement::{Kind, Read, Statement, count_schema, explain_schema, read};
use crate::status;

/// Largest number of parameter rows for one query.
const MAX_RUNS: usize = 1000;

/// The answer to a client's command.
pub(super) async fn info(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    command: Command,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let (schema, ticket) = match command {
        Command::CommandStatementQuery(_) | Command::CommandPreparedStatementQuery(_) => {
            let (session, ticket) = ticket(server, session, command, Run::Changes).await?;
            let schema = announced(&ticket.schema);
            let limit = server.policy.limits.handles;
            let item = Item::Ticket(Arc::new(Mutex::new(Some(ticket))));
            let handle = server.sessions.handles.put(&session, item, limit)?;
            (schema, TicketStatementQuery { statement_handle: handle.into() }.as_any().encode_to_vec().into())
        }
        // Metadata are computed when they are read: the command is its own ticket.
        command => (metadata::schema(server, &command)?, descriptor.cmd.clone()),
    };
    let info = FlightInfo::new().try_with_schema(&schema).map_err(status::internal)?;
    let endpoint = FlightEndpoint::new().with_ticket(FlightTicket { ticket });
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// The schema of a command's result.
pub(super) async fn schema(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    command: Command,
) -> Result<SchemaRef, Status> {
    match command {
        Command::CommandStatementQuery(_) | Command::CommandPreparedStatementQuery(_) => {
            Ok(announced(&ticket(server, session, command, Run::Nothing).await?.1.schema))
        }
        command => metadata::schema(server, &command),
    }
}

/// The rows of a ticket.
pub(super) async fn rows(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    command: Command,
) -> Result<Messages, Status> {
    match command {
        Command::TicketStatementQuery(TicketStatementQuery { statement_handle }) => {
            let (session, ticket) = server.sessions.handles.take_ticket(&session.user, &statement_handle)?;
            let handle = String::from_utf8(statement_handle.to_vec()).ok();
            Ok(answer(server, session, handle, ticket))
        }
        Command::CommandPreparedStatementQuery(_) => {
            let (session, ticket) = ticket(server, session, command, Run::Changes).await?;
            Ok(answer(server, session, None, ticket))
        }
        command => {
            let batch = metadata::batch(server, session, command).await?;
            Ok(batch_messages(&batch.schema(), vec![batch]))
        }
    }
}

/// The statements that run before the answer to GetFlightInfo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// A statement that changes data: drivers assume that it has been executed, and may not read its rows.
    Changes,
    Nothing,
}

/// Plans the statement of a command.
async fn ticket(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    command: Command,
    run: Run,
) -> Result<(Arc<ClientSession>, Ticket), Status> {
    let (session, statement, bound): (_, _, Arc<Bound>) = match command {
        Command::CommandStatementQuery(command) => {
            no_transactions(command.transaction_id.as_deref())?;
            (Arc::clone(session), statement(server, session, &command.query).await?, Arc::default())
        }
        Command::CommandPreparedStatementQuery(command) => {
            let handle = &command.prepared_statement_handle;
            let (session, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
            let bound = Arc::clone(&prepared.bound.lock());
            (session, prepared.statement.clone(), bound)
        }
        command => return Err(no_such_command(&command)),
    };
    let rows = &bound.rows;
    check_rows(&statement, rows)?;
    let (schema, work) = match statement.kind {
        Kind::Change | Kind::Edit | Kind::Command if run == Run::Changes => {
            let outcome = update::run(server, &session, &statement, rows).await?;
            (outcome.schema, Work::Done(outcome.batches))
        }
        Kind::Query | Kind::Change => planning(server, &session, plans(&session, &statement, rows)).await?,
        Kind::Explain => (explain_schema(), Work::Deferred(rows.first().cloned().unwrap_or_default())),
        Kind::Edit => (count_schema(), Work::Done(vec![])),
        Kind::Command => (Arc::new(Schema::empty()), Work::Done(vec![])),
    };
    Ok((session, Ticket { schema, work, statement }))
}

/// Reads a statement that this session may run.
pub(super) async fn statement(server: &Shared, session: &ClientSession, sql: &str) -> Result<Statement, Status> {
    if session.is_closed() {
        return Err(Status::unauthenticated("the session has ended: connect again"));
    }
    let Read { statement, setting } = planning(server, session, read(&session.engine, sql, &server.policy)).await?;
    match setting {
        Some(_) if session.shared => Err(Status::failed_precondition(
            "SET needs a session of its own, which this client shares with others: log in with a name and a password, or \
             turn on cookies and set session options",
        )),
        _ => Ok(statement),
    }
}

fn check_rows(statement: &Statement, rows: &[Vec<ScalarValue>]) -> Result<(), Status> {
    let (wanted, given) = (statement.parameters.len(), rows.first().map_or(0, Vec::len));
    if wanted != given {
        return Err(Status::invalid_argument(format!("the statement has {wanted} parameters, {given} are bound")));
    }
    if rows.len() > MAX_RUNS && statement.kind == Kind::Query {
        return Err(Status::resource_exhausted(format!("a query runs for {MAX_RUNS} rows of parameters at most")));
    }
    Ok(())
}

async fn plans(
    session: &ClientSession,
    statement: &Statement,
    rows: &[Vec<ScalarValue>],
) -> Result<(SchemaRef, Work), Status> {
    let rows = if rows.is_empty() { &[vec![]][..] } else { rows };
    let mut plans = Vec::with_capacity(rows.len());
    for parameters in rows {
        let planned = session.engine.plan(&statement.sql, parameters).await;
        plans.push(planned.map_err(|error| status::of(&error))?);
    }
    Ok((Arc::clone(&plans[0].schema), Work::Plans(plans)))
}
