//! Connections: limited in number, each counted until it closes. A connection without requests is closed after a time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use crate::server::Shared;

/// The time that a connection which is closed waits for its client to have read all and to close it, too.
const LINGER: Duration = Duration::from_secs(2);

/// The client of a connection, attached to its requests.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: Option<SocketAddr>,
    has_asked: Arc<AtomicBool>,
}

impl Peer {
    /// The client's address.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.ip())
    }

    /// Records a request.
    pub(crate) fn asks(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }
}

/// A TCP connection that counts toward the limit.
pub(crate) struct Connection {
    stream: TcpStream,
    peer: Peer,
    /// Deadline of the first request, in any phase: the client may be silent before it speaks HTTP/2, or after it has negotiated TLS.
    first: Option<Pin<Box<Sleep>>>,
    /// Deadline of lingering after all data have been written.
    linger: Option<Pin<Box<Sleep>>>,
    server: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

/// Accepts connections for ever. One too many is closed at once.
pub(crate) fn incoming(
    listener: TcpListener,
    server: Arc<Shared>,
) -> impl Stream<Item = io::Result<Connection>> + Send {
    let places = Arc::new(Semaphore::new(server.policy.limits.connections));
    futures::stream::unfold((listener, server, places), |(listener, server, places)| async move {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let place = Arc::clone(&places).try_acquire_owned().ok();
                    server.metrics.connection(place.is_some());
                    let Some(place) = place else {
                        tracing::warn!(%peer, "connection refused: there are too many");
                        continue;
                    };
                    server.metrics.open.inc();
                    tracing::debug!(%peer, "connection");
                    // Only latency suffers where the system refuses.
                    let _ = stream.set_nodelay(true);
                    let patience = Duration::from_secs(server.policy.limits.first_request_seconds);
                    let connection = Connection {
                        stream,
                        peer: Peer { address: Some(peer), has_asked: Arc::default() },
                        first: Some(Box::pin(sleep(patience))),
                        linger: None,
                        server: Arc::clone(&server),
                        _place: place,
                    };
                    return Some((Ok(connection), (listener, server, places)));
                }
                Err(error) => {
                    // Out of file descriptors, or the client has disconnected; the next one may succeed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.metrics.open.dec();
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        if own.peer.has_asked.load(Ordering::Relaxed) {
            own.first = None;
        }
        if own.first.as_mut().is_some_and(|first| first.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut own.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Closes the writing half, then discards the client's remaining data: closing a socket with unread data resets the connection, and the client
    /// would lose the end of its results.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = &mut *self;
        if own.linger.is_none() {
            ready!(Pin::new(&mut own.stream).poll_shutdown(context))?;
        }
        let linger = own.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if linger.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut unread = [0; 4096];
            let mut buffer = ReadBuf::new(&mut unread);
            match ready!(Pin::new(&mut own.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The client has closed it, or has disconnected.
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
