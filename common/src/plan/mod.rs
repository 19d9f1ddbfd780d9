//! Repairs: what is planned, agreed to, backed up, applied and undone.

mod action;

pub use action::{Action, Change, Fact, Operation, Plan, Reversibility};
