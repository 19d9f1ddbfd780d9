package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The states in which a world's election can begin.
const (
	holderDead     = "dead"     // the Lease names a pod that is gone
	holderLive     = "live"     // a replica leads
	holderNone     = "none"     // there is no Lease
	holderReleased = "released" // the last holder ended in good order
)

// deadHolder is the pod of a ReplicaSet that is gone.
const deadHolder = "rancher-5d7c8f9b64-q2xvz"

// worldOptions say what a world begins with.
type worldOptions struct {
	plane            *planeOptions
	install          installation
	nodes            int
	holder           string
	leaseDuration    int
	devMode          bool
	startReplicas    bool
	grace            time.Duration
	connectInterval  time.Duration
	logFormat        string
	leaderFuncFails  string
	untilStdinCloses bool
	downstreams      []string
}

// worldInfo is the JSON line that world prints when everything stands.
type worldInfo struct {
	planeInfo
	Namespace      string        `json:"namespace"`
	Deployment     string        `json:"deployment"`
	RancherVersion string        `json:"rancherVersion"`
	Replicas       []replicaInfo `json:"replicas"`
	Lease          *leaseInfo    `json:"lease"`
	Clusters       []string      `json:"clusters"`
	Nodes          []string      `json:"nodes"`
	KwokPID        int           `json:"kwokPid"`

	Downstreams []downstreamInfo `json:"downstreams,omitempty"`
}

// world is a control plane with a Rancher installation.
type world struct {
	*plane
	options  *worldOptions
	clients  *clients
	kubelets *kubelets
	pods     *pods

	machines *machineWorld // nil without --downstream
}

func worldFlags(flags *flag.FlagSet) *worldOptions {
	o := &worldOptions{plane: planeFlags(flags)}
	flags.IntVar(&o.install.replicas, "rancher-replicas", 3, "pods of the Rancher Deployment")
	flags.IntVar(&o.install.clusters, "clusters", 0, "downstream clusters")
	flags.StringVar(&o.install.version, "rancher-version", "v2.13.2", "Rancher version")
	flags.StringVar(&o.install.release, "release", "rancher", "name of the Helm release")
	flags.StringVar(&o.install.namespace, "namespace", "cattle-system", "namespace of the Helm release")
	flags.BoolVar(&o.install.hostNetwork, "host-network", false, "the chart's hostNetwork: the election's identity is the node's name")
	flags.BoolVar(&o.install.hostPort, "host-port", false, "give Rancher's container host ports 80 and 443")
	flags.Func("env", "NAME=VALUE for Rancher's container and processes, as the chart's extraEnv; may be repeated", func(text string) error {
		variable, err := parseEnv(text)
		o.install.env = append(o.install.env, variable)
		return err
	})
	flags.BoolVar(&o.devMode, "dev-mode", false, "short for --env CATTLE_DEV_MODE=true: leases of 45 hours")
	flags.IntVar(&o.nodes, "nodes", 3, "nodes of the management cluster")
	flags.StringVar(&o.holder, "holder", holderDead, "how the election begins: dead, live, none or released")
	flags.IntVar(&o.leaseDuration, "lease-duration", 162000, "leaseDurationSeconds in a dead holder's Lease")
	flags.BoolVar(&o.startReplicas, "start-replicas", true, "run a replica for each Rancher pod; also the initial state of the command auto")
	flags.DurationVar(&o.grace, "grace", 5*time.Second, "longest time between a pod's deletion and SIGKILL")
	flags.DurationVar(&o.connectInterval, "connect-interval", 2*time.Second, "how often the leader looks at the tunnels (Rancher: 15s)")
	flags.StringVar(&o.logFormat, "log-format", "simple", "of the replicas: simple, text or json")
	flags.StringVar(&o.leaderFuncFails, "leader-func-fails", "", "an error with which each leader fails to start its controllers")
	flags.Func("downstream", "a provisioned cluster with a control plane of its own; several with commas or repeated", func(text string) error {
		o.downstreams = append(o.downstreams, strings.Split(text, ",")...)
		return nil
	})
	flags.BoolVar(&o.untilStdinCloses, "until-stdin-closes", false, "also end when stdin ends")
	return o
}

func (o *worldOptions) check() error {
	switch o.holder {
	case holderDead, holderLive, holderNone, holderReleased:
	default:
		return usageError("--holder must be dead, live, none or released")
	}
	if o.leaseDuration < 1 {
		return usageError("--lease-duration must be positive")
	}
	if o.install.replicas < 1 && o.holder == holderLive {
		return usageError("--holder live needs a replica")
	}
	for n, cluster := range o.downstreams {
		if len(validation.IsDNS1123Label(cluster)) > 0 || cluster == "local" || slices.Contains(o.downstreams[:n], cluster) {
			return usageError("--downstream takes names of clusters, each once")
		}
	}
	if o.devMode {
		o.install.env = append(o.install.env, corev1.EnvVar{Name: "CATTLE_DEV_MODE", Value: "true"})
	}
	o.install.connected = o.holder == holderLive
	o.plane.rancher = types.NamespacedName{Namespace: o.install.namespace, Name: o.install.fullName()}
	return nil
}

