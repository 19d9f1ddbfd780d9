//! The way to the API server: connection flags, kubeconfig, client, errors.
//!
//! Everything here follows `kubectl`, so that a command which works with `kubectl` works with these plugins against the
//! same server, as the same user, in the same namespace. Where kube-rs differs from kubectl, this module decides;
//! kubectl's rules are those of client-go (`tools/clientcmd`, `rest`, `transport`).
//!
//! Three things are deliberately not kubectl's: a call has a time limit unless the user takes it away, a write is never
//! repeated, and what kubectl would silently ignore is an error.
//!
//! No secret reaches an error text or a log line: not from a broken kubeconfig, not from a credential plugin's output,
//! not from a response body.

pub mod client;
#[cfg(test)]
mod client_tests;
pub mod config;
#[cfg(test)]
mod config_tests;
pub mod error;
pub mod flags;
mod kubeconfig;
mod no_proxy;
pub mod path;
#[cfg(test)]
pub(crate) mod stub;

pub use client::{Answer, Api, Timeouts, connect};
pub use config::{ConfigError, ContextRef, Environment, Target, contexts, resolve};
pub use error::{ApiError, ApiErrorKind, ConnectError};
pub use flags::{ConnectionFlags, DownstreamFlags};
