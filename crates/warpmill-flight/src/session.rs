//! Sessions: the settings, views, prepared statements and results of requests.
//!
//! A log-in returns a token that identifies a separate session. Clients without a token share one session per user until they set session options:
//! then they get a separate session, identified by a cookie. Prepared statements and results are identified by unguessable handles, which are valid
//! for the user who got them only.

mod handles;
mod options;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::metadata::MetadataMap;

pub(crate) use handles::{Handle, Handles, Item, Prepared, Running, Ticket, Work};
pub(crate) use options::{OptionError, OptionValue, SessionOptions};

use crate::auth::{ANONYMOUS, Auth, Credentials, SESSION_COOKIE, TOKEN_USER, cookie, credentials, secret};
use crate::config::{Config, ConfigError, Limits};

/// The session of one client, or the one that all clients of a user without a separate session share.
pub(crate) struct ClientSession {
    /// Id in logs.
    pub id: u64,
    /// Name of the user.
    pub user: Arc<str>,
    /// The address of the client that created it.
    from: Option<IpAddr>,
    /// Whether clients without a token or cookie share it.
    pub shared: bool,
    /// The engine's session.
    pub engine: warpmill::Session,
    /// Limits and options of this session.
    pub options: Mutex<SessionOptions>,
    /// Room for its statements.
    pub room: Arc<Semaphore>,
    /// Prepared statements and unread results.
    pub handles: AtomicUsize,
    closed: AtomicBool,
    used: Mutex<Instant>,
}

impl ClientSession {
    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.used.lock().elapsed()
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// All sessions.
pub(crate) struct Sessions {
    auth: Auth,
    config: Config,
    runtime: Arc<RuntimeEnv>,
    tables: Mutex<Tables>,
    next: AtomicU64,
    /// The handles that clients hold.
    pub handles: Handles,
}

#[derive(Default)]
struct Tables {
    tokens: HashMap<String, Token>,
    cookies: HashMap<String, Arc<ClientSession>>,
    shared: HashMap<Arc<str>, Arc<ClientSession>>,
}

impl Tables {
    /// The sessions that are not shared.
    fn own(&self) -> impl Iterator<Item = &Arc<ClientSession>> {
        self.tokens.values().filter_map(|token| token.session.as_ref()).chain(self.cookies.values())
    }
}

struct Token {
    /// `None`: it has ended. Its memory is freed before the token expires.
    session: Option<Arc<ClientSession>>,
    expires: Instant,
}

/// Time for which expired tokens are distinguished from unknown ones.
const REMEMBER_EXPIRED: Duration = Duration::from_secs(3600);

impl Sessions {
    pub(crate) fn new(config: &Config, runtime: Arc<RuntimeEnv>) -> Result<Self, ConfigError> {
        Ok(Self {
            auth: Auth::new(config)?,
            config: config.clone(),
            runtime,
            tables: Mutex::default(),
            next: AtomicU64::new(1),
            handles: Handles::default(),
        })
    }

    fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Sessions at present.
    pub(crate) fn count(&self) -> usize {
        let tables = self.tables.lock();
        tables.own().count() + tables.shared.len()
    }

    /// Refuses a new session if `user` or the address has too many.
    fn check_count(&self, user: &str, from: Option<IpAddr>) -> Result<(), Status> {
        let refuse = |whose: &str, limit: usize| {
            let text = format!("there are {limit} sessions{whose}, which is the limit: close some, or try later");
            Err(Status::resource_exhausted(text))
        };
        let (all, of_one) = (self.limits().sessions, self.limits().user_sessions);
        if self.count() >= all {
            return refuse("", all);
        }
        let tables = self.tables.lock();
        if tables.own().filter(|session| *session.user == *user).count() >= of_one {
            return refuse(" of this user", of_one);
        }
        match from.is_some() && tables.own().filter(|session| session.from == from).count() >= of_one {
            true => refuse(" from this address", of_one),
            false => Ok(()),
        }
    }

    /// The session of a request.
    pub(crate) async fn of_request(&self, headers: &MetadataMap) -> Result<Arc<ClientSession>, Status> {
        let user: Arc<str> = match credentials(headers) {
            Credentials::Bearer(token) => {
                if let Some(session) = self.of_token(&token)? {
                    session.touch();
                    return Ok(session);
                }
                match (self.auth.is_token(&token), self.auth.is_open()) {
                    (true, _) => TOKEN_USER.into(),
                    _ => return Err(Status::unauthenticated("this bearer token is not known: log in again")),
                }
            }
            _ if self.auth.is_open() => ANONYMOUS.into(),
            Credentials::None => return Err(Status::unauthenticated("this server wants a log-in or a bearer token")),
            Credentials::Basic(..) => {
                return Err(Status::unauthenticated(
                    "a name and a password are for the handshake, which gives a token",
                ));
            }
            Credentials::Malformed => {
                return Err(Status::unauthenticated(
                    "the authorization header is neither 'Bearer token' nor 'Basic ...'",
                ));
            }
        };
        let session = match cookie(headers, SESSION_COOKIE) {
            Some(id) => self.of_cookie(&id, &user)?,
            None => self.shared(user).await?,
        };
        session.touch();
        Ok(session)
    }

    fn of_token(&self, token: &str) -> Result<Option<Arc<ClientSession>>, Status> {
        let tables = self.tables.lock();
        let Some(found) = tables.tokens.get(token) else { return Ok(None) };
        if found.expires <= Instant::now() {
            return Err(Status::unauthenticated("this bearer token has expired: log in again"));
        }
        match &found.session {
            Some(session) if !session.is_closed() => Ok(Some(Arc::clone(session))),
            _ => Err(Status::unauthenticated("the session of this bearer token has ended: log in again")),
        }
    }

