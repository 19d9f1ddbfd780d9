//! Repairs: what is planned, agreed to, backed up, applied and undone.

mod action;
pub mod backup;

pub use action::{Action, Change, Dependent, Fact, Operation, Plan, Reversibility};
