//! A bucket or a web server as an object store for DataFusion.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::SpawnedReqwestConnector;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, CopyOptions, Error as StoreError, GetOptions, GetResult,
    GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, RetryConfig,
};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Runtime;

use super::fetch::{self, Bytes};
use super::settings::{RemoteOptions, UrlStyle};
use super::{RemoteError, RemoteReason};

/// The runtime of all requests: decoding rows or closing a session does not delay them.
pub(super) static NETWORK: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().thread_name("warpmill-net").build().expect("the system refuses threads")
});

/// The settings of a session, and the number of their changes.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub options: RwLock<(u64, RemoteOptions)>,
}

/// A bucket (`s3://bucket`) or a web server (`https://host`), with the session's current settings at each request.
///
/// The length of bodies is checked, errors are [`RemoteError`]s that name the object, and nothing is written. DataFusion's caches identify an object
/// by path, size and modification time, but not by store: the fraction of a second of that time is replaced by a hash that includes the store's name
/// and the object's entity tag, so that two objects are never confused.
pub(crate) struct RemoteStore {
    shared: Arc<Shared>,
    base: String,
    client: Mutex<Option<(u64, Arc<dyn ObjectStore>)>>,
}

impl RemoteStore {
    pub(super) fn new(shared: Arc<Shared>, base: String) -> Self {
        Self { shared, base, client: Mutex::default() }
    }

    fn url(&self, location: &Path) -> String {
        format!("{}/{location}", self.base)
    }

    fn is_web(&self) -> bool {
        !self.base.starts_with("s3:")
    }

    /// The client of the server.
    fn client(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut client = self.client.lock();
        let shared = self.shared.options.read();
        let (version, options) = &*shared;
        if let Some((made, known)) = &*client
            && made == version
        {
            return Ok(Arc::clone(known));
        }
        let made = connect(&self.base, options);
        let made = made.map_err(|reason| StoreError::from(RemoteError::new(self.base.clone(), reason)))?;
        *client = Some((*version, Arc::clone(&made)));
        Ok(made)
    }

    fn error(&self, location: &Path, error: &StoreError) -> StoreError {
        RemoteError::of(self.url(location), error).into()
    }

    /// Converts an error of a listing.
    fn list_error(&self, prefix: Option<&Path>, error: &StoreError) -> StoreError {
        let url = format!("{}/{}", self.base, prefix.map(ToString::to_string).unwrap_or_default());
        let found = RemoteError::of(url, error);
        let reason = match found.reason {
            RemoteReason::Status { status: 400..=499 | 501, .. } | RemoteReason::NotFound if self.is_web() => {
                RemoteReason::NoListing
            }
            reason => reason,
        };
        RemoteError::new(found.url, reason).into()
    }

    fn read_only<T>(&self) -> Result<T> {
        let operation = "writing to object stores and web servers".to_string();
        Err(StoreError::NotImplemented { operation, implementer: "Warpmill".into() })
    }
}

/// Makes the modification time of an object of store `base` unique.
fn stamp(base: &str, meta: &mut ObjectMeta) {
    static UNKNOWN: AtomicU64 = AtomicU64::new(0);
    let mut hash = DefaultHasher::new();
    (base, &meta.location, &meta.e_tag, meta.size).hash(&mut hash);
    if meta.e_tag.is_none() && meta.last_modified.timestamp() == 0 {
        // Changes are not detectable: each read gets a new time.
        UNKNOWN.fetch_add(1, Ordering::Relaxed).hash(&mut hash);
    }
    let within = Duration::from_nanos(meta.last_modified.timestamp_subsec_nanos().into());
    meta.last_modified = meta.last_modified - within + Duration::from_nanos(hash.finish() % 1_000_000_000);
}

/// A client for `base`.
fn connect(base: &str, options: &RemoteOptions) -> Result<Arc<dyn ObjectStore>, RemoteReason> {
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            ..BackoffConfig::default()
        },
        max_retries: options.http_retries,
        retry_timeout: (options.http_timeout * (options.http_retries as u32 + 1)).min(Duration::from_secs(240)),
    };
    let failed = |error: StoreError| RemoteReason::Settings(error.to_string());
    let connector = SpawnedReqwestConnector::new(NETWORK.handle().clone());
    if let Some(bucket) = base.strip_prefix("s3://") {
        let builder = s3(bucket, options)?.with_retry(retry).with_http_connector(connector);
        return Ok(Arc::new(builder.build().map_err(failed)?));
    }
    if base.starts_with("http://") && !options.allow_http {
        return Err(RemoteReason::NoTls);
    }
    let client = ClientOptions::new()
        .with_timeout(options.http_timeout)
        .with_connect_timeout(options.http_timeout.min(Duration::from_secs(10)))
        .with_allow_http(options.allow_http);
    let builder = HttpBuilder::new().with_url(base).with_client_options(client).with_retry(retry);
    Ok(Arc::new(builder.with_http_connector(connector).build().map_err(failed)?))
}

