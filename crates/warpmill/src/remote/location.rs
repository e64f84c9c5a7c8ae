//! The location that a text such as `s3://bucket/folder/*.parquet` names.

use datafusion::datasource::listing::ListingTableUrl;

use super::{RemoteError, RemoteReason};

/// Whether `text` names something in an object store or on a web server.
pub fn is_remote(text: &str) -> bool {
    ["s3://", "https://", "http://"].iter().any(|scheme| starts_with(text, scheme))
}

fn starts_with(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// A file, the files below a folder, or the files that match a pattern.
#[derive(Debug, Clone)]
pub(super) struct Location {
    /// Its URL for DataFusion.
    pub url: ListingTableUrl,
    /// Its name in errors.
    pub shown: String,
    /// `s3://bucket`, `https://host:port`.
    pub base: String,
    /// Whether it is on a web server.
    pub web: bool,
}

impl Location {
    /// Parses a URL. Paths in buckets are literal, except for `*`, `?` and `[`, which make a pattern; paths on web servers are URL-encoded, with
    /// `%20` for a space.
    ///
    /// # Errors
    /// [`RemoteReason::BadUrl`]: no host, a name or password, a query; [`RemoteReason::NoListing`]: a pattern on a web server.
    pub fn parse(text: &str) -> Result<Self, RemoteError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = scheme.to_ascii_lowercase();
        let web = scheme != "s3";
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A part that may be secret must not be in a message.
        let host_only = host.rsplit('@').next().unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
        let base = format!("{scheme}://{host_only}");
        let bare_path = if web { path.split(['?', '#']).next().unwrap_or_default() } else { path };
        let shown = format!("{base}/{bare_path}");
        let bad = |text: &str| RemoteError::new(shown.clone(), RemoteReason::BadUrl(text.into()));
        if host_only.is_empty() {
            return Err(bad(if web { "the URL has no host" } else { "the URL has no bucket" }));
        }
        if host.contains('@') {
            return Err(bad("a name and a password in a URL would be shown in plans: they are not taken"));
        }
        if web && bare_path != path || host != host_only {
            return Err(bad("a URL with a query (?...) or a fragment (#...) is not read"));
        }
        if bare_path.is_empty() {
            return Err(bad("the URL has no path"));
        }
        let is_pattern = |segment: &&str| segment.contains(['*', '?', '[']);
        let segments: Vec<&str> = bare_path.split('/').collect();
        let first = segments.iter().position(is_pattern);
        if web && (first.is_some() || bare_path.ends_with('/')) {
            return Err(RemoteError::new(shown, RemoteReason::NoListing));
        }
        let url = match first {
            None if web => ListingTableUrl::parse(&shown),
            None => ListingTableUrl::parse(format!("{base}/{}", escaped(bare_path))),
            Some(first) => {
                let folder = segments[..first].iter().map(|segment| escaped(segment) + "/").collect::<String>();
                let pattern = segments[first..].join("/");
                ListingTableUrl::parse(format!("{base}/{folder}")).and_then(|url| url.with_glob(&pattern))
            }
        };
        let url = url.map_err(|error| bad(&error.strip_backtrace()))?;
        Ok(Self { url, shown, base, web })
    }

    /// Whether it is one file, if it is there.
    pub fn is_file(&self) -> bool {
        !self.url.is_collection() && self.url.get_glob().is_none()
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or_default()
    }
}

/// A path in a bucket as it stands in a URL.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'=' | b'+' | b',' | b'@' | b':' | b'$' | b'!' | b'&' | b'(' | b')' => {
                text.push(byte.into());
            }
            byte if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_known_in_any_case() {
        assert!(is_remote("s3://b/x") && is_remote("HTTPS://h/x") && is_remote("http://h/x"));
        assert!(!is_remote("/s3://b") && !is_remote("file:///x") && !is_remote("s3:/b") && !is_remote(""));
    }

    #[test]
    fn files_folders_and_patterns() {
        let file = Location::parse("s3://bucket/a b/50%.parquet").unwrap();
        assert!(file.is_file() && !file.web);
        assert_eq!((file.url.prefix().as_ref(), file.base.as_str()), ("a b/50%.parquet", "s3://bucket"));
        assert!(!Location::parse("s3://bucket/folder/").unwrap().is_file());
        let glob = Location::parse("s3://bucket/year=2020/part-?.parquet").unwrap();
        assert_eq!(glob.url.prefix().as_ref(), "year=2020");
        assert!(glob.url.contains(&"year=2020/part-7.parquet".into(), true));
        assert!(!glob.url.contains(&"year=2020/part-77.parquet".into(), true));
        let web = Location::parse("https://host:8443/a%20b.parquet").unwrap();
        assert_eq!((web.url.prefix().as_ref(), web.base.as_str()), ("a b.parquet", "https://host:8443"));
    }

    #[test]
    fn what_is_not_understood_is_refused_without_secrets() {
        for url in [
            "https://user:hush@host/x.parquet",
            "https://host/x.parquet?X-Amz-Signature=hush",
            "https://host?hush",
            "s3://hush@bucket/x",
            "s3:///x",
            "https://host",
            "https://host/*.parquet",
            "https://host/folder/",
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
