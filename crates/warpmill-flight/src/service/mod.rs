//! The methods of the Flight service: authentication, dispatch and answers.

mod action;
mod bind;
pub(crate) mod held;
mod info;
mod ingest;
pub(crate) mod metadata;
mod options;
mod update;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::error::ArrowError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, Command, DoPutPreparedStatementResult, DoPutUpdateResult};
use arrow_flight::{
    Action, ActionType, BasicAuth, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, PollInfo, PutResult, SchemaAsIpc, SchemaResult, Ticket,
};
use futures::Stream;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::answer::Messages;
use crate::connection::Peer;
use crate::server::Shared;
use crate::session::ClientSession;
use crate::status::{self, malformed};

/// The service.
pub(crate) struct Flight(pub Arc<Shared>);

/// The time that a handshake without credentials in its headers may take to send them in a message.
const HANDSHAKE: Duration = Duration::from_secs(10);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Flight {
    async fn session(&self, headers: &MetadataMap) -> Result<Arc<ClientSession>, Status> {
        self.0.sessions.of_request(headers).await
    }
}

/// The client address of a request.
fn address<T>(request: &Request<T>) -> Option<IpAddr> {
    request.extensions().get::<Peer>().and_then(Peer::ip)
}

/// Parses the Flight SQL command of a descriptor or a ticket.
fn command(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(|error| malformed("the command", error))?;
    Command::try_from(any).map_err(|error| malformed("the command", error))
}

fn no_such_command(command: &Command) -> Status {
    status::new(tonic::Code::Unimplemented, format!("this server does not know the command {:?}", command.type_url()))
}

fn no_transactions(id: Option<&[u8]>) -> Result<(), Status> {
    match id {
        None | Some([]) => Ok(()),
        Some(_) => Err(Status::invalid_argument("there are no transactions: each statement is one")),
    }
}

fn one<T: Send + 'static>(answer: T) -> Response<Answers<T>> {
    Response::new(Box::pin(futures::stream::iter([Ok(answer)])))
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Messages;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let from = address(&request);
        let (headers, _, mut messages) = request.into_parts();
        let payload = match headers.contains_key("authorization") {
            true => None,
            false => payload(&mut messages).await?,
        };
        let (token, session) = self.0.sessions.log_in(&headers, payload, from).await?;
        tracing::info!(session = session.id, user = &*session.user, "log-in");
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let mut response = one(answer);
        let bearer = format!("Bearer {token}").parse().map_err(status::internal)?;
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.session(request.metadata()).await?;
        // Flight SQL has commands in place of flights.
        Ok(Response::new(Box::pin(futures::stream::empty())))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        let session = self.session(request.metadata()).await?;
        let descriptor = request.into_inner();
        let command = command(&descriptor.cmd)?;
        Ok(Response::new(info::info(&self.0, &session, command, descriptor).await?))
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        self.session(request.metadata()).await?;
        Err(Status::unimplemented("results need no polling: GetFlightInfo does not wait for them"))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let session = self.session(request.metadata()).await?;
        let schema = info::schema(&self.0, &session, command(&request.get_ref().cmd)?).await?;
        let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(&schema, &Default::default()).try_into();
        let IpcMessage(schema) = message.map_err(status::internal)?;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let session = self.session(request.metadata()).await?;
        let command = command(&request.get_ref().ticket)?;
        Ok(Response::new(info::rows(&self.0, &session, command).await?))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let session = self.session(request.metadata()).await?;
        let mut messages = request.into_inner();
        let first = messages.message().await.map_err(status::of_transport)?;
        let first = first.ok_or_else(|| Status::invalid_argument("the stream is empty: there is no command"))?;
        let descriptor = first.flight_descriptor.as_ref();
        let descriptor = descriptor.ok_or_else(|| Status::invalid_argument("the first message has no descriptor"))?;
        let command = command(&descriptor.cmd)?;
        let data = bind::Data::new(first, messages);
        let updated = |record_count| DoPutUpdateResult { record_count }.encode_to_vec();
        let metadata = match command {
            Command::CommandStatementUpdate(command) => {
                no_transactions(command.transaction_id.as_deref())?;
                updated(update::text(&self.0, &session, &command.query).await?)
            }
            Command::CommandPreparedStatementUpdate(command) => {
                let handle = command.prepared_statement_handle;
                updated(update::prepared(&self.0, &session, &handle, data).await?)
            }
            Command::CommandStatementIngest(command) => {
                updated(ingest::ingest(&self.0, &session, command, data).await?)
            }
            Command::CommandPreparedStatementQuery(command) => {
                let handle = command.prepared_statement_handle;
                bind::bind(&self.0, &session, &handle, data).await?;
                DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) }.encode_to_vec()
            }
            command => return Err(no_such_command(&command)),
        };
        Ok(one(PutResult { app_metadata: metadata.into() }))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.session(request.metadata()).await?;
        Err(Status::unimplemented("Flight SQL does not use DoExchange"))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let session = self.session(request.metadata()).await?;
        let from = address(&request);
        action::run(&self.0, &session, request.into_inner(), from).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        self.session(request.metadata()).await?;
        Ok(Response::new(Box::pin(futures::stream::iter(action::types().map(Ok)))))
    }
}

/// The name and the password in a handshake's first message, if any.
async fn payload(messages: &mut Streaming<HandshakeRequest>) -> Result<Option<(String, String)>, Status> {
    let first = tokio::time::timeout(HANDSHAKE, messages.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("the handshake has neither a header nor a message"))?;
    let Some(message) = first.map_err(status::of_transport)?.filter(|message| !message.payload.is_empty()) else {
        return Ok(None);
    };
    let decoded = BasicAuth::decode(message.payload).map_err(|error| malformed("the handshake", error))?;
    Ok(Some((decoded.username, decoded.password)))
}
