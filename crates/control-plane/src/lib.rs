//! The control plane: the HTTP API, its keys and scopes, the streams, and the seam to whoever executes runs.
//!
//! It admits runs and shows what their journals say. It never writes a journal: what comes from outside to a run goes into
//! its inbox. It serialises for outsiders, maps every error to one stable code, and looks at nothing of a request before
//! its key and scope are proved.

mod agents;
pub mod api;
mod auth;
pub mod bootstrap;
mod edge;
mod health;
pub mod host;
pub mod inline;
mod json;
mod openapi;
mod page;
mod params;
pub mod problem;
mod router;
mod runs;
mod schema;
pub mod serve;

pub use api::{ApiConfig, Deps, HashKey};
pub use auth::Secret;
pub use host::RunHost;
pub use inline::InlineHost;
pub use openapi::openapi_json;
pub use router::router;
pub use runs::event_frame;
pub use serve::{ServeLimits, serve};