// worldCommand runs a world and obeys the commands on its stdin.
func worldCommand(args []string) error {
	flags := flag.NewFlagSet("world", flag.ContinueOnError)
	options := worldFlags(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := options.check(); err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	// Read from the start, so that the end of stdin can call off the start too.
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		if options.untilStdinCloses {
			cancel()
		}
	}()
	w, err := startWorld(ctx, options)
	if err != nil {
		return unlessCancelled(ctx, err)
	}
	defer func() {
		cancel() // nobody is to miss the API server
		w.stop()
	}()
	if err := printJSON(w.info(ctx)); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.failed:
			return err
		case line := <-lines:
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			if words[0] == "quit" {
				return nil
			}
			answer, err := w.command(ctx, words)
			if err != nil {
				answer = map[string]string{"error": err.Error()}
			}
			if err := printJSON(answer); err != nil {
				return err
			}
		}
	}
}

// startWorld returns when the Rancher Deployment is ready and its replicas take
// part in the election.
func startWorld(ctx context.Context, options *worldOptions) (_ *world, err error) {
	p, err := startPlane(ctx, *options.plane)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	clients, err := p.clients()
	if err != nil {
		return nil, err
	}
	kubelets := &kubelets{plane: p}
	w := &world{plane: p, options: options, clients: clients, kubelets: kubelets, pods: &pods{
		plane: p, clients: clients, kubelets: kubelets, options: options,
		auto: options.startReplicas, rancherKubeconfig: filepath.Join(p.Dir, "rancher.kubeconfig"),
	}}
	if len(options.downstreams) == 0 {
		if err := w.build(ctx); err != nil {
			return nil, err
		}
		return w, w.waitForReplicas(ctx)
	}
	if w.machines, err = newMachineWorld(w); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.machines.stop()
		}
	}()
	steps := []func() error{
		func() error { return w.machines.startDownstreams(ctx) },
		func() error {
			if err := w.build(ctx); err != nil {
				return err
			}
			return w.machines.startClusterAPI(ctx)
		},
	}
	if err := inParallel(len(steps), func(n int) error { return steps[n]() }); err != nil {
		return nil, err
	}
	if err := w.machines.createObjects(ctx); err != nil {
		return nil, err
	}
	return w, w.waitForReplicas(ctx)
}

// stop ends everything, the downstream clusters too.
func (w *world) stop() {
	if w.machines != nil {
		w.machines.stop()
	}
	w.plane.stop()
}

func (w *world) build(ctx context.Context) error {
	install := &w.options.install
	log, err := os.Create(filepath.Join(w.Dir, "logs", "world.log"))
	if err != nil {
		return err
	}
	if err := klogTo(log); err != nil {
		return err
	}
	if err := w.writeKubeconfig(w.pods.rancherKubeconfig, "rancher", w.rancherToken); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.Dir, "pods"), 0o755); err != nil {
		return err
	}
	ours, err := install.rancherCRDs()
	if err != nil {
		return err
	}
	kwoks, err := kwokCRDs()
	if err != nil {
		return err
	}
	// What the others need comes first: definitions, nodes, and the Lease, which
	// no replica may see missing.
	steps := []func() error{
		func() error {
			return createCRDs(ctx, w.plane, w.clients.apiextensions, append([]*apiextensionsv1.CustomResourceDefinition{}, append(ours, kwoks...)...))
		},
		func() error {
			for _, node := range w.nodes() {
				if err := createNode(ctx, w.clients.kubernetes, node); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			switch w.options.holder {
			case holderDead:
				holder := deadHolder
				if install.hostNetwork {
					holder = "rancher-node-gone"
				}
				return createLease(ctx, w.clients.kubernetes, holder, int32(w.options.leaseDuration), time.Now().Add(-deadSince))
			case holderReleased:
				return createLease(ctx, w.clients.kubernetes, "", 1, time.Now().Add(-5*time.Minute))
			}
			return nil
		},
	}
	if err := inParallel(len(steps), func(n int) error { return steps[n]() }); err != nil {
		return err
	}
	if err := w.kubelets.start(); err != nil {
		return err
	}
	w.pods.watch(ctx)
	steps = []func() error{
		func() error { return install.createChart(ctx, w.clients.kubernetes) },
		func() error { return install.createState(ctx, w.clients) },
	}
	return inParallel(len(steps), func(n int) error { return steps[n]() })
}

