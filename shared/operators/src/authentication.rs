//! The layer around all operator routes: a token for every request, and a reason for every change.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use service_kit::Problem;
use telemetry::metric;

use crate::operator::{self, Operator, REASON_CHARS_MAX};
use crate::tokens::Tokens;

/// The middleware. It also covers URLs without a route: a caller without a token learns nothing.
pub(crate) async fn authenticate(
    State(tokens): State<Tokens>,
    mut request: Request,
    next: Next,
) -> Response {
    if tokens.is_empty() {
        metrics::counter!(metric::OPERATOR_REQUESTS_REJECTED).increment(1);
        return unauthenticated(
            "operators_not_configured",
            "This service has no operators. Set OPERATOR_TOKENS; `chargeonce operator-token NAME` prints \
             a token and the value of the setting.",
        );
    }
    let token = bearer(request.headers());
    let Some(name) = token.and_then(|token| tokens.name_of(token)) else {
        let has_token = token.is_some();
        metrics::counter!(metric::OPERATOR_REQUESTS_REJECTED).increment(1);
        tracing::warn!(has_token, method = %request.method(), "operator request rejected");
        return unauthenticated(
            "unknown_operator",
            "Send the token of an operator in OPERATOR_TOKENS: Authorization: Bearer <token>.",
        );
    };
    if !request.method().is_safe() {
        let Some(reason) = operator::reason(request.headers()) else {
            return reason_required().into_response();
        };
        let operator = Operator::new(&name, &reason);
        request.extensions_mut().insert(operator.clone());
        let path = request.uri().path().to_owned();
        let response = next.run(request).await;
        return check_audit(response, &operator, &path);
    }
    next.run(request).await
}

/// Notices a handler that forgets its audit row. The change is made, so a release answers as the handler
/// did; a debug build fails, and every test of the route with it.
fn check_audit(response: Response, operator: &Operator, path: &str) -> Response {
    if !response.status().is_success() || operator.is_accounted() {
        return response;
    }
    metrics::counter!(metric::OPERATOR_CHANGES_UNAUDITED).increment(1);
    tracing::error!(
        path,
        operator = operator.name(),
        "operator change without an audit row"
    );
    match cfg!(debug_assertions) {
        true => Problem::internal().into_response(),
        false => response,
    }
}

fn unauthenticated(code: &'static str, detail: &str) -> Response {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, code, detail);
    let mut response = problem.into_response();
    let scheme = HeaderValue::from_static("Bearer");
    let headers = response.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, scheme);
    response
}

fn reason_required() -> Problem {
    let detail = format!(
        "Say why in the header X-Reason: 1 to {REASON_CHARS_MAX} printable characters. The audit log \
         keeps it."
    );
    Problem::new(StatusCode::BAD_REQUEST, "reason_required", detail)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
