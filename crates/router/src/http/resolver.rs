//! Name resolution that refuses what the policy refuses, at each connection.

use crate::{AddressClass, BaseUrlError, BaseUrlPolicy};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves through the system and drops addresses that no provider may have. A base URL was checked when it was
/// configured; this check holds when its name moves later.
#[derive(Debug)]
pub(super) struct GuardedResolver(pub(super) BaseUrlPolicy);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut accepted = Vec::new();
            let mut refused = None;
            for address in found {
                let class = AddressClass::of(address.ip());
                if policy.accepts(class) {
                    accepted.push(address);
                } else {
                    refused = Some(class);
                }
            }
            match refused {
                Some(class) if accepted.is_empty() => {
                    let host = format!("what {} resolves to", name.as_str());
                    Err(Box::new(BaseUrlError::Address { host, class }).into())
                }
                _ => Ok(Box::new(accepted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolve(policy: BaseUrlPolicy) -> Result<usize, String> {
        let name = "localhost".parse::<Name>().map_err(|error| error.to_string())?;
        let found = GuardedResolver(policy).resolve(name).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_refused_address_leads_nowhere() {
        assert!(
            resolve(BaseUrlPolicy::AllowPrivate)
                .await
                .is_ok_and(|count| count > 0)
        );
        let refused = resolve(BaseUrlPolicy::PublicOnly).await.expect_err("loopback");
        assert!(
            refused.starts_with("what localhost resolves to is a loopback address"),
            "{refused}"
        );
    }
}
