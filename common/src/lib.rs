//! Everything of the kubectl-rancher suite that is not about one plugin's subject.

pub mod kube;
