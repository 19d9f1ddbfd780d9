//! The client: raw JSON in and out, over a stack that is quick to start and repeats no write.

use std::time::Duration;

use futures::Stream;
use jiff::Timestamp;
use serde_json::Value;

use super::error::{ApiError, ConnectError};

/// Time limit for one call unless `--request-timeout` says otherwise.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Table rows instead of objects, with nothing of the objects themselves (`includeObject=None` goes into the path).
pub const ACCEPT_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Only the metadata of each object.
pub const ACCEPT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
/// Only the metadata of one object.
pub const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Time limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until TCP and TLS are up.
    pub connect: Duration,
    /// One call from the first byte sent to the last byte received; `None` is no limit. Each page of a list is a call.
    pub request: Option<Duration>,
    /// No read is tried again when this much time has passed since its first try.
    pub retry_budget: Duration,
    /// Longest wait before a read is tried again, whatever `Retry-After` says.
    pub retry_wait: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Some(DEFAULT_REQUEST_TIMEOUT),
            retry_budget: Duration::from_secs(10),
            retry_wait: Duration::from_secs(4),
        }
    }
}

/// What the server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The JSON document; for a list over several pages, all of it in one.
    pub body: Value,
    /// The server's clock when it answered (`Date`, whole seconds); of the first page for a list.
    pub date: Option<Timestamp>,
    /// This machine's clock when the request was about to be sent.
    pub sent_at: Timestamp,
    /// This machine's clock when the answer's head had arrived.
    pub received_at: Timestamp,
}

/// A client for one API server, as one user. Cheap to clone; clones share connections and warnings.
#[derive(Clone, Debug)]
pub struct Api {}

/// Makes a client. Runs a credential plugin if the user has one, so call it before anything draws on the terminal.
///
/// Nothing is sent: a wrong address shows at the first call.
///
/// # Errors
/// [`ConnectError`] when credentials, certificates or the proxy cannot be used.
pub fn connect(config: ::kube::Config, user_agent: &str, timeouts: Timeouts) -> Result<Api, ConnectError> {
    let _ = (config, user_agent, timeouts);
    Ok(Api {})
}

impl Api {
    /// Reads one JSON document. `path` starts with `/` and may carry a query.
    ///
    /// # Errors
    /// [`ApiError`]; 429, 503, 504 and connections that break are tried up to three times within ten seconds.
    pub async fn get(&self, path: &str) -> Result<Answer, ApiError> {
        self.get_as(path, "application/json").await
    }

    /// Reads one JSON document in the form that `accept` asks for, e.g. [`ACCEPT_TABLE`].
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn get_as(&self, path: &str, accept: &str) -> Result<Answer, ApiError> {
        let _ = accept;
        Err(not_yet(path))
    }

    /// Reads a whole collection in pages of `page` objects (0: in one piece) and answers it as one `List`, one
    /// `PartialObjectMetadataList` or one `Table`.
    ///
    /// # Errors
    /// As [`Api::get`]; when the server forgets the list half-way (410 `Expired`) it is started once more.
    pub async fn list(&self, path: &str, accept: Option<&str>, page: usize) -> Result<Answer, ApiError> {
        let _ = (accept, page);
        Err(not_yet(path))
    }

    /// Reads text, e.g. a container's log: at most the last `limit_bytes` bytes, from the start of a line, with what is
    /// no UTF-8 replaced; and the server's clock.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn text(&self, path: &str, limit_bytes: usize) -> Result<(String, Option<Timestamp>), ApiError> {
        let _ = limit_bytes;
        Err(not_yet(path))
    }

    /// Deletes one object; `options` is a `DeleteOptions` (preconditions, propagationPolicy, dryRun).
    ///
    /// Answers a `Status` when the object is gone, the object itself when finalizers keep it.
    ///
    /// # Errors
    /// [`ApiError`]; never tried again, see [`ApiError::write_outcome_unknown`].
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Answer, ApiError> {
        let _ = options;
        Err(not_yet(path))
    }

    /// Applies a JSON patch. A `dryRun=All` or `fieldManager` goes into the path ([`super::path::with_query`]).
    ///
    /// # Errors
    /// As [`Api::delete`]; a failed `test` is [`ApiError::is_precondition`].
    pub async fn patch_json(&self, path: &str, operations: &json_patch::Patch) -> Result<Answer, ApiError> {
        let _ = operations;
        Err(not_yet(path))
    }

    /// Creates an object in the collection `path`.
    ///
    /// # Errors
    /// As [`Api::delete`].
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer, ApiError> {
        let _ = object;
        Err(not_yet(path))
    }

    /// Posts a question that changes nothing (`SelfSubjectAccessReview` and its kin), and so may be tried again.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn ask(&self, path: &str, question: &Value) -> Result<Answer, ApiError> {
        let _ = question;
        Err(not_yet(path))
    }

    /// Watches a collection; `path` carries `watch=true`, `resourceVersion` and `timeoutSeconds`.
    ///
    /// Each item is a watch event `{"type": …, "object": …}`; an `ERROR` event is an [`ApiError`] (410 is
    /// [`super::ApiErrorKind::Gone`]) and ends the stream. There is no time limit but the server's.
    ///
    /// # Errors
    /// As [`Api::get`], for the start; an item is an error when the connection breaks.
    pub async fn watch(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Value, ApiError>> + Send + use<>, ApiError> {
        Err::<futures::stream::Empty<_>, _>(not_yet(path))
    }

    /// The distinct `Warning:` headers seen so far, in order; at most 20.
    pub fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

fn not_yet(path: &str) -> ApiError {
    ApiError::new(super::ApiErrorKind::Unreachable, path, "not implemented yet")
}
