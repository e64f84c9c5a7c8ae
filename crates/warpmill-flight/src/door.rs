//! The door between the transport and the service: every request ends with a typed status, whatever happens inside.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::FutureExt;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};

use crate::connection::Peer;
use crate::server::Shared;
use crate::service::Flight;
use crate::status;

/// Wraps the service: catches panics and counts requests.
#[derive(Clone)]
pub(crate) struct Door {
    service: FlightServiceServer<Flight>,
    server: Arc<Shared>,
}

impl Door {
    pub(crate) fn new(server: Arc<Shared>) -> Self {
        let limit = server.policy.limits.message_bytes;
        let service = FlightServiceServer::new(Flight(Arc::clone(&server)))
            .max_decoding_message_size(limit)
            // The bytes that the encoder adds to a message of rows at the limit.
            .max_encoding_message_size(limit.saturating_add(1 << 20));
        Self { service, server }
    }
}

impl NamedService for Door {
    const NAME: &'static str = <FlightServiceServer<Flight> as NamedService>::NAME;
}

impl Service<Request<Body>> for Door {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.asks();
        }
        let method = known_method(request.uri().path());
        let (mut service, server) = (self.service.clone(), Arc::clone(&self.server));
        Box::pin(async move {
            let answered = AssertUnwindSafe(async move { service.call(request).await }).catch_unwind().await;
            let response = match answered {
                Ok(Ok(response)) => response,
                Err(panic) => status::of_panic(&*panic, "request").into_http(),
            };
            let status = Status::from_header_map(response.headers());
            let code = status.as_ref().map_or(Code::Ok, Status::code);
            let response = match status.filter(|status| status.code() == Code::OutOfRange).map(status::of_transport) {
                Some(status) => status.into_http(),
                None => response,
            };
            server.metrics.request(method, code);
            Ok(response)
        })
    }
}

/// The method of a path as a metrics label; unknown paths share one label, so that clients cannot create new ones.
fn known_method(path: &str) -> &'static str {
    const METHODS: [&str; 10] = [
        "Handshake",
        "ListFlights",
        "GetFlightInfo",
        "PollFlightInfo",
        "GetSchema",
        "DoGet",
        "DoPut",
        "DoExchange",
        "DoAction",
        "ListActions",
    ];
    let name = path.rsplit('/').next().unwrap_or_default();
    METHODS.into_iter().find(|method| *method == name).unwrap_or("unknown")
}
