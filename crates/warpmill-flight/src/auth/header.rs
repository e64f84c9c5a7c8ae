//! The contents of requests' headers.

use argon2::password_hash::Encoding;
use tonic::metadata::MetadataMap;

/// The name of the session cookie, as in other Flight SQL servers.
pub(crate) const SESSION_COOKIE: &str = "arrow_flight_session_id";

/// The `authorization` header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// No credentials.
    None,
    /// A bearer token.
    Bearer(String),
    /// A name and a password.
    Basic(String, String),
    /// Something else.
    Malformed,
}

pub(crate) fn credentials(headers: &MetadataMap) -> Credentials {
    let Some(value) = headers.get("authorization") else { return Credentials::None };
    let Some((scheme, rest)) = value.to_str().ok().and_then(|text| text.trim().split_once(' ')) else {
        return Credentials::Malformed;
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return Credentials::Bearer(rest.trim().to_string());
    }
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| base64(rest.trim())).flatten();
    match decoded.as_deref().and_then(|text| text.split_once(':')) {
        Some((name, password)) => Credentials::Basic(name.to_string(), password.to_string()),
        None => Credentials::Malformed,
    }
}

fn base64(text: &str) -> Option<String> {
    let text = text.trim_end_matches('=');
    let mut bytes = vec![0; text.len()];
    let decoded = Encoding::B64.decode(text, &mut bytes).ok()?;
    String::from_utf8(decoded.to_vec()).ok()
}

/// The value of a cookie.
pub(crate) fn cookie(headers: &MetadataMap, name: &str) -> Option<String> {
    headers.get_all("cookie").iter().filter_map(|value| value.to_str().ok()).find_map(|line| {
        line.split(';').filter_map(|pair| pair.trim().split_once('=')).find(|(key, _)| *key == name).map(
            |(_, value)| {
                let value = value.trim();
                value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value).to_string()
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> MetadataMap {
        let mut headers = MetadataMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn authorization_headers() {
        let read = |text: &str| credentials(&headers("authorization", text));
        let basic = |name: &str, password: &str| Credentials::Basic(name.into(), password.into());
        assert_eq!(credentials(&MetadataMap::new()), Credentials::None);
        assert_eq!(read("Bearer abc"), Credentials::Bearer("abc".into()));
        assert_eq!(read("bearer  abc"), Credentials::Bearer("abc".into()));
        assert_eq!(read("Basic YWRhOm9wZW4="), basic("ada", "open"));
        assert_eq!(read("basic YWRhOmE6Yg"), basic("ada", "a:b"));
        for text in ["Basic", "Basic !!!", "Basic YWRh", "Digest x", "", "Basic /////w=="] {
            assert_eq!(read(text), Credentials::Malformed, "{text}");
        }
    }

    #[test]
    fn cookies() {
        let map = headers("cookie", "a=1; arrow_flight_session_id=\"xyz\"; b=2");
        assert_eq!(cookie(&map, SESSION_COOKIE).as_deref(), Some("xyz"));
        assert_eq!(cookie(&map, "c"), None);
        assert_eq!(cookie(&headers("cookie", ";;=;x"), "x"), None);
    }
}