    fn of_cookie(&self, id: &str, user: &str) -> Result<Arc<ClientSession>, Status> {
        let found = self.tables.lock().cookies.get(id).filter(|session| &*session.user == user).cloned();
        found.ok_or_else(|| Status::unauthenticated("the session of this cookie has ended: connect again"))
    }

    async fn shared(&self, user: Arc<str>) -> Result<Arc<ClientSession>, Status> {
        if let Some(session) = self.tables.lock().shared.get(&user) {
            return Ok(Arc::clone(session));
        }
        let made = self.make(Arc::clone(&user), true, None).await?;
        Ok(Arc::clone(self.tables.lock().shared.entry(user).or_insert(made)))
    }

    /// Creates a separate session for the client with these headers, and its token. `payload` is the name and password in a handshake's message, used
    /// if the headers contain none.
    pub(crate) async fn log_in(
        &self,
        headers: &MetadataMap,
        payload: Option<(String, String)>,
        from: Option<IpAddr>,
    ) -> Result<(String, Arc<ClientSession>), Status> {
        let user: Arc<str> = match (credentials(headers), payload) {
            (Credentials::Bearer(token), _) if self.auth.is_token(&token) => TOKEN_USER.into(),
            // Drivers repeat the handshake with the token that they have got.
            (Credentials::Bearer(token), _) if !self.auth.is_open() => {
                let session = self.of_token(&token)?;
                let session = session.ok_or_else(|| Status::unauthenticated("this bearer token is not known"))?;
                return Ok((token, session));
            }
            _ if self.auth.is_open() => ANONYMOUS.into(),
            (Credentials::Basic(name, password), _) | (Credentials::None, Some((name, password))) => {
                self.auth.log_in(&name, password, from).await?
            }
            _ => return Err(Status::unauthenticated("a handshake needs a name and a password, or the server's token")),
        };
        let session = self.make(user, false, from).await?;
        let token = secret();
        let expires = Instant::now() + Duration::from_secs(self.config.token_ttl);
        self.tables.lock().tokens.insert(token.clone(), Token { session: Some(Arc::clone(&session)), expires });
        Ok((token, session))
    }

    /// Creates a separate session for a client that shares one, and its cookie.
    pub(crate) async fn separate(
        &self,
        shared: &ClientSession,
        from: Option<IpAddr>,
    ) -> Result<(String, Arc<ClientSession>), Status> {
        let session = self.make(Arc::clone(&shared.user), false, from).await?;
        let id = secret();
        self.tables.lock().cookies.insert(id.clone(), Arc::clone(&session));
        Ok((id, session))
    }

    async fn make(&self, user: Arc<str>, shared: bool, from: Option<IpAddr>) -> Result<Arc<ClientSession>, Status> {
        self.check_count(&user, from)?;
        let builder = self.config.settings.iter().fold(
            warpmill::Session::builder()
                .database(&self.config.database)
                .files_as_tables(self.config.allow_files)
                .environment(false)
                .runtime_env(Arc::clone(&self.runtime))
                .memory_limit(self.limits().query_memory)
                .set("profile", "off"),
            |builder, (name, value)| builder.set(name, value),
        );
        let engine = tokio::task::spawn_blocking(move || builder.build()).await.map_err(crate::status::internal)?;
        let session = ClientSession {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            user,
            from,
            shared,
            engine: engine.map_err(|error| crate::status::of(&error))?,
            options: Mutex::new(SessionOptions::new(self.limits())),
            room: Arc::new(Semaphore::new(self.limits().session_queries)),
            handles: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        };
        tracing::debug!(session = session.id, user = &*session.user, shared, "session begins");
        Ok(Arc::new(session))
    }

    /// Ends a session that is not shared: cancels its statements, and removes its handles and its token or cookie.
    pub(crate) fn close(&self, session: &Arc<ClientSession>) {
        session.closed.store(true, Ordering::Release);
        {
            let mut tables = self.tables.lock();
            tables.cookies.retain(|_, known| !Arc::ptr_eq(known, session));
            let own = tables.tokens.values_mut();
            let own = own.filter(|token| token.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)));
            own.for_each(|token| token.session = None);
        }
        self.handles.forget(session);
        tracing::debug!(session = session.id, user = &*session.user, "session ends");
    }

    /// Removes expired sessions.
    pub(crate) fn sweep(&self) {
        let idle = Duration::from_secs(self.limits().session_idle_seconds);
        let now = Instant::now();
        let ended: Vec<_> = {
            let mut tables = self.tables.lock();
            let is_idle = |session: &ClientSession| session.idle() > idle && !self.handles.is_running(session);
            let tokens = tables.tokens.values().filter_map(|token| Some((token.session.as_ref()?, token.expires)));
            let tokens = tokens.filter(|(session, expires)| *expires <= now || is_idle(session)).map(|(it, _)| it);
            let rest = tables.cookies.values().chain(tables.shared.values()).filter(|session| is_idle(session));
            let ended = tokens.chain(rest).cloned().collect();
            tables.tokens.retain(|_, token| token.expires + REMEMBER_EXPIRED > now);
            tables.shared.retain(|_, session| !is_idle(session));
            ended
        };
        ended.iter().for_each(|session| self.close(session));
        self.auth.sweep();
        self.handles.expire(Duration::from_secs(self.limits().ticket_seconds), idle);
    }
}
