//! The users file: `name:hash` lines.

use std::collections::HashMap;
use std::path::Path;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordVerifier};

use super::hash_password;
use crate::config::ConfigError;

pub(super) struct Users {
    hashes: HashMap<String, String>,
    /// The hash that passwords of unknown names are verified against.
    nobody: String,
}

impl Users {
    /// Reads a file. Ignores empty lines and lines that begin with `#`.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::File(path.into(), error))?;
        let mut hashes = HashMap::new();
        for (i, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
            if line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| ConfigError::Invalid(format!("{}, line {}: {what}", path.display(), i + 1));
            let (name, hash) = line.split_once(':').ok_or_else(|| wrong("not name:hash"))?;
            let hash = hash.trim();
            if name.is_empty() {
                return Err(wrong("the name is empty"));
            }
            let parsed = PasswordHash::new(hash).ok().filter(|hash| hash.algorithm.as_str().starts_with("argon2"));
            parsed.ok_or_else(|| wrong("not an argon2 hash: make one with 'warpmill serve --hash-password'"))?;
            if hashes.insert(name.to_string(), hash.to_string()).is_some() {
                return Err(wrong("this name has a line already"));
            }
        }
        if hashes.is_empty() {
            return Err(ConfigError::Invalid(format!("{}: the file lists no users", path.display())));
        }
        Ok(Self { hashes, nobody: hash_password(&super::secret())? })
    }

    /// Whether the user exists and the password is theirs.
    pub(super) fn verify(&self, name: &str, password: &str) -> bool {
        let (known, hash) = match self.hashes.get(name) {
            Some(hash) => (true, hash),
            None => (false, &self.nobody),
        };
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        Argon2::default().verify_password(password.as_bytes(), &hash).is_ok() && known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let good = format!("ada:{}", hash_password("x").unwrap());
        for (text, what) in [
            ("ada".to_string(), "line 1: not name:hash"),
            ("\nada:secret".to_string(), "line 2: not an argon2 hash"),
            (format!(":{good}"), "line 1: the name is empty"),
            (format!("{good}\n{good}"), "line 2: this name"),
            ("# nobody".to_string(), "no users"),
        ] {
            std::fs::write(file.path(), &text).unwrap();
            let error = Users::read(file.path()).err().expect("refused").to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(matches!(Users::read(Path::new("/nowhere/users")), Err(ConfigError::File(..))));
    }
}
