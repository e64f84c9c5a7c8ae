//! Checks between the transport and the tasks: token, version, and the end of queries that their process has left.

use std::convert::Infallible;
use std::pin::Pin;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::NamedService;

use super::queries::{Queries, Task};
use crate::link::{QUERY_HEADER, Token, VERSION_HEADER, version};

/// The method that a query's process keeps open as long as it wants a task's rows.
const COORDINATION: &str = "/CoordinatorChannel";
/// The method that returns a worker's version, to processes of any version.
const INFO: &str = "/GetWorkerInfo";

/// A service behind checks.
#[derive(Clone)]
pub(super) struct Door<S> {
    service: S,
    token: Option<Token>,
    queries: Queries,
}

impl<S> Door<S> {
    pub fn new(service: S, token: Option<Token>, queries: Queries) -> Self {
        Self { service, token, queries }
    }

    fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), Status> {
        if let Some(token) = &self.token
            && !token.is_in(headers.get(AUTHORIZATION))
        {
            let given = if headers.contains_key(AUTHORIZATION) { "another token" } else { "no token" };
            let text = format!(
                "it asks for a token, and got {given}: set warpmill.workers_token_file to the file of the token"
            );
            return Err(Status::unauthenticated(text));
        }
        let given = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()).unwrap_or("of no version");
        if given != version() && !path.ends_with(INFO) {
            let text = format!(
                "it runs Warpmill {}, and the session {given}: all processes have to run the same version",
                version()
            );
            return Err(Status::failed_precondition(text));
        }
        Ok(())
    }
}

impl<S: NamedService> NamedService for Door<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Door<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Err(status) = self.check(request.uri().path(), request.headers()) {
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let query = request.headers().get(QUERY_HEADER).and_then(|value| value.to_str().ok());
        let query = query.filter(|_| request.uri().path().ends_with(COORDINATION));
        let task = query.map(|query| self.queries.begin(query));
        let mut service = self.service.clone();
        Box::pin(async move {
            let response = service.call(request).await?;
            Ok(match task {
                Some(task) => response.map(|body| Body::new(Held { body, _task: task })),
                None => response,
            })
        })
    }
}

/// The messages of a task to its query's process; they end when the query does.
struct Held {
    body: Body,
    _task: Task,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::codegen::http::HeaderValue;

    use super::*;
    use crate::link::read_token;

    fn headers(version: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(VERSION_HEADER, HeaderValue::from_str(version).unwrap());
        headers
    }

    #[test]
    fn another_version_is_refused_with_both() {
        let door = Door::new((), None, Queries::default());
        assert!(door.check("/x/ExecuteTask", &headers(&version())).is_ok());
        for other in ["0.0.9 protocol 1", "0.1.0 protocol 999", ""] {
            let status = door.check("/x/ExecuteTask", &headers(other)).unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition);
            assert!(status.message().contains(&version()) && status.message().contains(other), "{}", status.message());
        }
        assert!(door.check("/x/ExecuteTask", &HeaderMap::new()).is_err());
        // Processes of any version may request the version.
        assert!(door.check("/x/GetWorkerInfo", &headers("0.0.9 protocol 1")).is_ok());
    }

    #[test]
    fn all_methods_need_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        let door = Door::new((), Some(read_token(&path).unwrap()), Queries::default());
        let mut headers = headers(&version());
        for path in ["/x/GetWorkerInfo", "/x/ExecuteTask", "/x/CoordinatorChannel"] {
            headers.remove(AUTHORIZATION);
            assert_eq!(door.check(path, &headers).unwrap_err().code(), Code::Unauthenticated);
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer another-token-0"));
            assert_eq!(door.check(path, &headers).unwrap_err().code(), Code::Unauthenticated);
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer 0123456789abcdef"));
            assert!(door.check(path, &headers).is_ok());
        }
    }
}
