//! Agents over HTTP.

pub(crate) mod cache;
mod delete;
mod get;
mod list;
mod put;
mod version;
pub(crate) mod view;

use crate::api::Api;
use std::sync::Arc;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The routes of agents.
pub(crate) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(put::put, get::get, delete::delete))
        .routes(routes!(version::version))
}
