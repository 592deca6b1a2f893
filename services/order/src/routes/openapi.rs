//! `GET /openapi.json`.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

#[derive(OpenApi)]
#[openapi(info(title = "ChargeOnce order API", version = "1"))]
struct Api;

pub(super) async fn handle() -> Json<Document> {
    Json(Api::openapi())
}
