//! Channels to workers: one connection each, with keepalive pings.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tower::ServiceExt;
use url::Url;
use warpmill::{Error, WorkerOptions};

use super::errors::named;
use super::{Token, VERSION_HEADER, read_token, version};

/// How workers are reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub token: Option<Token>,
    /// The certificates that sign the workers' certificates, PEM; `None`: connections without TLS.
    pub ca: Option<Vec<u8>>,
    pub timeout: Duration,
}

impl Access {
    /// The access for a session's settings.
    ///
    /// # Errors
    /// [`Error::Setting`] for files that cannot be read.
    pub fn of(options: &WorkerOptions) -> Result<Self, Error> {
        let named = |key: &str, text: String| Error::Setting(format!("warpmill.{key}: {text}"));
        let token = (!options.token_file.is_empty()).then(|| read_token(options.token_file.as_ref())).transpose();
        let read = |path: &String| std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"));
        let ca = (!options.ca_file.is_empty()).then(|| read(&options.ca_file)).transpose();
        Ok(Self {
            token: token.map_err(|text| named("workers_token_file", text))?,
            ca: ca.map_err(|text| named("workers_ca_file", text))?,
            timeout: options.timeout,
        })
    }

    fn scheme(&self) -> &'static str {
        if self.ca.is_some() { "https" } else { "http" }
    }

    /// The URL of the worker at `address`, `host:port`.
    ///
    /// # Errors
    /// [`Error::Setting`] for an invalid address.
    pub fn url(&self, address: &str) -> Result<Url, Error> {
        let url = Url::parse(&format!("{}://{address}", self.scheme()));
        url.map_err(|error| Error::Setting(format!("warpmill.workers: {address} is not a valid address: {error}")))
    }

    fn endpoint(&self, url: &Url) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(url.to_string()).map_err(|error| error.to_string())?;
        let endpoint = endpoint
            .connect_timeout(self.timeout)
            // A vanished machine sends nothing: the ping fails if it does not answer in time.
            .http2_keep_alive_interval(self.timeout.div_f64(2.0).max(Duration::from_millis(200)))
            .keep_alive_timeout(self.timeout.div_f64(2.0).max(Duration::from_millis(200)))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match &self.ca {
            None => Ok(endpoint),
            Some(pem) => {
                let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
                endpoint.tls_config(tls).map_err(|error| format!("TLS: {error}"))
            }
        }
    }
}

/// The runtime of all connections of this process.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().worker_threads(1).thread_name("warpmill-link");
    builder.build().expect("the system refuses threads")
});

/// `host:port` of a worker's URL.
fn url_of(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// Open channels by URL.
#[derive(Clone)]
pub(crate) struct Channels {
    access: Access,
    open: Arc<Mutex<HashMap<Url, BoxCloneSyncChannel>>>,
}

impl Channels {
    pub fn new(access: Access) -> Self {
        Self { access, open: Arc::default() }
    }

    /// The channel to `url`. It connects at the first use, and again after the connection was lost.
    fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel, Error> {
        if let Some(channel) = self.open.lock().get(url) {
            return Ok(channel.clone());
        }
        let worker = url_of(url);
        let endpoint = self.access.endpoint(url).map_err(|reason| Error::Worker { worker, reason })?;
        let version = HeaderValue::from_str(&version()).expect("a version is printable");
        let token = self.access.token.as_ref().map(Token::header);
        // Sessions have runtimes of their own, which may end before the channel does.
        let _inside = RUNTIME.enter();
        let signed = endpoint.connect_lazy().map_request(move |mut request: http::Request<Body>| {
            let headers = request.headers_mut();
            headers.insert(HeaderName::from_static(VERSION_HEADER), version.clone());
            if let Some(token) = &token {
                headers.insert(AUTHORIZATION, token.clone());
            }
            request
        });
        let channel = BoxCloneSyncChannel::new(signed);
        self.open.lock().insert(url.clone(), channel.clone());
        Ok(channel)
    }

    /// Requests the version of the worker at `url`.
    ///
    /// # Errors
    /// [`Error::Worker`] if it does not answer within `time`, or refuses to.
    pub async fn ask(&self, url: &Url, time: Duration) -> Result<String, Error> {
        let worker = url_of(url);
        let mut client = create_worker_client(self.channel(url)?);
        match tokio::time::timeout(time, client.get_worker_info(GetWorkerInfoRequest {})).await {
            Ok(Ok(info)) => Ok(info.version),
            Ok(Err(error)) => Err(match Error::from(named(&worker, error)) {
                error @ Error::Worker { .. } => error,
                error => Error::Worker { worker, reason: error.to_string() },
            }),
            Err(_) => {
                // Drops the connection, on which other requests would wait as well.
                self.open.lock().remove(url);
                let reason = format!("no answer within {:.1} seconds", time.as_secs_f64());
                Err(Error::Worker { worker, reason })
            }
        }
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let inner = create_worker_client(self.channel(url)?);
        Ok(Box::new(Named { worker: url_of(url), inner }))
    }
}

/// A channel whose errors name the worker.
struct Named {
    worker: String,
    inner: Box<dyn WorkerChannel>,
}

impl Named {
    fn stream<T: 'static>(&self, stream: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
        let worker = self.worker.clone();
        stream.map(move |item| item.map_err(|error: DataFusionError| named(&worker, error))).boxed()
    }
}

#[async_trait]
impl WorkerChannel for Named {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let answers = self.inner.coordinator_channel(headers, plan, messages, metrics, context).await;
        answers.map(|answers| self.stream(answers)).map_err(|error| named(&self.worker, error))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let streams = self.inner.execute_task(headers, request, metrics, context).await;
        let streams = streams.map_err(|error| named(&self.worker, error))?;
        Ok(streams.into_iter().map(|stream| self.stream(stream)).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await.map_err(|error| named(&self.worker, error))
    }
}
