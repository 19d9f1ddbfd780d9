package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const initNode = "rke.cattle.io/init-node"

// nodePlan is a plan as Rancher writes it into a plan Secret (rancher
// pkg/apis/rke.cattle.io/v1/plan), as far as tests look at it.
type nodePlan struct {
	Files        []planFile        `json:"files,omitempty"`
	Instructions []planInstruction `json:"instructions,omitempty"`
	Probes       map[string]probe  `json:"probes,omitempty"`
}

type planFile struct {
	Content     string `json:"content"` // base64
	Path        string `json:"path"`
	Permissions string `json:"permissions,omitempty"`
}

type planInstruction struct {
	Name    string   `json:"name"`
	Image   string   `json:"image,omitempty"`
	Env     []string `json:"env,omitempty"`
	Args    []string `json:"args,omitempty"`
	Command string   `json:"command,omitempty"`
}

type probe struct {
	Name             string            `json:"name"`
	SuccessThreshold int               `json:"successThreshold"`
	FailureThreshold int               `json:"failureThreshold"`
	HTTPGet          map[string]string `json:"httpGet,omitempty"`
}

// planner works on one cluster once.
type planner struct {
	*provisioner
	*clusterView
	entries  []*machineView    // machines with a plan Secret
	messages map[string]string // why a machine is not done, by name
}

// playPlanner is rancher pkg/controllers/capr/{planner,plansecret} and
// pkg/capr/planner: it plans tier by tier, and says what it waits for.
func (r *provisioner) playPlanner(ctx context.Context, c *clusterView) {
	if c.controlPlane == nil || deleting(c.controlPlane) {
		return
	}
	p := &planner{provisioner: r, clusterView: c, messages: map[string]string{}}
	for _, m := range c.machines {
		if m.secret != nil {
			p.entries = append(p.entries, m)
		}
	}
	for _, m := range p.entries {
		p.playPlanSecret(ctx, m)
		p.messages[m.GetName()] = p.planStatus(m)
	}
	waiting, initialized := p.process(ctx)
	for _, m := range p.entries {
		p.showOnMachine(ctx, m, p.messages[m.GetName()])
	}
	p.showOnControlPlane(ctx, waiting, initialized)
}