func (w *world) nodes() []string {
	var names []string
	for n := range w.options.nodes {
		names = append(names, fmt.Sprintf("rancher-node-%d", n+1))
	}
	return names
}

func (w *world) waitForReplicas(ctx context.Context) error {
	install := &w.options.install
	err := w.waitUntil(ctx, time.Minute, "the Rancher Deployment", func(ctx context.Context) error {
		deployment, err := w.clients.kubernetes.AppsV1().Deployments(install.namespace).Get(ctx, install.fullName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := int(deployment.Status.ReadyReplicas); ready != install.replicas {
			return fmt.Errorf("%d of %d pods ready", ready, install.replicas)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !w.options.startReplicas {
		if w.options.holder == holderLive {
			// A leader that has hung: its pod is there, nobody renews.
			return createLease(ctx, w.clients.kubernetes, w.replicas()[0].Identity, int32(w.options.leaseDuration), time.Now())
		}
		return nil
	}
	return w.waitUntil(ctx, time.Minute, "Rancher's election", func(ctx context.Context) error {
		contending, leading := 0, 0
		for _, r := range w.replicas() {
			log, err := os.ReadFile(r.Log)
			if err != nil {
				return err
			}
			if bytes.Contains(log, []byte("ttempting to acquire leader lease")) {
				contending++
			}
			if bytes.Contains(log, []byte("uccessfully acquired lease")) {
				leading++
			}
		}
		if contending != install.replicas {
			return fmt.Errorf("%d of %d replicas contend", contending, install.replicas)
		}
		if w.options.holder == holderLive && leading == 0 {
			return errors.New("nobody leads")
		}
		return nil
	})
}

func (w *world) replicas() (infos []replicaInfo) {
	w.pods.do(func() { infos = w.pods.list() })
	return infos
}

func (w *world) info(ctx context.Context) worldInfo {
	clusters := []string{"local"}
	for n := range w.options.install.clusters {
		clusters = append(clusters, clusterID(n+1))
	}
	info := worldInfo{
		planeInfo: w.planeInfo, Namespace: w.options.install.namespace, Deployment: w.options.install.fullName(),
		RancherVersion: w.options.install.version, Replicas: w.replicas(), Lease: readLease(ctx, w.clients.kubernetes),
		Clusters: clusters, Nodes: w.nodes(), KwokPID: w.kubelets.pid(),
	}
	if w.machines != nil {
		for _, d := range w.machines.downstreams {
			info.Clusters = append(info.Clusters, d.id)
			info.Downstreams = append(info.Downstreams, d.info())
		}
	}
	return info
}

// command obeys one line of stdin.
func (w *world) command(ctx context.Context, words []string) (answer any, err error) {
	if w.machines != nil && slices.Contains(machineCommands, words[0]) {
		return w.machines.command(ctx, words)
	}
	argument := ""
	if len(words) > 2 {
		return nil, fmt.Errorf("%q takes one argument at most", words[0])
	}
	if len(words) == 2 {
		argument = words[1]
	}
	switch words[0] {
	case "start-replica":
		return w.pods.startNamed(argument)
	case "stop-replica":
		return w.pods.signalNamed(argument, syscall.SIGTERM)
	case "kill-replica":
		return w.pods.signalNamed(argument, syscall.SIGKILL)
	case "pods":
		return map[string]any{"replicas": w.replicas()}, nil
	case "lease":
		return map[string]any{"lease": readLease(ctx, w.clients.kubernetes)}, nil
	case "auto", "kwok":
		return w.toggle(words[0], argument)
	}
	return nil, fmt.Errorf("unknown command %q", words[0])
}

func (w *world) toggle(what, state string) (answer any, err error) {
	switch what + " " + state {
	case "auto on":
		w.pods.do(func() { w.pods.auto = true; w.pods.lookAgain() })
	case "auto off":
		w.pods.do(func() { w.pods.auto = false })
	case "kwok start":
		w.pods.do(func() {
			if err = w.kubelets.start(); err == nil {
				w.pods.lookAgain()
			}
		})
	case "kwok stop":
		w.pods.do(w.kubelets.stop)
	default:
		return nil, fmt.Errorf("%s takes %s", what, map[string]string{"auto": "on or off", "kwok": "start or stop"}[what])
	}
	if err != nil {
		return nil, err
	}
	answers := map[string]any{}
	w.pods.do(func() { answers["auto"], answers["kwokPid"] = w.pods.auto, w.kubelets.pid() })
	return answers, nil
}
