//! Recorded incidents of `kubectl rancher-lease`, and what must hold for every snapshot.
//!
//! `cargo test -p kubectl-rancher-lease --test incidents -- --ignored regenerate` writes `tests/incidents/` anew from
//! the catalogue; its differences are then to be reviewed.

mod catalogue;
mod pages;
mod properties;
mod recorded;
mod verifier;
mod world;
