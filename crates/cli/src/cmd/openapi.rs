//! `portolan openapi`.

use crate::{Exit, Failure, screen::Screen};

/// Prints the document of this build.
pub(super) fn run(screen: &Screen) -> Result<Exit, Failure> {
    screen.bytes(portolan_control_plane::openapi_json().as_bytes())?;
    Ok(Exit::Ok)
}
