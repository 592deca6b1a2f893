//! The page's files, embedded in the program. For work on the page, debug builds serve them from the directory
//! in `CONSOLE_ASSETS_DIR` instead.

use std::path::Path;
use std::sync::OnceLock;

use axum::body::Body;
use axum::extract::Path as UrlPath;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

const INDEX: &str = "index.html";
const ASSETS_DIR_VAR: &str = "CONSOLE_ASSETS_DIR";
/// Bytes of the hash in an ETag.
const ETAG_BYTES: usize = 12;

pub(crate) async fn index(headers: HeaderMap) -> Response {
    serve(INDEX, &headers)
}

pub(crate) async fn asset(UrlPath(name): UrlPath<String>, headers: HeaderMap) -> Response {
    serve(&name, &headers)
}

fn serve(name: &str, headers: &HeaderMap) -> Response {
    if let Some(file) = from_directory(name) {
        return respond(name, file.into(), None);
    }
    let Some((index, (_, content))) = (EMBEDDED.iter().enumerate()).find(|(_, it)| it.0 == name)
    else {
        return Problem::not_found("The page has no such file.").into_response();
    };
    let etag = etags()[index].as_str();
    let known = headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    respond(name, Body::from(*content), Some(etag))
}

fn respond(name: &str, body: Body, etag: Option<&str>) -> Response {
    // The browser asks on every load: a new version of the program may have another file under this name.
    let headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    match etag {
        Some(etag) => (headers, [(header::ETAG, etag)], body).into_response(),
        None => (headers, body).into_response(),
    }
}

/// The ETags of the embedded files, in their order.
fn etags() -> &'static [String] {
    static ETAGS: OnceLock<Vec<String>> = OnceLock::new();
    let etag = |content: &[u8]| {
        let hash = Sha256::digest(content);
        let text: String = hash[..ETAG_BYTES]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("\"{text}\"")
    };
    ETAGS.get_or_init(|| EMBEDDED.iter().map(|(_, content)| etag(content)).collect())
}

fn from_directory(name: &str) -> Option<Vec<u8>> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let directory = std::env::var_os(ASSETS_DIR_VAR).filter(|value| !value.is_empty())?;
    // Only a file name, never a path.
    let is_name = Path::new(name).file_name().is_some_and(|it| it == name);
    is_name.then(|| std::fs::read(Path::new(&directory).join(name)).ok())?
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
