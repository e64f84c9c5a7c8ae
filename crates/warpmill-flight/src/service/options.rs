//! SetSessionOptions, GetSessionOptions and CloseSession, whose messages the Arrow crate lacks.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use tonic::{Response, Status};

use super::{Answers, one};
use crate::auth::SESSION_COOKIE;
use crate::server::Shared;
use crate::session::{ClientSession, OptionError, OptionValue};
use crate::status::{self, malformed};

pub(super) const SET: &str = "SetSessionOptions";
pub(super) const GET: &str = "GetSessionOptions";
pub(super) const CLOSE: &str = "CloseSession";

/// Options that one request may set.
const MAX_OPTIONS: usize = 256;

#[derive(Clone, PartialEq, Message)]
struct StringList {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(sfixed64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Real(f64),
    #[prost(message, tag = "5")]
    List(StringList),
}

/// The value of an option; none resets the option.
#[derive(Clone, PartialEq, Message)]
struct SessionOptionValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    value: Option<Value>,
}

/// SetSessionOptionsRequest and GetSessionOptionsResult.
#[derive(Clone, PartialEq, Message)]
struct Options {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct SetError {
    #[prost(int32, tag = "1")]
    value: i32,
}

#[derive(Clone, PartialEq, Message)]
struct SetResult {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, SetError>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, Copy, PartialEq, Message)]
struct CloseResult {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// CloseSessionResult's CLOSED and NOT_CLOSEABLE.
const CLOSED: i32 = 1;
const NOT_CLOSEABLE: i32 = 3;

fn answered(message: &impl Message) -> Response<Answers<arrow_flight::Result>> {
    one(arrow_flight::Result { body: message.encode_to_vec().into() })
}

/// Sets options. A client that shares its session first gets a separate one, with a cookie.
pub(super) async fn set(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    body: Bytes,
    from: Option<IpAddr>,
) -> Result<Response<Answers<arrow_flight::Result>>, Status> {
    let request = Options::decode(body).map_err(|error| malformed("the request", error))?;
    if request.options.len() > MAX_OPTIONS {
        return Err(Status::resource_exhausted(format!("a request sets {MAX_OPTIONS} options at most")));
    }
    let separate = if session.shared { Some(server.sessions.separate(session, from).await?) } else { None };
    let session = separate.as_ref().map_or(session, |(_, session)| session);
    let mut errors = HashMap::new();
    for (name, SessionOptionValue { value }) in request.options {
        let outcome = session.set_option(&name, value.map(Into::into), &server.policy);
        if let Err(error) = outcome {
            let value = match error {
                OptionError::Name => 1,
                OptionError::Value => 2,
            };
            errors.insert(name, SetError { value });
        }
    }
    let mut response = answered(&SetResult { errors });
    if let Some((id, _)) = &separate {
        let cookie = format!("{SESSION_COOKIE}={id}; HttpOnly").parse().map_err(status::internal)?;
        response.metadata_mut().insert("set-cookie", cookie);
    }
    Ok(response)
}

/// The options set so far, and the session's limits.
pub(super) fn get(session: &ClientSession, body: Bytes) -> Result<Response<Answers<arrow_flight::Result>>, Status> {
    Nothing::decode(body).map_err(|error| malformed("the request", error))?;
    let all = session.options.lock().all().into_iter();
    let options = all.map(|(name, value)| (name, SessionOptionValue { value: Some(value.into()) })).collect();
    Ok(answered(&Options { options }))
}

/// Ends a session that its client does not share.
pub(super) fn close(
    server: &Shared,
    session: &Arc<ClientSession>,
    body: Bytes,
) -> Result<Response<Answers<arrow_flight::Result>>, Status> {
    Nothing::decode(body).map_err(|error| malformed("the request", error))?;
    if session.shared {
        return Ok(answered(&CloseResult { status: NOT_CLOSEABLE }));
    }
    server.sessions.close(session);
    Ok(answered(&CloseResult { status: CLOSED }))
}

impl From<Value> for OptionValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Text(text) => OptionValue::Text(text),
            Value::Flag(flag) => OptionValue::Flag(flag),
            Value::Integer(number) => OptionValue::Integer(number),
            Value::Real(number) => OptionValue::Real(number),
            Value::List(list) => OptionValue::List(list.values),
        }
    }
}

impl From<OptionValue> for Value {
    fn from(value: OptionValue) -> Self {
        match value {
            OptionValue::Text(text) => Value::Text(text),
            OptionValue::Flag(flag) => Value::Flag(flag),
            OptionValue::Integer(number) => Value::Integer(number),
            OptionValue::Real(number) => Value::Real(number),
            OptionValue::List(values) => Value::List(StringList { values }),
        }
    }
}
