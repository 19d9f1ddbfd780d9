package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rancher/wrangler/v3/pkg/leader"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// electionName is the name of Rancher's one election per process; wrangler puts
// the Lease into kube-system when given no namespace (rancher
// pkg/wrangler/context.go, wrangler pkg/leader/leader.go).
const electionName = "cattle-controllers"

// replicaOptions make one Rancher server as far as its election goes.
type replicaOptions struct {
	kubeconfig      string
	identity        string
	logFile         string
	logFormat       string
	version         string
	connectClusters bool
	connectInterval time.Duration
	leaderFuncFails string
}

// rancherReplica contends for Rancher's leadership with wrangler's own election
// until it loses the lease (exit 1) or is told to end (exit 0). Duration,
// deadline and period come from CATTLE_DEV_MODE and CATTLE_ELECTION_*, which
// wrangler reads itself.
func rancherReplica(args []string) error {
	var o replicaOptions
	flags := flag.NewFlagSet("rancher-replica", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the cluster to contend in")
	flags.StringVar(&o.identity, "identity", "", "the pod's name, or the node's with hostNetwork")
	flags.StringVar(&o.logFile, "log-file", "", "also write the log here, in the format of a container runtime")
	flags.StringVar(&o.logFormat, "log-format", "simple", "as Rancher's flag: simple (its default), text or json")
	flags.StringVar(&o.version, "rancher-version", "v2.13.2", "the Rancher version whose log lines to write")
	flags.BoolVar(&o.connectClusters, "connect-clusters", false, "while leading keep the clusters' condition Connected")
	flags.DurationVar(&o.connectInterval, "connect-interval", 2*time.Second, "how often (Rancher: 15s)")
	flags.StringVar(&o.leaderFuncFails, "leader-func-fails", "", "an error with which starting the leader's controllers fails")
	if err := parse(flags, args); err != nil {
		return err
	}
	if o.kubeconfig == "" || o.identity == "" {
		return usageError("rancher-replica: --kubeconfig and --identity are required")
	}
	// wrangler's identity is os.Hostname(), nothing else (wrangler
	// pkg/leader/leader.go).
	renamed, err := takeHostname(o.identity)
	if err != nil {
		return fmt.Errorf("become host %s: %w", o.identity, err)
	}
	return o.run(renamed)
}

func (o *replicaOptions) run(renamed bool) error {
	if err := o.setUpLogs(); err != nil {
		return err
	}
	release, err := version.ParseGeneric(o.version)
	if err != nil {
		return usageError("rancher-replica: --rancher-version: " + err.Error())
	}
	config, err := restConfigFrom(o.kubeconfig, "rancher/"+strings.TrimPrefix(o.version, "v")+" ("+o.identity+")")
	if err != nil {
		return err
	}
	if !renamed {
		if err := translateIdentity(config, o.identity); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	// Rancher's context ends with SIGTERM; then wrangler releases the lease and
	// ends the process.
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	logrus.Infof("Rancher version %s is starting", o.version)
	manager := leader.NewManager("", electionName, client)
	onLeader := onLeaderOf(manager, release)
	for _, name := range []string{"wrangler-newContext", "rancher-new", "rancher-start::dashboarddata", "rancher-start::authServer"} {
		onLeader(name, func(ctx context.Context) error {
			if name != "wrangler-newContext" {
				return nil
			}
			if o.leaderFuncFails != "" {
				return errors.New(o.leaderFuncFails)
			}
			if o.connectClusters {
				go keepConnected(ctx, config, o.connectInterval)
			}
			return nil
		})
	}
	if o.leaderFuncFails == "" {
		onLeader("multiclustermanager-start", func(context.Context) error {
			logrus.Info("Rancher startup complete")
			return nil
		})
	}
	manager.Start(ctx)
	select {} // wrangler calls os.Exit
}

// onLeaderOf registers functions with the manager as the given Rancher does:
// since 2.11.6, 2.12.2 and 2.13.0 a failure ends the process and success is
// logged; before, a failure was logged and retried, the process leading on
// without controllers.
func onLeaderOf(manager *leader.Manager, release *version.Version) func(string, func(context.Context) error) {
	since := map[uint]string{11: "2.11.6", 12: "2.12.2"}
	boundary, ok := since[release.Minor()]
	if !ok {
		boundary = "2.13.0"
	}
	if release.LessThan(version.MustParseGeneric(boundary)) {
		return func(_ string, f func(context.Context) error) { manager.OnLeader(f) }
	}
	return manager.OnLeaderOrDie
}

// setUpLogs sends both of Rancher's log streams, logrus and client-go's klog,
// to stdout and to the log file.
func (o *replicaOptions) setUpLogs() error {
	// "simple" is what Rancher logs by default (rancher main.go, --log-format).
	formats := map[string]logrus.Formatter{
		"simple": simpleFormat{},
		"text":   &logrus.TextFormatter{DisableColors: true},
		"json":   &logrus.JSONFormatter{},
	}
	format, ok := formats[o.logFormat]
	if !ok {
		return usageError("rancher-replica: --log-format must be simple, text or json")
	}
	out := &containerLog{stdout: os.Stdout}
	if o.logFile != "" {
		file, err := os.OpenFile(o.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		out.file = file
	}
	logrus.SetFormatter(format)
	logrus.SetOutput(out)
	return klogTo(out)
}

// klogTo sends client-go's log lines to out and nowhere else, which takes all
// of these flags.
func klogTo(out io.Writer) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(out)
	return nil
}

// simpleFormat is the format of Rancher's log lines,
// "2026/01/31 23:59:59 [INFO] message" (simplelog.StandardFormatter).
type simpleFormat struct{}

// Format implements logrus.Formatter.
func (simpleFormat) Format(entry *logrus.Entry) ([]byte, error) {
	return fmt.Appendf(nil, "%s [%s] %s\n", entry.Time.UTC().Format("2006/01/02 15:04:05"),
		strings.ToUpper(entry.Level.String()), entry.Message), nil
}
