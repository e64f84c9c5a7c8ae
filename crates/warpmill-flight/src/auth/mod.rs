//! Authentication of clients: passwords, the token from the environment, and credentials in requests.

mod header;
mod tries;
mod users;

use std::net::IpAddr;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::rand_core::{OsRng, RngCore};
use argon2::password_hash::{PasswordHasher, SaltString};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::config::{Config, ConfigError};
pub(crate) use header::{Credentials, SESSION_COOKIE, cookie, credentials};
use tries::Tries;
use users::Users;

/// The user name of clients of a server without authentication.
pub(crate) const ANONYMOUS: &str = "anonymous";
/// The user name of clients with the token from the environment.
pub(crate) const TOKEN_USER: &str = "token";
/// Shortest token that is taken from the environment, in bytes.
const MIN_TOKEN: usize = 16;
/// Passwords verified at once: each takes 19 MiB and some 20 ms of a core.
const VERIFY_AT_ONCE: usize = 4;

/// The server's knowledge of its users.
pub(crate) struct Auth {
    users: Option<Arc<Users>>,
    token: Option<String>,
    verifying: Semaphore,
    tries: Tries,
}

impl Auth {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let users = config.users.as_deref().map(Users::read).transpose()?.map(Arc::new);
        let token = config.token_env.as_deref().map(token_of_environment).transpose()?;
        Ok(Self { users, token, verifying: Semaphore::new(VERIFY_AT_ONCE), tries: Tries::default() })
    }

    /// Whether the server requires no authentication.
    pub(crate) fn is_open(&self) -> bool {
        self.users.is_none() && self.token.is_none()
    }

    /// Whether `token` is that of the environment.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        self.token.as_deref().is_some_and(|known| equal(known.as_bytes(), token.as_bytes()))
    }

    /// Authenticates a user by name and password. Unknown names take as long as wrong passwords; after too many failures attempts are refused for a
    /// while.
    pub(crate) async fn log_in(&self, name: &str, password: String, from: Option<IpAddr>) -> Result<Arc<str>, Status> {
        let Some(users) = self.users.clone() else {
            return Err(Status::unauthenticated("this server has no passwords: send its token as a bearer token"));
        };
        let _room = self.verifying.acquire().await.map_err(crate::status::internal)?;
        self.tries.check(name, from)?;
        let name: Arc<str> = name.into();
        let asked = Arc::clone(&name);
        let known = tokio::task::spawn_blocking(move || users.verify(&asked, &password));
        match known.await.map_err(crate::status::internal)? {
            true => Ok(name),
            false => {
                self.tries.failed(&name, from);
                Err(Status::unauthenticated("wrong user name or password"))
            }
        }
    }

    /// Removes expired entries.
    pub(crate) fn sweep(&self) {
        self.tries.sweep();
    }
}

/// A new secret: 256 random bits as 64 hexadecimal digits.
pub(crate) fn secret() -> String {
    let mut bytes = [0; 32];
    OsRng.fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the users-file line for `password`, without the name: an argon2id hash with a fresh salt.
///
/// # Errors
/// A password that is empty, or longer than argon2 takes.
pub fn hash_password(password: &str) -> Result<String, ConfigError> {
    if password.is_empty() {
        return Err(ConfigError::Invalid("the password is empty".into()));
    }
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| ConfigError::Invalid(format!("cannot hash: {error}")))
}

fn token_of_environment(name: &str) -> Result<String, ConfigError> {
    let found = std::env::var(name).ok().map(|token| token.trim().to_string());
    match found {
        Some(token) if token.len() >= MIN_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token),
        Some(_) => Err(ConfigError::Invalid(format!(
            "the token in ${name} must have {MIN_TOKEN} printable ASCII characters at least, without spaces"
        ))),
        None => Err(ConfigError::Invalid(format!("there is no token in the environment variable {name}"))),
    }
}

/// Equality in a time that depends on the lengths only.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ() {
        let (a, b) = (secret(), secret());
        assert!(a != b && a.len() == 64);
        assert!(equal(a.as_bytes(), a.as_bytes()) && !equal(a.as_bytes(), b.as_bytes()) && !equal(b"", b"a"));
    }

    #[tokio::test]
    async fn passwords_are_verified() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = hash_password("open sesame").unwrap();
        assert!(line.starts_with("$argon2id$"));
        std::fs::write(file.path(), format!("# people\n\nada:{line}\n")).unwrap();
        let auth = Auth::new(&Config { users: Some(file.path().into()), ..Config::local("db") }).unwrap();
        assert!(!auth.is_open());
        assert_eq!(&*auth.log_in("ada", "open sesame".into(), None).await.unwrap(), "ada");
        for (name, password) in [("ada", "open sesam"), ("eve", "open sesame"), ("", ""), ("ada", "")] {
            let refused = auth.log_in(name, password.into(), None).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        }
        assert!(hash_password("").is_err());
    }
}