// playPlanSecret takes notice of what an agent has written.
func (p *planner) playPlanSecret(ctx context.Context, m *machineView) {
	p.changeSecret(ctx, m.secret, func(s *corev1.Secret) {
		plan := s.Data["plan"]
		if len(plan) == 0 {
			return
		}
		if string(s.Data["applied-checksum"]) == checksum(plan) {
			s.Data["appliedPlan"] = plan
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		if s.Annotations["rke.cattle.io/plan-probes-passed"] == "" && len(probesOf(s)) > 0 && len(unhealthy(s)) == 0 {
			s.Annotations["rke.cattle.io/plan-probes-passed"] = time.Now().UTC().Format(time.RFC3339)
		}
		if address := internalAddress(m.Unstructured); address != "" && (isEtcd(m) || isControlPlane(m)) && inSync(s) {
			s.Annotations[joinURL] = "https://" + address + ":9345"
		}
	})
}

func internalAddress(machine *unstructured.Unstructured) string {
	addresses, _, _ := unstructured.NestedSlice(machine.Object, "status", "addresses")
	for _, item := range addresses {
		if address, ok := item.(map[string]any); ok && address["type"] == string(corev1.NodeInternalIP) {
			text, _ := address["address"].(string)
			return text
		}
	}
	return ""
}

func inSync(s *corev1.Secret) bool {
	return len(s.Data["plan"]) > 0 && bytes.Equal(s.Data["plan"], s.Data["appliedPlan"])
}

// unhealthy are the probes that the agent says are. Of those that it has said
// nothing about yet, as after every new plan, nobody speaks.
func unhealthy(s *corev1.Secret) []string {
	var names []string
	for name, status := range probesOf(s) {
		if !status.Healthy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func probesOf(s *corev1.Secret) (statuses map[string]struct{ Healthy bool }) {
	_ = json.Unmarshal(s.Data["probe-statuses"], &statuses) // nothing written, nothing read
	return statuses
}

// planStatus is getPlanStatusReasonMessage (rancher pkg/capr/planner/store.go).
func (p *planner) planStatus(m *machineView) string {
	var plan nodePlan
	_ = json.Unmarshal(m.secret.Data["plan"], &plan) // a plan that is none has no instructions
	switch {
	case len(plan.Instructions) == 0 && isEtcd(m):
		return "waiting for bootstrap etcd to be available"
	case len(plan.Instructions) == 0 && isControlPlane(m):
		return "waiting for etcd to be available"
	case len(plan.Instructions) == 0:
		return "waiting for control plane to be available"
	case len(m.secret.Data["appliedPlan"]) == 0:
		return "waiting for agent to check in and apply initial plan"
	}
	failed := string(m.secret.Data["failed-checksum"]) == checksum(m.secret.Data["plan"])
	switch probes := unhealthy(m.secret); {
	case len(probes) > 0:
		return "waiting for probes: " + strings.Join(probes, ", ")
	case inSync(m.secret):
		return ""
	case failed:
		return "failure while applying plan"
	}
	return "waiting for plan to be applied"
}

// process returns what the cluster waits for, and whether its control plane is
// initialized (rancher pkg/capr/planner/planner.go, Process and fullReconcile).
func (p *planner) process(ctx context.Context) (waiting string, initialized bool) {
	initialized, _, _ = unstructured.NestedBool(p.controlPlane.Object, "status", "initialized")
	paused, _, _ := unstructured.NestedBool(contentOf(p.capi), "spec", "paused")
	provisioned, _, _ := unstructured.NestedBool(contentOf(p.capi), "status", "initialization", "infrastructureProvisioned")
	_, controlPlanePaused := p.controlPlane.GetAnnotations()[pausedAnnotation]
	switch {
	case p.capi == nil:
		return "CAPI cluster does not exist", initialized
	case paused || controlPlanePaused:
		return "CAPI cluster or RKEControlPlane is paused", initialized
	case !provisioned:
		return "waiting for infrastructure ready", initialized
	}
	staying := func(is func(*machineView) bool) int {
		return len(p.collect(func(m *machineView) bool { return is(m) && !deleting(m) }))
	}
	if staying(withEtcd) == 0 || staying(withControlPlane) == 0 || staying(withWorker) == 0 {
		// A cluster that is yet to get its first machines is not an insane one.
		if p.sane {
			p.forceDeleteEtcd(ctx)
			if initialized {
				return fmt.Sprintf("uninitializing rkecontrolplane %s/%s", workspace, p.cluster), false
			}
		}
		return "waiting for at least one control plane, etcd, and worker node to be registered", initialized
	}
	p.sane = true
	if p.planned && initialized && len(p.collect(func(m *machineView) bool { return isEtcd(m) && len(m.secret.Data["plan"]) > 0 })) == 0 {
		return "rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the etcd plane has been entirely replaced. " +
			"Restoration from etcd snapshot is required.", initialized
	}
	init := p.electInitNode(ctx)
	if init == nil {
		return "waiting for viable init node", initialized
	}
	isInit := func(m *machineView) bool { return m.GetUID() == init.GetUID() }
	isInitOrDeleting := func(m *machineView) bool { return isInit(m) || deleting(m) }

	// All etcd machines are looked at in both tiers, so that one that is not
	// available counts against the concurrency of 1.
	if waiting := p.reconcile(ctx, "bootstrap", withEtcd, func(m *machineView) bool { return !isInit(m) || deleting(m) }, 1, init); waiting != "" {
		return waiting, initialized
	}
	p.planned = true
	if init.secret.Annotations[joinURL] == "" {
		return "waiting for join url to be available on bootstrap node", initialized
	}
	if waiting := p.reconcile(ctx, "etcd", withEtcd, isInitOrDeleting, 1, init); waiting != "" {
		return waiting, initialized
	}
	if waiting := p.reconcile(ctx, "control plane", withControlPlane, isInitOrDeleting, p.concurrency("controlPlaneConcurrency"), init); waiting != "" {
		return waiting, initialized
	}
	if p.controlPlaneURL(nil) == "" {
		return "waiting for control plane to be available", initialized
	}
	if !initialized {
		return "marking control plane as initialized", true
	}
	onlyWorker := func(m *machineView) bool { return isWorker(m) && !isEtcd(m) && !isControlPlane(m) }
	return p.reconcile(ctx, "worker", onlyWorker, isInitOrDeleting, p.concurrency("workerConcurrency"), init), initialized
}

func withEtcd(m *machineView) bool         { return isEtcd(m) }
func withControlPlane(m *machineView) bool { return isControlPlane(m) }
func withWorker(m *machineView) bool       { return isWorker(m) }

func (p *planner) collect(is func(*machineView) bool) []*machineView {
	var found []*machineView
	for _, m := range p.entries {
		if is(m) {
			found = append(found, m)
		}
	}
	return found
}

// concurrency reads a number of the upgrade strategy; 0 is no limit.
func (p *planner) concurrency(field string) int {
	number, err := strconv.Atoi(nested(p.controlPlane, "spec", "upgradeStrategy", field))
	if err != nil {
		return 1
	}
	return number
}

// forceDeleteEtcd is forceDeleteAllDeletingEtcdMachines: in a cluster that lacks a
// role nobody waits for etcd any more (rancher pkg/capr/planner/etcdrestore.go).
func (p *planner) forceDeleteEtcd(ctx context.Context) {
	for _, m := range p.machines {
		if !isEtcd(m) || !deleting(m) {
			continue
		}
		p.change(ctx, capiMachines, m.Unstructured, func(o *unstructured.Unstructured) {
			annotate(o, excludeDraining, "true")
			annotate(o, excludeVolumes, "true")
		})
		if m.bootstrap != nil {
			p.change(ctx, rkeBootstraps, m.bootstrap, func(o *unstructured.Unstructured) { annotate(o, etcdForceRemove, "true") })
		}
	}
}

// electInitNode returns the machine that the others join, and marks it. One with
// a join URL stays, or is taken before one without.
func (p *planner) electInitNode(ctx context.Context) *machineView {
	possible := p.collect(func(m *machineView) bool { return isEtcd(m) && !deleting(m) })
	isMarked := func(m *machineView) bool { return m.secret.Labels[initNode] == "true" }
	hasURL := func(m *machineView) bool { return m.secret.Annotations[joinURL] != "" }
	var elected *machineView
	for _, suits := range []func(*machineView) bool{
		func(m *machineView) bool { return isMarked(m) && hasURL(m) }, hasURL, isMarked, func(*machineView) bool { return true },
	} {
		if n := slices.IndexFunc(possible, suits); n >= 0 {
			elected = possible[n]
			break
		}
	}
	for _, m := range p.entries {
		p.changeSecret(ctx, m.secret, func(s *corev1.Secret) {
			if elected != nil && m.GetUID() == elected.GetUID() {
				s.Labels[initNode] = "true"
			} else {
				delete(s.Labels, initNode)
			}
		})
	}
	return elected
}

// reconcile gives each machine of a tier its plan, as many at once as may be out
// of service, and returns what the tier waits for.
func (p *planner) reconcile(ctx context.Context, tier string, include, exclude func(*machineView) bool, concurrency int, init *machineView) string {
	entries := p.collect(include)
	unavailable := 0
	for _, m := range entries {
		if len(m.secret.Data["plan"]) > 0 && !inSync(m.secret) {
			unavailable++
		}
	}
	var outOfSync []string
	for _, m := range entries {
		if exclude(m) {
			continue
		}
		server := p.serverFor(m, init)
		wanted := p.desired(m, server)
		switch first := len(m.secret.Data["plan"]) == 0; {
		case first:
			p.updatePlan(ctx, m, wanted, server)
			p.messages[m.GetName()] = "waiting for agent to check in and apply initial plan"
		case !bytes.Equal(m.secret.Data["plan"], wanted):
			if !inSync(m.secret) || concurrency == 0 || unavailable < concurrency {
				if inSync(m.secret) {
					unavailable++
				}
				p.updatePlan(ctx, m, wanted, server)
				if len(m.secret.Data["appliedPlan"]) > 0 {
					p.messages[m.GetName()] = "waiting for plan to be applied"
				}
			}
		case p.messages[m.GetName()] == "" && isControlPlane(m) && !p.agentConnected():
			p.messages[m.GetName()] = "waiting for cluster agent to connect"
		case p.messages[m.GetName()] == "":
			continue
		}
		outOfSync = append(outOfSync, m.GetName())
	}
	if len(outOfSync) == 0 {
		return ""
	}
	text := fmt.Sprintf("configuring %s node(s) %s", tier, atMostThree(outOfSync))
	if message := p.messages[outOfSync[0]]; len(outOfSync) == 1 && message != "" {
		text += ": " + message
	}
	return text
}

func atMostThree(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) <= 3 {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ","), len(names)-3)
}

// serverFor is the URL that a machine joins: the one it has joined while that is
// still there, else the init node's, or for a worker a control plane's.
func (p *planner) serverFor(m, init *machineView) string {
	if m.GetUID() == init.GetUID() {
		return ""
	}
	now := m.secret.Annotations[joinedTo]
	for _, other := range p.entries {
		if now != "" && other.GetUID() != m.GetUID() && !deleting(other) && other.secret.Annotations[joinURL] == now {
			return now
		}
	}
	if url := p.controlPlaneURL(m); url != "" && !isEtcd(m) && !isControlPlane(m) {
		return url
	}
	return init.secret.Annotations[joinURL]
}

func (p *planner) controlPlaneURL(except *machineView) string {
	for _, m := range p.entries {
		if isControlPlane(m) && !deleting(m) && m != except && m.secret.Annotations[joinURL] != "" {
			return m.secret.Annotations[joinURL]
		}
	}
	return ""
}

// rotation is the generation of certificates that is asked for.
func (p *planner) rotation() int64 {
	generation, _, _ := unstructured.NestedInt64(p.controlPlane.Object, "spec", "rotateCertificates", "generation")
	return generation
}

// desired is a machine's plan. A new generation of certificates changes every
// one of them.
func (p *planner) desired(m *machineView, server string) []byte {
	unit, probes := "rke2-agent", []string{"calico", "kubelet"}
	if isEtcd(m) {
		unit, probes = "rke2-server", append(probes, "etcd")
	}
	if isControlPlane(m) {
		unit, probes = "rke2-server", append(probes, "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	}
	config := map[string]any{
		"token": "played-" + p.id, "agent-token": "played-agent-" + p.id,
		"node-label": []string{"cattle.io/os=linux", machineLabel + "=" + string(m.GetUID())},
	}
	if server != "" {
		config["server"] = server
	}
	if isEtcd(m) && !isControlPlane(m) {
		config["disable-apiserver"] = true
	}
	text, _ := json.MarshalIndent(config, "", "  ") // maps of plain values always marshal
	plan := nodePlan{
		Files: []planFile{{
			Content: base64.StdEncoding.EncodeToString(text), Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", Permissions: "0600",
		}},
		Instructions: []planInstruction{{
			Name: "install", Image: rke2Image, Command: "sh", Args: []string{"-c", "run.sh"},
			Env: []string{"RESTART_STAMP=" + checksum(text)[:32], "INSTALL_RKE2_TYPE=" + strings.TrimPrefix(unit, "rke2-")},
		}},
		Probes: map[string]probe{},
	}
	if generation := p.rotation(); generation > 0 {
		plan.Instructions = append([]planInstruction{{
			Name: fmt.Sprintf("rotate-certs-%d", generation), Command: unit[:4],
			Args: []string{"certificate", "rotate"}, Env: []string{fmt.Sprintf("CERTIFICATE_ROTATION_GENERATION=%d", generation)},
		}}, plan.Instructions...)
	}
	for _, name := range probes {
		plan.Probes[name] = probe{Name: name, SuccessThreshold: 1, FailureThreshold: 2, HTTPGet: map[string]string{"url": "http://127.0.0.1/healthz"}}
	}
	text, _ = json.Marshal(plan)
	return text
}

// updatePlan is UpdatePlan (rancher pkg/capr/planner/store.go).
func (p *planner) updatePlan(ctx context.Context, m *machineView, plan []byte, server string) {
	p.changeSecret(ctx, m.secret, func(s *corev1.Secret) {
		s.Data["plan"] = plan
		s.Data["max-failures"], s.Data["failure-threshold"] = []byte("-1"), []byte("1")
		delete(s.Data, "probe-statuses")
		annotations := maps.Clone(s.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["rke.cattle.io/plan-last-updated"] = time.Now().UTC().Format(time.RFC3339)
		annotations["rke.cattle.io/plan-probes-passed"] = ""
		delete(annotations, joinedTo)
		if server != "" {
			annotations[joinedTo] = server
		}
		s.Annotations = annotations
	})
}

// managementCluster is nil where it is gone.
func (p *planner) managementCluster() *unstructured.Unstructured {
	object, err := p.caches[managementClusters].Get(p.id)
	if err != nil {
		return nil // a cache fails only with NotFound
	}
	return object.(*unstructured.Unstructured)
}

// agentConnected is the management Cluster's Connected.
func (p *planner) agentConnected() bool {
	cluster := p.managementCluster()
	return cluster != nil && conditionStatus(cluster, "Connected") == "True"
}

// showOnMachine sets the condition Reconciled, in the lists of both versions, of
// a Machine that has its infrastructure.
func (p *planner) showOnMachine(ctx context.Context, m *machineView, message string) {
	// The condition, which a machine that never joins reaches, not the field
	// infrastructureProvisioned, for which Cluster API waits for a providerID.
	if conditionStatus(m.Unstructured, "InfrastructureReady") != "True" {
		return
	}
	p.change(ctx, capiMachines, m.Unstructured, func(o *unstructured.Unstructured) {
		status, reason := "True", "Reconciled"
		if message != "" {
			status, reason = "Unknown", "Waiting"
		}
		setTransition(o, map[string]any{"type": "Reconciled", "status": status, "reason": reason, "message": message}, "status", "conditions")
		old := map[string]any{"type": "Reconciled", "status": status}
		if message != "" {
			old["reason"], old["message"] = reason, message
		}
		setTransition(o, old, "status", "deprecated", "v1beta1", "conditions")
	})
}

// setTransition sets a condition of Kubernetes' own kind.
func setTransition(object *unstructured.Unstructured, want map[string]any, path ...string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, path...)
	want["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	n := slices.IndexFunc(conditions, func(item any) bool {
		have, ok := item.(map[string]any)
		return ok && have["type"] == want["type"]
	})
	if n < 0 {
		set(object, append(conditions, want), path...)
		return
	}
	have := conditions[n].(map[string]any)
	text := func(c map[string]any, key string) string { s, _ := c[key].(string); return s }
	if text(have, "status") == text(want, "status") && text(have, "reason") == text(want, "reason") && text(have, "message") == text(want, "message") {
		return
	}
	if text(have, "status") == text(want, "status") {
		want["lastTransitionTime"] = have["lastTransitionTime"]
	}
	conditions[n] = want
	set(object, conditions, path...)
}

// showOnControlPlane writes what the cluster waits for where people read it: the
// RKEControlPlane, and from there the provisioning Cluster.
func (p *planner) showOnControlPlane(ctx context.Context, waiting string, initialized bool) {
	now := time.Now()
	ready := condition{kind: "Ready", status: "True"}
	reconciled := condition{kind: "Reconciled", status: "True"}
	if waiting != "" {
		ready = condition{kind: "Ready", status: "Unknown", reason: "Waiting", message: waiting}
		reconciled = condition{kind: "Reconciled", status: "Unknown", reason: "Waiting", message: "RKEControlPlane has not been fully reconciled yet"}
	}
	p.change(ctx, rkeControlPlanes, p.controlPlane, func(o *unstructured.Unstructured) {
		set(o, initialized, "status", "initialized")
		set(o, initialized, "status", "initialization", "controlPlaneInitialized")
		set(o, initialized && waiting == "", "status", "ready")
		set(o, p.agentConnected(), "status", "agentConnected")
		set(o, o.GetGeneration(), "status", "observedGeneration")
		if generation := p.rotation(); generation > 0 && waiting == "" {
			set(o, generation, "status", "certificateRotationGeneration")
		}
		setCondition(o, ready, now)
		setCondition(o, reconciled, now)
	})
	provisioning := p.cached(provisioningClusters, p.cluster)
	if provisioning == nil {
		return
	}
	p.change(ctx, provisioningClusters, provisioning, func(o *unstructured.Unstructured) {
		for _, kind := range []string{"Updated", "Provisioned"} {
			setCondition(o, condition{kind: kind, status: ready.status, reason: ready.reason, message: ready.message}, now)
		}
		set(o, o.GetGeneration(), "status", "observedGeneration")
		if cluster := p.managementCluster(); cluster != nil {
			if status := conditionStatus(cluster, "Ready"); status != "" {
				copied := condition{kind: "Ready", status: status}
				if status != "True" {
					copied = disconnected
				}
				setCondition(o, copied, now)
			}
		}
	})
}
