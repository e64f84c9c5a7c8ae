//! Connections to other executors.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;

/// Most executors whose connections are kept.
const MOST: usize = 1024;

/// One connection to each executor, which carries all its requests at once. It is made again by itself when it breaks.
#[derive(Default)]
pub(crate) struct Clients {
    known: Mutex<HashMap<(String, u16, GrpcClientConfig), BallistaClient>>,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clients")
    }
}

#[async_trait]
impl BallistaClientPool for Clients {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        let key = (host.to_string(), port, config.clone());
        let known = self.known.lock().get(&key).cloned();
        let client = match known {
            Some(client) => client,
            None => {
                let client = BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                );
                let client = client.await?;
                let mut known = self.known.lock();
                if known.len() >= MOST {
                    known.clear();
                }
                known.entry(key).or_insert(client).clone()
            }
        };
        // It is not taken from the pool.
        Ok(PooledClient::new(client, Box::new(drop)))
    }

    async fn evict_idle(&self) {}
}
