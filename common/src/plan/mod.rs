//! Repairs: what is planned, agreed to, backed up, applied and undone.

mod action;
pub mod apply;
pub mod backup;
pub mod consent;
pub mod undo;

pub use action::{Action, Await, Change, Dependent, Fact, Operation, Plan, Reversibility, Until};

#[cfg(test)]
pub(crate) use action::tests_support;
