//! The way to models: provider adapters, what they cost, and the registry that turns `provider/model` into a model.
//!
//! This crate owns every byte that goes to a provider and every byte that comes back. It keeps a provider's answer apart
//! from a provider's failure, and says of each failure whether the request may have been executed. It never retries, never
//! follows a redirect, never parses leniently, and never lets a key into an error, a log or a `Debug` output.

#![warn(missing_docs)]
#![allow(
    clippy::disallowed_methods,
    reason = "this crate is where providers are reached, and waited for"
)]

mod base_url;
mod http;
mod json;
mod models;
mod price;
mod provider;
mod secret;

pub use base_url::{AddressClass, BaseUrlError, BaseUrlPolicy};
pub use http::{HttpClient, HttpClientError, HttpOptions};
pub use models::{ModelName, ModelNameError, Models, ResolveModelError};
pub use price::{PriceEntry, PriceTable, PriceTableError};
pub use provider::{
    Dialect, OutputCap, Preset, ProviderConfig, ProviderConfigError, ReplayedArguments, ToolChoice,
    openai_chat::ChatCompletionsModel,
};
pub use secret::Secret;
