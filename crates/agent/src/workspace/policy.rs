use portolan_confine::{DenyGlobs, GlobError, root::WriteMode};
use portolan_core::workspace::{Permission, WorkspaceError};
use std::collections::BTreeSet;

/// What may be done below a root, and which paths nobody may touch.
#[derive(Debug, Clone)]
pub struct Policy {
    /// What is allowed. Everything else is not.
    pub allow: BTreeSet<Permission>,
    /// What is hidden and untouchable, whatever is allowed.
    pub deny: DenyGlobs,
}

/// Why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A deny glob cannot be understood.
    #[error(transparent)]
    DenyGlobs(#[from] GlobError),
}

impl Policy {
    /// What a workspace allows if nothing is said.
    pub const EDITING: [Permission; 4] = [
        Permission::List,
        Permission::Read,
        Permission::Create,
        Permission::Edit,
    ];
    /// What a resource allows if nothing is said.
    pub const READING: [Permission; 2] = [Permission::List, Permission::Read];

    /// A policy of permissions and deny globs. An empty glob is refused, as nobody can tell what it is to deny.
    pub fn new(
        allow: impl IntoIterator<Item = Permission>,
        deny_globs: &[String],
    ) -> Result<Self, PolicyError> {
        Ok(Self {
            allow: allow.into_iter().collect(),
            deny: DenyGlobs::parse(deny_globs)?,
        })
    }

    /// Allows what a workspace allows if nothing is said, and denies no path.
    pub fn editing() -> Self {
        Self {
            allow: Self::EDITING.into(),
            deny: DenyGlobs::none(),
        }
    }

    /// Allows what a resource allows if nothing is said, and denies no path.
    pub fn reading() -> Self {
        Self {
            allow: Self::READING.into(),
            deny: DenyGlobs::none(),
        }
    }

    pub(super) fn require(&self, permission: Permission) -> Result<(), WorkspaceError> {
        if self.allow.contains(&permission) {
            Ok(())
        } else {
            Err(refused(permission))
        }
    }

    /// What a write may be.
    pub(super) fn write_mode(&self) -> Result<WriteMode, WorkspaceError> {
        let may = |permission| self.allow.contains(&permission);
        match (may(Permission::Create), may(Permission::Edit)) {
            (true, true) => Ok(WriteMode::CreateOrEdit),
            (true, false) => Ok(WriteMode::Create),
            (false, true) => Ok(WriteMode::Edit),
            (false, false) => Err(refused(Permission::Create)),
        }
    }
}

fn refused(permission: Permission) -> WorkspaceError {
    let text = match permission {
        Permission::List => "listing is not allowed",
        Permission::Read => "reading is not allowed",
        Permission::Create | Permission::Edit => "writing is not allowed",
        Permission::Delete => "deleting is not allowed",
        Permission::Execute => "running commands is not allowed",
    };
    WorkspaceError::Denied(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_glob_is_refused() {
        let error = Policy::new(Policy::EDITING, &["a".to_owned(), String::new()]).unwrap_err();
        assert_eq!(error, PolicyError::DenyGlobs(GlobError::Empty { index: 1 }));
        assert_eq!(error.to_string(), "deny glob 1 is empty");
    }

    #[test]
    fn a_write_is_what_is_allowed() {
        let mode = |allow: &[Permission]| Policy::new(allow.iter().copied(), &[]).unwrap().write_mode();
        assert_eq!(mode(&Policy::EDITING), Ok(WriteMode::CreateOrEdit));
        assert_eq!(mode(&[Permission::Create]), Ok(WriteMode::Create));
        assert_eq!(mode(&[Permission::Edit]), Ok(WriteMode::Edit));
        let none = mode(&[Permission::Delete, Permission::Read, Permission::Execute]);
        assert!(matches!(none, Err(WorkspaceError::Denied(_))));
    }
}
