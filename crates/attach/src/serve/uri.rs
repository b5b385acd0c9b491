//! Where clients find an export, as the URI that they take.
//!
//! `nbd://HOST:PORT/NAME`, `nbd+unix:///NAME?socket=PATH`, with `nbds` under TLS. What a shell or a URI takes for something
//! else is written `%XX`.
//!
//! Source: the NBD project's `doc/uri.md`.

use crate::uri::encoded;

/// The port that need not be said.
const PORT: &str = "10809";

/// The URI of an export that is listened for at `listener`: `unix:PATH` or `HOST:PORT`.
pub(super) fn of(listener: &str, export: &str, tls: bool) -> String {
    let (scheme, export) = (if tls { "nbds" } else { "nbd" }, encoded(export));
    if let Some(path) = listener.strip_prefix("unix:") {
        let socket = std::path::absolute(path)
            .map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned());
        return format!("{scheme}+unix:///{export}?socket={}", encoded(&socket));
    }
    let (host, port) = listener.rsplit_once(':').unwrap_or((listener, PORT));
    let host = match host {
        "0.0.0.0" | "[::]" => "localhost",
        host => host,
    };
    let port = if port == PORT { String::new() } else { format!(":{port}") };
    format!("{scheme}://{host}{port}/{export}")
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn exports_have_the_uris_that_clients_take() {
        assert_eq!(of("127.0.0.1:10809", "", false), "nbd://127.0.0.1/");
        assert_eq!(of("0.0.0.0:4000", "vg0/home", true), "nbds://localhost:4000/vg0/home");
        assert_eq!(of("[::1]:10809", "a b", false), "nbd://[::1]/a%20b");
        assert_eq!(of("unix:/tmp/a&b", "x?y", false), "nbd+unix:///x%3Fy?socket=/tmp/a%26b");
        assert!(of("unix:s", "", false).ends_with("/s"));
    }
}