/// The client of a bucket: the environment's configuration, overridden by the settings.
fn s3(bucket: &str, options: &RemoteOptions) -> Result<AmazonS3Builder, RemoteReason> {
    let mut builder = AmazonS3Builder::new();
    let own_key = !options.s3_access_key_id.is_empty();
    if own_key == options.s3_secret_access_key.is_empty() {
        let text = "warpmill.s3_access_key_id and warpmill.s3_secret_access_key are set together, or neither is";
        return Err(RemoteReason::Settings(text.into()));
    }
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let Some(key) =
            name.strip_prefix("AWS_").and_then(|_| name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>().ok())
        else {
            continue;
        };
        // An access key from the settings does not combine with a session token from the environment.
        let credential = matches!(
            key,
            AmazonS3ConfigKey::AccessKeyId | AmazonS3ConfigKey::SecretAccessKey | AmazonS3ConfigKey::Token
        );
        let from_elsewhere = own_key && credential;
        if !from_elsewhere && !value.is_empty() {
            builder = builder.with_config(key, value);
        }
    }
    if own_key {
        builder = builder
            .with_access_key_id(&options.s3_access_key_id)
            .with_secret_access_key(options.s3_secret_access_key.reveal());
        if !options.s3_session_token.is_empty() {
            builder = builder.with_token(options.s3_session_token.reveal());
        }
    }
    if options.s3_skip_signature {
        builder = builder.with_skip_signature(true);
    }
    if !options.s3_region.is_empty() {
        builder = builder.with_region(&options.s3_region);
    }
    let of_environment = || {
        let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        value(AmazonS3ConfigKey::S3Endpoint).or_else(|| value(AmazonS3ConfigKey::Endpoint))
    };
    let endpoint = match options.s3_endpoint.as_str() {
        "" => of_environment(),
        endpoint if endpoint.contains("://") => Some(endpoint.to_string()),
        endpoint => Some(format!("{}://{endpoint}", if options.s3_use_ssl { "https" } else { "http" })),
    };
    let in_host = match options.s3_url_style {
        UrlStyle::Auto => endpoint.is_none() && !bucket.contains('.'),
        UrlStyle::Path => false,
        UrlStyle::VirtualHost => true,
    };
    builder = builder.with_bucket_name(bucket).with_virtual_hosted_style_request(in_host);
    if let Some(endpoint) = endpoint {
        let endpoint = endpoint.trim_end_matches('/');
        // An explicit `http://` endpoint allows plain HTTP.
        builder = builder.with_allow_http(options.allow_http || endpoint.starts_with("http://"));
        let named = match endpoint.split_once("://") {
            Some((scheme, host)) if in_host => format!("{scheme}://{bucket}.{host}"),
            _ => endpoint.to_string(),
        };
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, named);
    }
    let millis = |time: Duration| format!("{}ms", time.as_millis());
    let connect = options.http_timeout.min(Duration::from_secs(10));
    Ok(builder
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), millis(options.http_timeout))
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), millis(connect)))
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteStore({})", self.base)
    }
}

impl fmt::Display for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

/// Converts an error within a body, after `found` of `expected` bytes.
fn broken(url: String, error: &StoreError, (found, expected): (u64, u64)) -> RemoteError {
    let error = RemoteError::of(url, error);
    match error.reason {
        RemoteReason::Connection { .. } => RemoteError::new(error.url, RemoteReason::Truncated { found, expected }),
        _ => error,
    }
}

