//! Where a provider may live: the rule for base URLs and for the addresses that their names resolve to.

use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of network an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Reachable from the internet.
    Public,
    /// This host.
    Loopback,
    /// A private network: RFC 1918, carrier-grade NAT, IPv6 unique local.
    Private,
    /// Link-local, or a cloud's metadata service wherever it lives.
    LinkLocal,
    /// No host at all: unspecified, multicast, broadcast, documentation, reserved.
    Unusable,
}

impl AddressClass {
    /// Classifies an address. An IPv6 address that carries an IPv4 one counts as that one.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    const fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            // 100.100.100.200 is the metadata service of Alibaba Cloud, 192.0.0.192 that of Oracle Cloud.
            [169, 254, ..] | [100, 100, 100, 200] | [192, 0, 0, 192] => Self::LinkLocal,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            [0, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
                Self::Unusable
            }
            _ => Self::Public,
        }
    }

    const fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Unusable,
            // Mapped and compatible IPv4, NAT64, and 6to4.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Self::carried(high, low)
            }
            [0x2002, high, low, ..] => Self::carried(high, low),
            // fd00:ec2::254 is the metadata service of AWS.
            [0xfe80..=0xfebf, ..] | [0xfd00, 0xec2, ..] => Self::LinkLocal,
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Self::Private,
            [0xff00..=0xffff, ..] | [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => Self::Unusable,
            _ => Self::Public,
        }
    }

    const fn carried(high: u16, low: u16) -> Self {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Self::of_v4(Ipv4Addr::new(a, b, c, d))
    }
}

/// Which addresses a provider may have. Link-local ones are never accepted: a metadata service is no provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseUrlPolicy {
    /// Only public addresses: a server that others can reach must not be a way into the network that it stands in.
    PublicOnly,
    /// Loopback and private addresses too, for local models and gateways.
    AllowPrivate,
}

/// Why a base URL is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// It is no URL.
    #[error("a base URL must be absolute, such as https://api.openai.com/v1")]
    NotAUrl,
    /// It has another scheme.
    #[error("a base URL must start with https:// or http://, not {0}:")]
    Scheme(String),
    /// It carries credentials, which would end up in logs.
    #[error("a base URL must not contain a user name or a password; use the API key or a header")]
    Credentials,
    /// It has a query or a fragment, which the path could not be added to.
    #[error("a base URL must not have a query or a fragment")]
    Query,
    /// Its host is of a class that the policy refuses.
    #[error("{host} is {}", describe(*.class))]
    Address {
        /// The host as it stands in the URL.
        host: String,
        /// What it is.
        class: AddressClass,
    },
}

const fn describe(class: AddressClass) -> &'static str {
    match class {
        AddressClass::Public => "a public address",
        AddressClass::Loopback => {
            "a loopback address; providers there must be allowed first (--allow-private-providers)"
        }
        AddressClass::Private => {
            "a private address; providers there must be allowed first (--allow-private-providers)"
        }
        AddressClass::LinkLocal => "a link-local or metadata address, which is never accepted",
        AddressClass::Unusable => "no address of a host",
    }
}

impl BaseUrlPolicy {
    /// Whether a provider may have an address of that class.
    pub const fn accepts(self, class: AddressClass) -> bool {
        match class {
            AddressClass::Public => true,
            AddressClass::Loopback | AddressClass::Private => matches!(self, Self::AllowPrivate),
            AddressClass::LinkLocal | AddressClass::Unusable => false,
        }
    }

