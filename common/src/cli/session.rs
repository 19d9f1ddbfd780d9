//! What the verbs share: the plugin, the flags, the way to the cluster, and the way out.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::doctor::{About, Doctor};
use crate::exit::Exit;
use crate::finding::Diagnosis;
use crate::kube::{self, ConfigError, ConnectionFlags, Environment, Target, Timeouts};
use crate::report::{FailOn, Invocation, Output, Report};
use crate::snapshot::{BundleError, Collector, Content, DownstreamOrigin, Origin, Snapshot};
use crate::ui::Ui;

use super::invocation;

/// Why a run could not do its work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(super) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::CouldNotRun };
        Self::new(exit, error.to_string()).hint(error.hint())
    }
}

impl From<kube::ConnectError> for Failure {
    fn from(error: kube::ConnectError) -> Self {
        Self::new(Exit::CouldNotRun, error.to_string()).hint(error.hint())
    }
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        Self::usage(error.to_string())
    }
}

/// One run of the program.
pub(super) struct Session<D: Doctor> {
    pub(super) doctor: D,
    pub(super) about: About,
    pub(super) ui: Arc<Ui>,
    pub(super) output: Output,
    pub(super) flags: ConnectionFlags,
    pub(super) argv0: OsString,
    /// How many of the server's warnings have been told.
    warned: AtomicUsize,
}

/// A connection to a cluster.
pub(super) struct Live {
    pub(super) collector: Collector,
    pub(super) origin: Origin,
}

impl<D: Doctor> Session<D> {
    pub(super) fn new(
        doctor: D,
        about: About,
        ui: Ui,
        output: Output,
        flags: ConnectionFlags,
        argv0: OsString,
    ) -> Self {
        Self { doctor, about, ui: Arc::new(ui), output, flags, argv0, warned: AtomicUsize::new(0) }
    }

    /// Runs asynchronous work on this thread; a request left behind does not keep the process.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::CouldNotRun, format!("cannot start: {error}")))?;
        let result = runtime.block_on(work);
        runtime.shutdown_background();
        result
    }

    /// Finds out where to go and makes a client. Nothing is sent yet.
    pub(super) fn connect(&self) -> Result<Live, Failure> {
        let environment = Environment::from_process();
        let (target, config) = kube::resolve(&self.flags, &environment)?;
        if target.insecure {
            self.ui.warn("the API server's certificate is not checked (--insecure-skip-tls-verify)");
        }
        let timeouts = Timeouts { request: self.flags.request_timeout()?, ..Timeouts::default() };
        let agent = format!("kubectl-{}/{}", self.about.name, self.about.version);
        let api = kube::connect(config, &agent, timeouts)?;
        Ok(Live { collector: Collector::new(api), origin: origin(&target) })
    }

    /// The same with the downstream cluster that the question names, if it names one.
    pub(super) fn connect_for(&self, question: &D::Question) -> Result<Live, Failure> {
        let mut live = self.connect()?;
        let flags = self.doctor.downstream(question).and_then(|downstream| downstream.connection(&self.flags));
        if let Some(flags) = flags {
            let (target, config) = kube::resolve(&flags, &Environment::from_process())?;
            let timeouts = Timeouts { request: flags.request_timeout()?, ..Timeouts::default() };
            let agent = format!("kubectl-{}/{}", self.about.name, self.about.version);
            live.collector = live.collector.with_downstream(kube::connect(config, &agent, timeouts)?);
            live.origin.downstream = Some(DownstreamOrigin { context: target.context, server: target.server });
        }
        Ok(live)
    }

    /// The question with kubectl's `-n` taken in.
    pub(super) fn question(&self, mut question: D::Question) -> D::Question {
        if let Some(namespace) = &self.flags.namespace {
            self.doctor.adopt_namespace(&mut question, namespace);
        }
        question
    }

    pub(super) fn invocation(&self, question: &D::Question) -> Invocation {
        invocation::invocation(&self.argv0, &self.flags, self.doctor.repeat(question))
    }

    /// Looks and judges, with a spinner for who watches.
    ///
    /// # Errors
    /// As [`Session::examine`].
    pub(super) async fn look(&self, live: &Live, question: &D::Question) -> Result<(Snapshot, Diagnosis), Failure> {
        let progress = self.ui.progress(None);
        progress.message("reading");
        self.examine(live, question).await
    }

    /// Looks and judges.
    ///
    /// # Errors
    /// When the server did not answer a single question.
    pub(super) async fn examine(&self, live: &Live, question: &D::Question) -> Result<(Snapshot, Diagnosis), Failure> {
        let snapshot = live.collector.snapshot(&live.origin, |snapshot| self.doctor.needs(question, snapshot)).await;
        reachable(&snapshot)?;
        // Each `Warning:` header of the server is told once, however often we look.
        let warnings = live.collector.api().warnings();
        for warning in warnings.iter().skip(self.warned.swap(warnings.len(), Ordering::Relaxed)) {
            self.ui.warn(warning);
        }
        let diagnosis = self.doctor.diagnose(question, &snapshot);
        Ok((snapshot, diagnosis))
    }

    pub(super) fn report(
        &self,
        question: &D::Question,
        source: Option<&Path>,
        snapshot: &Snapshot,
        diagnosis: &Diagnosis,
        fail_on: FailOn,
    ) -> Report {
        let source = source.map_or_else(|| "live".to_owned(), |path| path.display().to_string());
        Report::of(&self.about, &self.invocation(question), &source, snapshot, diagnosis, fail_on)
    }

    /// Says why the run could not do its work: for people on stderr, for programs as a report on stdout.
    pub(super) fn fail(&self, failure: &Failure) -> Exit {
        self.ui.error(&failure.message);
        if let Some(hint) = &failure.hint {
            self.ui.hint(hint);
        }
        if self.output.machine() {
            Report::failure(&self.about, failure.exit, &failure.message, failure.hint.as_deref())
                .print(&self.ui, self.output);
        }
        failure.exit
    }
}

fn origin(target: &Target) -> Origin {
    Origin {
        context: target.context.clone(),
        server: target.server.clone(),
        rancher_proxy: target.rancher_proxy.clone(),
        other_contexts: target
            .contexts
            .iter()
            .filter(|context| Some(&context.name) != target.context.as_ref())
            .map(|context| context.name.clone())
            .collect(),
        downstream: None,
        clock_skew_seconds: 0,
    }
}

/// Whether the server answered at all. Kinds of failure that say something about one object (forbidden, for instance)
/// are answers; no connection, no credentials, and something that is no API server are not.
fn reachable(snapshot: &Snapshot) -> Result<(), Failure> {
    let mut first = None;
    for reading in &snapshot.readings {
        match &reading.content {
            Content::Failed(failure) if failure.kind != "Forbidden" => {
                first.get_or_insert((&reading.want, failure));
            }
            _ => return Ok(()),
        }
    }
    match first {
        None => Ok(()),
        Some((want, failure)) => Err(Failure::new(
            Exit::CouldNotRun,
            format!("{} does not answer: cannot read {want}: {}", snapshot.origin.server, failure.message),
        )
        .hint(failure.hint.clone())),
    }
}
