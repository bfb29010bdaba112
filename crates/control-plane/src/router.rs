//! All routes, put together once: what is served and what is documented are the same list.

use crate::{
    agents,
    api::{Api, Deps},
    edge, health, openapi, runs,
};
use axum::{Router, middleware::from_fn_with_state, routing::get};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The API as a router. It needs no socket.
pub fn router(deps: Deps) -> Router {
    let api = Arc::new(Api::new(deps));
    let (routes, _) = documented().split_for_parts();
    routes
        // A path of several segments: the documentation of this one cannot say so.
        .route("/v1/runs/{id}/artifacts/{*path}", get(runs::artifact))
        .fallback(edge::unknown_path)
        .layer(from_fn_with_state(Arc::clone(&api), edge::edge))
        .with_state(api)
}

/// The routes with their documentation.
pub(crate) fn documented() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::with_openapi(openapi::Document::openapi())
        .merge(runs::routes())
        .merge(agents::routes())
        .merge(health::routes())
        .routes(routes!(openapi::serve))
}
