//! Who may use the console. A request must use one of the console's own host names, which prevents DNS
//! rebinding. An action must come from the console's own page, with the token.

use std::sync::Arc;

use anyhow::ensure;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::problem::Problem;

/// The header with the token.
const TOKEN: HeaderName = HeaderName::from_static("x-console-token");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Shortest token that may be set.
const TOKEN_LEN_MIN: usize = 8;
/// Host names of the machine itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// The page loads nothing from other hosts, runs no inline script, and cannot be framed.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Fails if a token is too short, or cannot be part of a header and a URL.
pub(crate) fn check_token(token: &str) -> anyhow::Result<()> {
    ensure!(
        token.len() >= TOKEN_LEN_MIN && token.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "use at least {TOKEN_LEN_MIN} characters, only ASCII letters and digits"
    );
    Ok(())
}

/// The middleware around every route.
pub(crate) async fn protect(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let allowed = check(&app, request.method(), request.headers());
    let mut response = match allowed {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(app: &App, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, &header::HOST).unwrap_or_default();
    if !is_allowed(host, &app.options.hosts) {
        let detail = "The console does not accept this host name. Open the link that it printed, or add the \
                      name to CONSOLE_HOSTS.";
        return Err(forbidden("wrong_host", detail));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    if is_cross_site(headers, host) {
        return Err(forbidden(
            "cross_site",
            "The console accepts actions only from its own page. Open the link that it printed.",
        ));
    }
    let sent = text(headers, &TOKEN).unwrap_or_default();
    let token = app.options.token.reveal();
    if !bool::from(sent.as_bytes().ct_eq(token.as_bytes())) {
        let detail = "Actions need the console's token. Open the link that the console printed.";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", detail));
    }
    Ok(())
}

fn forbidden(code: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, detail)
}

/// Whether the `Host` header has a loopback name or a name from the settings. The port may differ: a container
/// publishes its port under another number.
fn is_allowed(host: &str, extra: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    LOOPBACK.contains(&name) || extra.iter().any(|it| it == name)
}

/// Whether a page of another origin sent the request. A client that is not a browser sends neither header.
fn is_cross_site(headers: &HeaderMap, host: &str) -> bool {
    let foreign_site =
        text(headers, &FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let foreign_origin = headers.contains_key(header::ORIGIN)
        && text(headers, &header::ORIGIN) != Some(&format!("http://{host}"));
    foreign_site || foreign_origin
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_allowed_as_host() {
        let extra = ["console".to_owned()];
        for host in [
            "127.0.0.1:8080",
            "localhost",
            "[::1]:9",
            "[::1]",
            "console:8080",
        ] {
            assert!(is_allowed(host, &extra), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "::1",
        ] {
            assert!(!is_allowed(host, &extra), "{host}");
        }
    }

    #[test]
    fn request_of_another_origin_is_cross_site() {
        let sent = |name: HeaderName, value: &'static str| {
            HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
        };
        let host = "127.0.0.1:8080";
        for headers in [
            sent(header::ORIGIN, "http://127.0.0.1:8081"),
            sent(header::ORIGIN, "null"),
            sent(FETCH_SITE, "cross-site"),
            sent(FETCH_SITE, "same-site"),
        ] {
            assert!(is_cross_site(&headers, host), "{headers:?}");
        }
        for headers in [
            HeaderMap::new(),
            sent(header::ORIGIN, "http://127.0.0.1:8080"),
            sent(FETCH_SITE, "same-origin"),
        ] {
            assert!(!is_cross_site(&headers, host), "{headers:?}");
        }
    }

    #[test]
    fn short_or_non_alphanumeric_tokens_are_rejected() {
        for token in ["", "short", "with space in it", "semi;colon"] {
            check_token(token).unwrap_err();
        }
        check_token("abcdef12").unwrap();
    }
}
