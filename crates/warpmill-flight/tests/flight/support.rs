//! A server in this process, and its clients.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use warpmill_flight::{Config, Server};

pub type Client = FlightSqlServiceClient<Channel>;

/// A server that stops when it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    _folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    pub served: Option<tokio::task::JoinHandle<Result<(), warpmill_flight::ConfigError>>>,
}

/// Deeply nested statements need the stack size that [`warpmill_flight::serve`] gives its threads.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().worker_threads(4).thread_stack_size(32 << 20).build().unwrap()
    })
}

/// Runs a test's future where servers run.
pub fn test(work: impl Future<Output = ()> + Send + 'static) {
    runtime().block_on(async { tokio::spawn(work).await }).unwrap();
}

pub fn start(change: impl FnOnce(&mut Config)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::local(folder.path().join("db"));
    config.metrics_port = Some(0);
    config.limits.memory = 4 << 30;
    config.limits.query_memory = 256 << 20;
    change(&mut config);
    let server = Server::bind(config).unwrap();
    let (address, metrics) = (server.address(), server.metrics_address());
    let (stop, stopped) = oneshot::channel();
    let served = runtime().spawn(async move { server.run(async { drop(stopped.await) }).await });
    Running { address, metrics, _folder: folder, stop: Some(stop), served: Some(served) }
}

impl Running {
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    /// A client with a separate session.
    pub async fn own(&self) -> Client {
        let mut client = self.client().await;
        client.handshake("", "").await.unwrap();
        client
    }

    /// The answer of `/metrics` or `/health`, with the status line.
    pub async fn http(&self, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(self.metrics.unwrap()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        error => panic!("not a status: {error}"),
    }
}

pub async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let announced = info.clone().try_decode_schema().unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    for batch in &batches {
        assert_eq!(batch.schema().as_ref(), &announced, "the columns are those announced");
    }
    Ok(batches)
}

pub async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, Status> {
    let info = client.execute(sql.to_string(), None).await.map_err(status)?;
    fetch(client, info).await.map_err(status)
}

pub async fn update(client: &mut Client, sql: &str) -> Result<i64, Status> {
    client.execute_update(sql.to_string(), None).await.map_err(status)
}

/// The first column of all rows, as integers.
pub fn numbers(batches: &[RecordBatch]) -> Vec<Option<i64>> {
    let column = |batch: &RecordBatch| {
        let cast = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Int64).unwrap();
        cast.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

pub async fn number(client: &mut Client, sql: &str) -> i64 {
    let rows = query(client, sql).await.unwrap_or_else(|status| panic!("{sql}: {status}"));
    let [Some(number)] = numbers(&rows)[..] else { panic!("{sql}: not one number") };
    number
}

pub async fn code(client: &mut Client, sql: &str) -> Code {
    query(client, sql).await.expect_err(sql).code()
}

/// Waits until `condition` holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    for _ in 0..1200 {
        if condition().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("{what}: not within 30 seconds");
}

/// The value of a metric without labels, or the sum of those with.
pub async fn metric(server: &Running, name: &str) -> f64 {
    let text = server.http("/metrics").await;
    let lines = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

pub fn batch(columns: Vec<(&str, arrow::array::ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

pub fn integers(values: impl IntoIterator<Item = Option<i64>>) -> arrow::array::ArrayRef {
    Arc::new(arrow::array::Int64Array::from_iter(values))
}
