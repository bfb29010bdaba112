//! Files that an execution changed.

use crate::digest::Digest;
use serde::{Deserialize, Serialize};

/// What happened to a file between the start of the execution and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// It was not there at the start.
    Created,
    /// Its content, its kind or its target differs.
    Modified,
    /// It is gone.
    Deleted,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The path below the workspace root, with `/`.
    pub path: String,
    /// What happened.
    pub operation: Operation,
    /// Size in bytes now; absent for a deleted file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// BLAKE3 of the content now; absent for a deleted file and for a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}
