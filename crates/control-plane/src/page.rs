//! Lists: how long a page is, where it begins, and how it is written.

use crate::{
    api::HashKey,
    params::Params,
    problem::{Code, Problem},
};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderValue, header};
use portolan_core::ids::TenantId;
use serde::Serialize;

/// The most items of a page.
const MOST: u32 = 200;
/// The items of a page that does not say.
const USUAL: u32 = 50;
/// A page ends early when it is that large: items are as large as their owners made them.
const ENOUGH_BYTES: usize = 8 * 1024 * 1024;
const MAC_BYTES: usize = 16;

/// The media type of answers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Reads `limit`.
pub(crate) fn limit(params: &Params) -> Result<u32, Problem> {
    limit_within(params, USUAL, MOST)
}

/// Reads `limit` where a list has its own bounds.
pub(crate) fn limit_within(params: &Params, usual: u32, most: u32) -> Result<u32, Problem> {
    let Some(text) = params.get("limit") else {
        return Ok(usual);
    };
    text.parse()
        .ok()
        .filter(|limit| (1..=most).contains(limit))
        .ok_or_else(|| Problem::new(Code::BadQuery, format!("limit is a number from 1 to {most}")))
}

/// The cursor after an item. It is bound to the list and the tenant, and cannot be made by anybody else.
pub(crate) fn cursor(key: &HashKey, list: &'static str, tenant: TenantId, last: &[u8]) -> String {
    let mut bytes = last.to_vec();
    bytes.extend_from_slice(&mac(key, list, tenant, last));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads `cursor`: the last item of the page before.
pub(crate) fn after(
    params: &Params,
    key: &HashKey,
    list: &'static str,
    tenant: TenantId,
) -> Result<Option<Vec<u8>>, Problem> {
    let Some(text) = params.get("cursor") else {
        return Ok(None);
    };
    let bad = || {
        Problem::new(
            Code::BadCursor,
            "take the cursor from nextCursor of a page of this list",
        )
    };
    let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
    let start = bytes.len().checked_sub(MAC_BYTES).ok_or_else(bad)?;
    let mac_sent = bytes.split_off(start);
    if mac_sent != mac(key, list, tenant, &bytes) {
        return Err(bad());
    }
    Ok(Some(bytes))
}

fn mac(key: &HashKey, list: &'static str, tenant: TenantId, last: &[u8]) -> [u8; MAC_BYTES] {
    let mut message = Vec::with_capacity(64 + last.len());
    message.extend_from_slice(b"cursor ");
    message.extend_from_slice(list.as_bytes());
    message.push(0);
    message.extend_from_slice(tenant.as_bytes());
    message.extend_from_slice(last);
    let hash = key.hash(&message);
    std::array::from_fn(|index| hash[index])
}

/// A page as it is written.
#[derive(Debug)]
pub(crate) struct Page {
    body: Vec<u8>,
    items: usize,
}

impl Page {
    /// Begins a page.
    pub(crate) fn new() -> Self {
        Self {
            body: b"{\"data\":[".to_vec(),
            items: 0,
        }
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, item: &impl Serialize) -> Result<(), Problem> {
        self.separate();
        serde_json::to_writer(&mut self.body, item).map_err(|error| Problem::internal(&error))
    }

    /// Adds an item that is JSON already.
    pub(crate) fn push_json(&mut self, item: &[u8]) {
        self.separate();
        self.body.extend_from_slice(item);
    }

    fn separate(&mut self) {
        if self.items > 0 {
            self.body.push(b',');
        }
        self.items += 1;
    }

    /// Whether the page is large enough, however few its items are.
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() >= ENOUGH_BYTES
    }

    /// Ends the page; a cursor says that there is more.
    pub(crate) fn end(mut self, next_cursor: Option<&str>) -> Response {
        self.body.extend_from_slice(b"],\"hasMore\":");
        self.body
            .extend_from_slice(if next_cursor.is_some() { b"true" } else { b"false" });
        self.body.extend_from_slice(b",\"nextCursor\":");
        serde_json::to_writer(&mut self.body, &next_cursor).expect("a string encodes");
        self.body.push(b'}');
        json_bytes(self.body)
    }
}

/// An answer that is JSON already.
pub(crate) fn json_bytes(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], Body::from(body)).into_response()
}

/// An answer as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).map_err(|error| Problem::internal(&error))?;
    Ok(json_bytes(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_works_only_where_it_was_made() {
        let (key, other) = (HashKey::new([1; 32]), HashKey::new([2; 32]));
        let (ours, theirs) = (TenantId::from_bytes([1; 16]), TenantId::from_bytes([2; 16]));
        let text = cursor(&key, "runs", ours, b"last");
        let read = |key: &HashKey, list, tenant, text: &str| {
            let query = format!("cursor={text}");
            let params = Params::read(Some(&query), &["cursor"]).expect("a known name");
            after(&params, key, list, tenant).map_err(|problem| problem.code())
        };
        assert_eq!(read(&key, "runs", ours, &text), Ok(Some(b"last".to_vec())));
        assert_eq!(read(&key, "runs", theirs, &text), Err(Code::BadCursor));
        assert_eq!(read(&key, "agents", ours, &text), Err(Code::BadCursor));
        assert_eq!(read(&other, "runs", ours, &text), Err(Code::BadCursor));
        let tampered = text.replacen(&text[..1], if text.starts_with('A') { "B" } else { "A" }, 1);
        for bad in [tampered.as_str(), "", "x", "!!!!", &text[..8]] {
            assert_eq!(read(&key, "runs", ours, bad), Err(Code::BadCursor), "{bad}");
        }
    }
}
