//! `/metrics` and `/health`, over plain HTTP on a separate port.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Now;
use crate::server::Shared;

/// Serves until `stop` ends.
pub(crate) async fn serve(
    listener: TcpListener,
    server: Arc<Shared>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(server);
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}

async fn metrics(State(server): State<Arc<Shared>>) -> impl IntoResponse {
    let now = Now {
        running: server.sessions.handles.running(),
        waiting: server.admission.waiting(),
        sessions: server.sessions.count(),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.metrics.text(&now))
}

/// 200 while statements are taken, 503 from the moment the server begins to shut down.
async fn health(State(server): State<Arc<Shared>>) -> impl IntoResponse {
    match server.admission.is_draining() {
        false => (StatusCode::OK, "serving\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n"),
    }
}
