//! `kubectl rancher-ghosts`: which machines have no node behind them, what do they block, what is in their way?
//!
//! Everything here is a pure function of what was read; [`GhostsDoctor`] joins the parts.

mod diagnose;
mod findings;
mod model;
mod needs;
mod plan;
mod question;
mod verify;
mod whois;

pub use findings::ALL as RULES;
pub use question::{Question, Verbs};
