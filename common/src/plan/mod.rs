//! Repairs: what is planned, agreed to, backed up, applied and undone.

mod action;
pub mod apply;
pub mod backup;
pub mod consent;
pub mod undo;

pub use action::{Action, Change, Dependent, Fact, Operation, Plan, Reversibility};

#[cfg(test)]
pub(crate) use action::tests_support;
