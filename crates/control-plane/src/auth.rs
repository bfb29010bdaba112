//! Who asks, and whether they may: keys, scopes and the proof that a handler named its scope.

mod cache;
mod secret;

pub(crate) use cache::KeyCache;
pub use secret::Secret;

use crate::{
    api::Api,
    problem::{Code, Problem},
};
use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use portolan_core::{
    ids::{KeyId, TenantId},
    key::Scope,
    time::Timestamp,
};
use std::{collections::BTreeSet, marker::PhantomData, sync::Arc};

/// Whoever asks, as the key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) tenant: TenantId,
    pub(crate) key: KeyId,
    pub(crate) scopes: BTreeSet<Scope>,
    pub(crate) expires_at: Option<Timestamp>,
    /// What the key is looked up by.
    pub(crate) secret_hash: [u8; 32],
}

impl Principal {
    fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// A scope as a type, so that a handler names what it needs in its signature.
pub(crate) trait Needs: Send + Sync + 'static {
    /// The scope.
    const SCOPE: Scope;
}

macro_rules! needs {
    ($($name:ident)*) => {$(
        /// The scope of the same name.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name;

        impl Needs for $name {
            const SCOPE: Scope = Scope::$name;
        }
    )*};
}

needs! { RunsExecute RunsRead AgentsWrite AgentsRead }

/// Proof that the request carries a valid key with the scope. It is the first argument of every handler that is not public,
/// so that nothing of the request is looked at before.
#[derive(Debug)]
pub(crate) struct Authorized<S: Needs> {
    pub(crate) principal: Arc<Principal>,
    scope: PhantomData<fn() -> S>,
}

impl<S: Needs> Authorized<S> {
    pub(crate) fn tenant(&self) -> TenantId {
        self.principal.tenant
    }
}

impl<S: Needs> FromRequestParts<Arc<Api>> for Authorized<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let principal = authenticate(&parts.headers, api).await?;
        if !principal.may(S::SCOPE) {
            return Err(Problem::new(
                Code::ScopeMissing,
                format!("the key needs the scope {}", S::SCOPE.name()),
            ));
        }
        own_tenant(&parts.headers, &principal)?;
        Ok(Self {
            principal,
            scope: PhantomData,
        })
    }
}

async fn authenticate(headers: &HeaderMap, api: &Api) -> Result<Arc<Principal>, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let value = all.next().ok_or_else(unauthenticated)?;
    if all.next().is_some() {
        return Err(Problem::new(Code::BadRequest, "send one Authorization header").closing());
    }
    let text = value.to_str().map_err(|_| unauthenticated())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unauthenticated)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unauthenticated());
    }
    let secret = Secret::parse(token.trim()).ok_or_else(unauthenticated)?;
    let found = api.key_cache.look_up(secret.hash(&api.hash_key), api).await?;
    found.ok_or_else(unauthenticated)
}

/// The same words whether a key is missing, malformed, unknown, revoked or expired.
fn unauthenticated() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "send a valid API key as Authorization: Bearer pk_…",
    )
}

/// Refuses to act for another tenant rather than to act in the wrong one.
fn own_tenant(headers: &HeaderMap, principal: &Principal) -> Result<(), Problem> {
    let Some(named) = headers.get("x-portolan-tenant") else {
        return Ok(());
    };
    let own = principal.tenant.to_string();
    if named.as_bytes() == own.as_bytes() {
        Ok(())
    } else if principal.may(Scope::Admin) {
        Err(Problem::new(
            Code::TenantNotFound,
            "X-Portolan-Tenant names a tenant that this server does not have",
        ))
    } else {
        Err(Problem::new(
            Code::ScopeMissing,
            "only a key with the scope admin may name another tenant",
        ))
    }
}
