//! The token that all processes share.

use std::fmt;
use std::path::Path;

use http::HeaderValue;

/// Fewer characters can be guessed.
const SHORTEST: usize = 16;

/// A secret, which is not shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

impl Token {
    /// The header that carries it.
    pub fn header(&self) -> HeaderValue {
        let text = format!("Bearer {}", self.0);
        let mut value = HeaderValue::from_str(&text).expect("tokens are checked when they are read");
        value.set_sensitive(true);
        value
    }

    /// Whether `header` carries it; takes as long whatever is different.
    pub fn is_in(&self, header: Option<&HeaderValue>) -> bool {
        let Some(given) = header.and_then(|value| value.as_bytes().strip_prefix(b"Bearer ")) else { return false };
        let own = self.0.as_bytes();
        let differences = own.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == given.len() && differences == 0
    }
}

/// The token in file `path`.
///
/// # Errors
/// A text that names the file.
pub(crate) fn read_token(path: &Path) -> Result<Token, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = text.trim();
    if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let path = path.display();
        return Err(format!(
            "{path} does not contain a token, which has {SHORTEST} or more printable ASCII characters without spaces"
        ));
    }
    Ok(Token(text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_is_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for bad in ["", "short", "has a space in it", "ä".repeat(20).as_str()] {
            std::fs::write(&path, bad).unwrap();
            assert!(read_token(&path).unwrap_err().contains("token"));
        }
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let token = read_token(&path).unwrap();
        assert!(token.is_in(Some(&token.header())));
        for other in ["", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "bearer 0123456789abcdef"] {
            assert!(!token.is_in(Some(&HeaderValue::from_str(other).unwrap())), "{other}");
        }
        assert!(!token.is_in(None) && !format!("{token:?}").contains("0123"));
    }
}