    /// Checks what can be seen in the URL itself. What a name resolves to is checked again at each connection.
    pub fn check(self, base_url: &str) -> Result<Url, BaseUrlError> {
        let url = Url::parse(base_url.trim()).map_err(|_| BaseUrlError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let host = url.host_str().ok_or(BaseUrlError::NotAUrl)?;
        match class_of_host(host) {
            Some(class) if !self.accepts(class) => Err(BaseUrlError::Address {
                host: host.to_owned(),
                class,
            }),
            _ => Ok(url),
        }
    }
}

/// The class of a host that needs no resolver: an address, or a name that always means this host.
fn class_of_host(host: &str) -> Option<AddressClass> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(AddressClass::of(address));
    }
    let name = bare.trim_end_matches('.').to_ascii_lowercase();
    (name == "localhost" || name.ends_with(".localhost")).then_some(AddressClass::Loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_class_of_their_network() {
        for (address, class) in [
            ("8.8.8.8", AddressClass::Public),
            ("172.15.0.1", AddressClass::Public),
            ("2606:4700::1111", AddressClass::Public),
            ("127.9.9.9", AddressClass::Loopback),
            ("::1", AddressClass::Loopback),
            ("::ffff:127.0.0.1", AddressClass::Loopback),
            ("10.1.2.3", AddressClass::Private),
            ("172.31.255.255", AddressClass::Private),
            ("192.168.0.1", AddressClass::Private),
            ("100.64.0.1", AddressClass::Private),
            ("fd12::1", AddressClass::Private),
            ("64:ff9b::a00:1", AddressClass::Private),
            ("169.254.169.254", AddressClass::LinkLocal),
            ("::ffff:169.254.169.254", AddressClass::LinkLocal),
            ("64:ff9b::a9fe:a9fe", AddressClass::LinkLocal),
            ("2002:a9fe:a9fe::1", AddressClass::LinkLocal),
            ("fe80::1", AddressClass::LinkLocal),
            ("fd00:ec2::254", AddressClass::LinkLocal),
            ("100.100.100.200", AddressClass::LinkLocal),
            ("0.0.0.0", AddressClass::Unusable),
            ("::", AddressClass::Unusable),
            ("224.0.0.1", AddressClass::Unusable),
            ("255.255.255.255", AddressClass::Unusable),
            ("ff02::1", AddressClass::Unusable),
        ] {
            let parsed: IpAddr = address.parse().expect("the sample is an address");
            assert_eq!(AddressClass::of(parsed), class, "{address}");
        }
    }

    #[test]
    fn private_hosts_need_to_be_allowed_however_they_are_spelled() {
        for url in [
            "http://127.0.0.1:11434/v1",
            "http://localhost/v1",
            "http://LOCALHOST./v1",
            "http://a.localhost/v1",
            "http://2130706433/v1",
            "http://0x7f.1/v1",
            "http://[::1]:8000/v1",
            "http://10.0.0.7/v1",
        ] {
            assert!(
                matches!(
                    BaseUrlPolicy::PublicOnly.check(url),
                    Err(BaseUrlError::Address { .. })
                ),
                "{url} was accepted"
            );
            assert!(
                BaseUrlPolicy::AllowPrivate.check(url).is_ok(),
                "{url} was refused"
            );
        }
        assert!(
            BaseUrlPolicy::PublicOnly
                .check("https://api.openai.com/v1")
                .is_ok()
        );
    }

    #[test]
    fn link_local_hosts_and_odd_urls_are_never_accepted() {
        for url in [
            "http://169.254.169.254/v1",
            "http://[fe80::1]/",
            "http://0.0.0.0/v1",
            "http://2852039166/",
        ] {
            assert!(
                matches!(
                    BaseUrlPolicy::AllowPrivate.check(url),
                    Err(BaseUrlError::Address { .. })
                ),
                "{url} was accepted"
            );
        }
        for (url, expected) in [
            ("api.openai.com/v1", BaseUrlError::NotAUrl),
            ("file:///etc/passwd", BaseUrlError::Scheme("file".into())),
            ("https://user:pw@api.openai.com/v1", BaseUrlError::Credentials),
            ("https://api.openai.com/v1?key=x", BaseUrlError::Query),
        ] {
            assert_eq!(BaseUrlPolicy::AllowPrivate.check(url), Err(expected));
        }
    }
}
