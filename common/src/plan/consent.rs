//! Consent is to a plan: shown, answered, and only then is there a [`Confirmed`], without which nothing is written.

use super::{Plan, Reversibility};
use crate::ui::{Answer, Ui};

/// Proof that this plan was agreed to. Only [`ask`] makes one, and [`super::apply::apply`] takes it: forgetting to ask
/// does not compile.
#[derive(Debug)]
pub struct Confirmed {
    digest: String,
}

impl Confirmed {
    /// The digest of the plan that was agreed to.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// What the command line says about consent. No environment variable stands for it: one that stays exported in a shell
/// would agree for ever.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--yes`: agrees to reversible plans only.
    pub yes: bool,
    /// `--confirm DIGEST`: agrees to exactly that plan.
    pub confirm: Option<String>,
}

/// The answer.
#[derive(Debug)]
pub enum Consent {
    /// Agreed.
    Confirmed(Confirmed),
    /// A person said no.
    Declined,
    /// `--confirm` names another plan.
    OtherPlan {
        /// The digest that was given.
        given: String,
    },
    /// Nobody can be asked, and no flag covers this plan.
    NobodyToAsk,
}

/// Finds out whether this plan may be applied. Blocks while a person is asked.
#[must_use]
pub fn ask(plan: &Plan, target: &str, given: &Given, ui: &Ui) -> Consent {
    let confirmed = || Consent::Confirmed(Confirmed { digest: plan.digest() });
    if let Some(digest) = &given.confirm {
        return if *digest == plan.digest() { confirmed() } else { Consent::OtherPlan { given: digest.clone() } };
    }
    let irreversible = plan.reversibility() == Reversibility::Irreversible;
    if given.yes && plan.reversibility() == Reversibility::Reversible {
        return confirmed();
    }
    if !ui.interactive() {
        return Consent::NobodyToAsk;
    }
    let changes = crate::text::count(plan.actions.len(), "change", "changes");
    let answer = match plan.typed_word() {
        Some(word) if irreversible => {
            ui.type_word(&format!("This cannot be undone. To apply {changes} to {target}, type the name {word}:"), word)
        }
        _ => ui.confirm(&format!("Apply {changes} to {target}?")),
    };
    match answer {
        Answer::Yes => confirmed(),
        Answer::No => Consent::Declined,
    }
}
