//! Everything of the kubectl-rancher suite that is not about one plugin's subject.
//!
//! One way through the house: `cli` finds the target, `snapshot` collects what a [`doctor::Doctor`] needs, the doctor
//! judges and plans (pure), `plan` asks, backs up, applies and verifies, `report` says so. Only collecting and applying
//! see a Kubernetes client; only [`ui`] writes to stdout and stderr.

pub mod cli;
pub mod doctor;
pub mod exit;
pub mod finding;
pub mod kinds;
pub mod kube;
pub mod plan;
pub mod rancher;
pub mod report;
pub mod resource;
pub mod snapshot;
pub mod text;
pub mod time;
pub mod ui;
pub mod yaml;