/// `body` with errors that name `url`, and an error unless it has `expected` bytes.
fn checked(body: BoxStream<'static, Result<Bytes>>, url: String, expected: u64) -> BoxStream<'static, Result<Bytes>> {
    let next = move |(mut body, url, found): (BoxStream<'static, Result<Bytes>>, String, u64)| async move {
        match body.next().await {
            Some(Ok(bytes)) => {
                let found = found + bytes.len() as u64;
                Ok(Some((bytes, (body, url, found))))
            }
            Some(Err(error)) => Err(broken(url, &error, (found, expected)).into()),
            None if found == expected => Ok(None),
            None => Err(RemoteError::new(url, RemoteReason::Truncated { found, expected }).into()),
        }
    };
    futures::stream::try_unfold((body, url, 0), next).boxed()
}

#[async_trait]
impl ObjectStore for RemoteStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let client = self.client().map_err(|error| self.error(location, &error))?;
        let head = options.head;
        let result = client.get_opts(location, options).await;
        let mut result = result.map_err(|error| self.error(location, &error))?;
        stamp(&self.base, &mut result.meta);
        if let (GetResultPayload::Stream(body), false) = (result.payload, head) {
            let expected = result.range.end - result.range.start;
            result.payload = GetResultPayload::Stream(checked(body, self.url(location), expected));
        } else {
            result.payload = GetResultPayload::Stream(futures::stream::empty().boxed());
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        fetch::ranges(self, location, ranges).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return futures::stream::once(async move { Err(error) }).boxed(),
        };
        let (base, prefix) = (self.base.clone(), prefix.cloned());
        let this = Self { shared: Arc::clone(&self.shared), base: base.clone(), client: Mutex::default() };
        let stamped = move |mut meta: ObjectMeta| {
            stamp(&base, &mut meta);
            meta
        };
        let list = client.list(prefix.as_ref());
        list.map_ok(stamped).map_err(move |error| this.list_error(prefix.as_ref(), &error)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let client = self.client()?;
        let list = client.list_with_delimiter(prefix).await;
        let mut list = list.map_err(|error| self.list_error(prefix, &error))?;
        list.objects.iter_mut().for_each(|meta| stamp(&self.base, meta));
        Ok(list)
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        self.read_only()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.read_only()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let refused = self.read_only();
        futures::stream::once(async move { refused }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        self.read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(settings: &[(&str, &str)]) -> RemoteOptions {
        let mut options = RemoteOptions::default();
        settings.iter().for_each(|(key, value)| options.set(key, value).unwrap().unwrap());
        options
    }

    fn endpoint(bucket: &str, settings: &[(&str, &str)]) -> Option<String> {
        s3(bucket, &options(settings)).unwrap().get_config_value(&AmazonS3ConfigKey::S3Endpoint)
    }

    #[test]
    fn endpoints_are_hosts_or_urls() {
        let set = |text| [("s3_endpoint", text), ("s3_region", "eu-1")];
        assert_eq!(endpoint("b", &set("minio:9000")).as_deref(), Some("https://minio:9000"));
        assert_eq!(endpoint("b", &set("http://minio:9000/")).as_deref(), Some("http://minio:9000"));
        let plain = [("s3_endpoint", "minio:9000"), ("s3_use_ssl", "off"), ("s3_url_style", "vhost")];
        assert_eq!(endpoint("b", &plain).as_deref(), Some("http://b.minio:9000"));
    }

    #[test]
    fn half_a_key_and_plain_http_are_refused() {
        let half = options(&[("s3_access_key_id", "id")]);
        assert!(matches!(connect("s3://b", &half), Err(RemoteReason::Settings(_))));
        assert!(matches!(connect("http://h", &options(&[])), Err(RemoteReason::NoTls)));
        assert!(connect("http://h", &options(&[("allow_http", "on")])).is_ok());
    }

    #[test]
    fn nothing_shows_a_key() {
        let shared = Shared::default();
        *shared.options.write() = (1, options(&[("s3_access_key_id", "id"), ("s3_secret_access_key", "hush")]));
        let store = RemoteStore::new(Arc::new(shared), "s3://b".into());
        store.client().unwrap();
        let text = format!("{store:?} {store} {:?}", store.shared);
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn objects_of_other_stores_or_tags_have_another_time() {
        let mut meta = ObjectMeta {
            location: Path::from("x"),
            last_modified: Default::default(),
            size: 7,
            e_tag: Some("\"1\"".into()),
            version: None,
        };
        let mut times = std::collections::HashSet::new();
        for (base, tag) in
            [("s3://a", Some("\"1\"")), ("s3://b", Some("\"1\"")), ("s3://a", Some("\"2\"")), ("s3://a", None)]
        {
            meta.e_tag = tag.map(String::from);
            stamp(base, &mut meta);
            times.insert(meta.last_modified);
            stamp(base, &mut meta);
            assert_eq!(times.insert(meta.last_modified), tag.is_none(), "the same object, if that can be told");
        }
        assert_eq!(times.len(), 5);
    }
}
