//! `version`.

use serde_json::json;

use super::flags::VersionArgs;
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::report::Output;

#[expect(clippy::unnecessary_wraps, reason = "the verbs have one shape")]
pub(super) fn run<D: Doctor>(session: &Session<D>, _: &VersionArgs) -> Result<Exit, Failure> {
    let about = &session.about;
    let codes: Vec<&str> = super::explain::rules(about).map(|rule| rule.code).collect();
    let document = json!({
        "apiVersion": crate::report::API_VERSION, "kind": "Version",
        "tool": {"name": about.name, "version": about.version}, "codes": codes,
    });
    session.ui.out(&match session.output {
        Output::Json => serde_json::to_string_pretty(&document).unwrap_or_default() + "\n",
        Output::Yaml => crate::yaml::write(&document).unwrap_or_default(),
        _ => format!("kubectl-{} {}\n", about.name, about.version),
    });
    Ok(Exit::Ok)
}
