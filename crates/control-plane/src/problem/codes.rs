//! The codes of all errors that the API answers with, each with its status, its title and a page in `docs/errors/`.

use http::StatusCode;

/// Declares the codes once.
macro_rules! codes {
    ($($code:ident = $name:literal, $status:ident, $title:literal;)*) => {
        /// A stable machine word for what went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the title of each says what it is")]
        pub enum Code {
            $($code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The word.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// The status that it is answered with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status,)* }
            }

            /// What a person reads first.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$code => $title,)* }
            }

            /// The URI of its page.
            pub const fn uri(self) -> &'static str {
                match self { $(Self::$code => concat!("https://portolan.dev/errors/", $name),)* }
            }

            /// The code of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$code),)* _ => None }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", BAD_REQUEST, "The request is malformed";
    JsonSyntax = "json_syntax", BAD_REQUEST, "The body is not JSON";
    InvalidUtf8 = "invalid_utf8", BAD_REQUEST, "The body is not UTF-8";
    DuplicateKey = "duplicate_key", BAD_REQUEST, "An object names a member twice";
    TooDeep = "too_deep", BAD_REQUEST, "The body is nested too deeply";
    LoneSurrogate = "lone_surrogate", BAD_REQUEST, "A string holds half of a surrogate pair";
    NumberOutOfRange = "number_out_of_range", BAD_REQUEST, "A number is too large";
    IncompleteBody = "incomplete_body", BAD_REQUEST, "The body ended early";
    BadQuery = "bad_query", BAD_REQUEST, "A query parameter cannot be read";
    BadCursor = "bad_cursor", BAD_REQUEST, "The cursor is not one of ours";
    BadEventId = "bad_event_id", BAD_REQUEST, "The event id is not a sequence number";
    BadIdempotencyKey = "bad_idempotency_key", BAD_REQUEST, "The idempotency key cannot be used";
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "A valid API key is needed";
    BudgetExhausted = "budget_exhausted", PAYMENT_REQUIRED, "A budget is used up";
    ScopeMissing = "scope_missing", FORBIDDEN, "The API key may not do this";
    UnknownPath = "unknown_path", NOT_FOUND, "There is nothing at this path";
    RunNotFound = "run_not_found", NOT_FOUND, "There is no such run";
    AgentNotFound = "agent_not_found", NOT_FOUND, "There is no such agent";
    ArtifactNotFound = "artifact_not_found", NOT_FOUND, "There is no such artifact";
    TenantNotFound = "tenant_not_found", NOT_FOUND, "There is no such tenant";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The path does not take this method";
    NotAcceptable = "not_acceptable", NOT_ACCEPTABLE, "None of the accepted media types can be served";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, "The body did not arrive in time";
    CursorAhead = "cursor_ahead", CONFLICT, "The event id is ahead of the run";
    AlreadyTerminal = "already_terminal", CONFLICT, "The run has ended";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    UriTooLong = "uri_too_long", URI_TOO_LONG, "The request target is too long";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body must be application/json";
    InvalidField = "invalid_field", UNPROCESSABLE_ENTITY, "A field cannot be accepted";
    UnknownField = "unknown_field", UNPROCESSABLE_ENTITY, "A field is not known";
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request";
    PriceUnknown = "price_unknown", UNPROCESSABLE_ENTITY, "The price of the model is not known";
    IsolationUnavailable = "isolation_unavailable", UNPROCESSABLE_ENTITY, "No host can give the isolation that is asked for";
    HeadersTooLarge = "headers_too_large", REQUEST_HEADER_FIELDS_TOO_LARGE, "The header fields are too large";
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed";
    Draining = "draining", SERVICE_UNAVAILABLE, "The server is shutting down";
    StoreUnavailable = "store_unavailable", SERVICE_UNAVAILABLE, "The store cannot be reached";
    NotReady = "not_ready", SERVICE_UNAVAILABLE, "The server is not ready";
    TooManyConnections = "too_many_connections", SERVICE_UNAVAILABLE, "The server has no connection to spare";
}
