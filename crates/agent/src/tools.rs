//! Tools that come with the loop.

mod arguments;
mod directory;
pub mod editor;
pub mod function;
mod memory;
pub mod resource;
pub mod shell;

pub use directory::DirectoryResource;
pub use editor::Editor;
pub use memory::MemoryResource;
pub use resource::ResourceTool;
pub use shell::{Shell, ShellConfigError, ShellOptions};
