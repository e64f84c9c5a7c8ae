//! Actions: prepared statements, cancellation, session options.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo, IpcMessage,
    SchemaAsIpc,
};
use parking_lot::Mutex;
use prost::Message;
use tonic::{Response, Status};

use super::{Answers, command, info, no_transactions, one, options};
use crate::answer::{announced, planning};
use crate::server::Shared;
use crate::session::{ClientSession, Item, Prepared};
use crate::statement::{Kind, Statement, explain_schema};
use crate::status::{self, malformed};

const CREATE: &str = "CreatePreparedStatement";
const CLOSE: &str = "ClosePreparedStatement";
const CANCEL_QUERY: &str = "CancelQuery";
const CANCEL_INFO: &str = "CancelFlightInfo";

/// The actions that [`run`] supports.
pub(super) fn types() -> impl Iterator<Item = ActionType> + Send {
    let actions = [
        (CREATE, "Prepares a statement: ActionCreatePreparedStatementRequest, ...Result"),
        (CLOSE, "Forgets a prepared statement: ActionClosePreparedStatementRequest"),
        (CANCEL_INFO, "Cancels a query: CancelFlightInfoRequest, CancelFlightInfoResult"),
        (CANCEL_QUERY, "The older form of CancelFlightInfo: ActionCancelQueryRequest, ActionCancelQueryResult"),
        (options::SET, "Sets options of the session: SetSessionOptionsRequest, SetSessionOptionsResult"),
        (options::GET, "The options of the session: GetSessionOptionsRequest, GetSessionOptionsResult"),
        (options::CLOSE, "Ends the session: CloseSessionRequest, CloseSessionResult"),
    ];
    let action = |(name, text): (&str, &str)| ActionType { r#type: name.into(), description: text.into() };
    actions.into_iter().map(action)
}

pub(super) async fn run(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    action: Action,
    from: Option<IpAddr>,
) -> Result<Response<Answers<arrow_flight::Result>>, Status> {
    let body = action.body;
    let answered = |message: Vec<u8>| Ok(one(arrow_flight::Result { body: message.into() }));
    match action.r#type.as_str() {
        CREATE => answered(create(server, session, unpack(&body)?).await?.as_any().encode_to_vec()),
        CLOSE => {
            let request: ActionClosePreparedStatementRequest = unpack(&body)?;
            let handle = &request.prepared_statement_handle;
            // Checked first: a handle of a result is not one of a statement.
            server.sessions.handles.prepared(&session.user, handle)?;
            server.sessions.handles.remove(&session.user, handle);
            Ok(Response::new(Box::pin(futures::stream::empty())))
        }
        CANCEL_QUERY => {
            let request: ActionCancelQueryRequest = unpack(&body)?;
            let info = FlightInfo::decode(request.info).map_err(|error| malformed("the FlightInfo", error))?;
            // Both enumerations have the same values.
            let result = cancel(server, session, &info)? as i32;
            answered(ActionCancelQueryResult { result }.as_any().encode_to_vec())
        }
        CANCEL_INFO => {
            let request = CancelFlightInfoRequest::decode(body).map_err(|error| malformed("the request", error))?;
            let info = request.info.ok_or_else(|| Status::invalid_argument("the request has no FlightInfo"))?;
            answered(CancelFlightInfoResult { status: cancel(server, session, &info)? as i32 }.encode_to_vec())
        }
        options::SET => options::set(server, session, body, from).await,
        options::GET => options::get(session, body),
        options::CLOSE => options::close(server, session, body),
        "BeginTransaction" | "EndTransaction" | "BeginSavepoint" | "EndSavepoint" => {
            Err(Status::unimplemented("there are no transactions: each statement is one"))
        }
        "CreatePreparedSubstraitPlan" => Err(Status::unimplemented("this server takes SQL, not Substrait plans")),
        other => {
            Err(status::new(tonic::Code::Unimplemented, format!("this server does not know the action {other:?}")))
        }
    }
}

fn unpack<M: ProstMessageExt>(body: &[u8]) -> Result<M, Status> {
    let any = Any::decode(body).map_err(|error| malformed("the action", error))?;
    let message = any.unpack().map_err(|error| malformed("the action", error))?;
    message.ok_or_else(|| Status::invalid_argument(format!("the action's body is not a {}", M::type_url())))
}

async fn create(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    request: ActionCreatePreparedStatementRequest,
) -> Result<ActionCreatePreparedStatementResult, Status> {
    no_transactions(request.transaction_id.as_deref())?;
    let statement = info::statement(server, session, &request.query).await?;
    let (dataset, parameters) = planning(server, session, schemas(session, &statement)).await?;
    let prepared = Prepared { statement, bound: Mutex::default() };
    let limit = server.policy.limits.handles;
    let handle = server.sessions.handles.put(session, Item::Prepared(Arc::new(prepared)), limit)?;
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.into(),
        dataset_schema: ipc(&dataset)?,
        parameter_schema: ipc(&parameters)?,
    })
}

/// The schema of a statement's rows, and its parameters. Drivers take a statement without columns for an update.
async fn schemas(session: &ClientSession, statement: &Statement) -> Result<(Schema, Schema), Status> {
    let explain = statement.kind == Kind::Explain;
    let bare = statement.parameters.is_empty();
    let described = match statement.kind {
        Kind::Explain | Kind::Command if bare => None,
        Kind::Explain => None,
        Kind::Edit => session.engine.describe(&statement.sql).await.ok(),
        _ => Some(session.engine.describe(&statement.sql).await.map_err(|error| status::of(&error))?),
    };
    let dataset = match &described {
        _ if explain => explain_schema().as_ref().clone(),
        Some(described) if statement.kind == Kind::Query => announced(&described.columns).as_ref().clone(),
        _ => Schema::empty(),
    };
    let types = described.map(|described| described.parameters).unwrap_or_default();
    Ok((dataset, parameter_schema(&statement.parameters, &types)))
}

/// Parameters of unknown type are texts, which the engine converts.
fn parameter_schema(names: &[String], types: &HashMap<String, Option<DataType>>) -> Schema {
    let field = |(i, name): (usize, &String)| {
        let found = types.get(&format!("${}", i + 1)).cloned().flatten();
        Field::new(name, found.filter(|found| *found != DataType::Null).unwrap_or(DataType::Utf8), true)
    };
    Schema::new(names.iter().enumerate().map(field).collect::<Vec<_>>())
}

fn ipc(schema: &Schema) -> Result<prost::bytes::Bytes, Status> {
    let options = Default::default();
    let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(schema, &options).try_into();
    let IpcMessage(bytes) = message.map_err(status::internal)?;
    Ok(bytes)
}

/// Cancels the results of a query, both waiting ones and those being read.
fn cancel(server: &Shared, session: &ClientSession, info: &FlightInfo) -> Result<CancelStatus, Status> {
    let handles = &server.sessions.handles;
    let mut found = None;
    for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
        let Command::TicketStatementQuery(ticket) = command(&ticket.ticket)? else { continue };
        if handles.cancel(&session.user, &ticket.statement_handle) {
            found = Some(CancelStatus::Cancelling);
        } else if handles.remove(&session.user, &ticket.statement_handle) {
            found = found.or(Some(CancelStatus::Cancelled));
        }
    }
    found.ok_or_else(|| Status::not_found("there is no such query, or it has ended"))
}
