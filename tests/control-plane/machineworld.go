package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
)

// machineWorld is what --downstream adds to a world: Cluster API's controller,
// the downstream clusters, and the played provisioner between them.
type machineWorld struct {
	world       *world
	clusterAPI  *clusterAPI
	downstreams []*downstream
	provisioner *provisioner
}

// machineCommands are the commands on stdin that machineWorld obeys.
var machineCommands = []string{"machine", "pool", "join", "agent", "node-gone", "kubelet", "downstream", "capi", "provisioner", "rotate", "etcd"}

func newMachineWorld(w *world) (*machineWorld, error) {
	capi, err := newClusterAPI(w.plane, w.clients)
	if err != nil {
		return nil, err
	}
	return &machineWorld{world: w, clusterAPI: capi, downstreams: make([]*downstream, len(w.options.downstreams))}, nil
}

func (m *machineWorld) startDownstreams(ctx context.Context) error {
	return inParallel(len(m.downstreams), func(n int) error {
		cluster := m.world.options.downstreams[n]
		d, err := startDownstream(ctx, downstreamDir(m.world.plane, cluster), cluster, m.world.options.plane.keep)
		if err != nil {
			return err
		}
		m.downstreams[n] = d
		go func() {
			select {
			case <-ctx.Done():
			case err := <-d.failed:
				select {
				case m.world.failed <- fmt.Errorf("cluster %s: %w", cluster, err):
				default:
				}
			}
		}()
		return nil
	})
}

// startClusterAPI returns when Cluster API's kinds are served and its controller
// works.
func (m *machineWorld) startClusterAPI(ctx context.Context) error {
	definitions, err := m.clusterAPI.crds()
	if err != nil {
		return err
	}
	w := m.world
	if err := createCRDs(ctx, w.plane, w.clients.apiextensions, append(definitions, machineCRDs()...)); err != nil {
		return err
	}
	if err := w.plane.restartControllerManager(); err != nil {
		return err
	}
	if err := m.clusterAPI.start(); err != nil {
		return err
	}
	if err := m.clusterAPI.createDeployment(ctx); err != nil {
		return err
	}
	if err := m.clusterAPI.wait(ctx); err != nil {
		return err
	}
	return m.clusterAPI.createWebhooks(ctx)
}

// createObjects makes the clusters' objects and lets the played work begin.
func (m *machineWorld) createObjects(ctx context.Context) error {
	w := m.world
	if err := inParallel(len(m.downstreams), func(n int) error {
		return m.downstreams[n].createObjects(ctx, w.clients, w.options.install.version)
	}); err != nil {
		return err
	}
	var err error
	if m.provisioner, err = startProvisioner(ctx, w.plane, w.clients, m.downstreams); err != nil {
		return err
	}
	go m.clusterAPI.keepLease(ctx, func() bool {
		m.provisioner.mu.Lock()
		defer m.provisioner.mu.Unlock()
		return m.clusterAPI.running()
	})
	return w.waitUntil(ctx, time.Minute, "Cluster API to know the clusters", func(ctx context.Context) error {
		for _, d := range m.downstreams {
			cluster, err := w.clients.dynamic.Resource(capiClusters).Namespace(workspace).Get(ctx, d.cluster, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if phase := nested(cluster, "status", "phase"); phase != "Provisioned" {
				return fmt.Errorf("cluster %s is in phase %q", d.cluster, phase)
			}
		}
		return nil
	})
}

func (m *machineWorld) stop() {
	_ = inParallel(len(m.downstreams), func(n int) error {
		if d := m.downstreams[n]; d != nil {
			d.stop()
		}
		return nil
	})
}

// command obeys one line of stdin.
func (m *machineWorld) command(ctx context.Context, words []string) (any, error) {
	m.provisioner.mu.Lock()
	defer m.provisioner.mu.Unlock()
	name, args := words[0], words[1:]
	arg := func(n int) string {
		if n < len(args) {
			return args[n]
		}
		return ""
	}
	is := func(state string, count int) bool { return arg(0) == state && len(args) == count }
	switch {
	case name == "provisioner" && (is("on", 1) || is("off", 1)):
		m.provisioner.on = arg(0) == "on"
		return map[string]any{"provisioner": arg(0)}, nil
	case name == "capi" && is("stop", 1):
		m.clusterAPI.stop()
		return map[string]any{"capiPid": 0}, m.clusterAPI.showRunning(ctx, false)
	case name == "capi" && is("start", 1):
		if err := m.clusterAPI.start(); err != nil {
			return nil, err
		}
		if err := m.clusterAPI.wait(ctx); err != nil {
			return nil, err
		}
		return map[string]any{"capiPid": m.clusterAPI.pid()}, m.clusterAPI.showRunning(ctx, true)
	case name == "agent" && (is("on", 2) || is("off", 2)):
		a, err := m.provisioner.agentNamed(arg(1))
		if err != nil {
			return nil, err
		}
		a.on = arg(0) == "on"
		return map[string]any{"machine": a.machine, "node": a.node, "agent": arg(0)}, nil
	}

	// The others name a cluster, most as their first argument.
	named := arg(0)
	if slices.Contains([]string{"downstream", "etcd", "kubelet"}, name) {
		named = arg(1)
	}
	d, err := m.find(named)
	if err != nil {
		return nil, err
	}
	switch {
	case name == "machine" && (len(args) == 3 || len(args) == 4):
		return m.createMachine(ctx, d, arg(1), strings.Split(arg(2), ","), arg(3))
	case name == "pool" && len(args) == 4:
		return m.createPool(ctx, d, arg(1), strings.Split(arg(2), ","), arg(3))
	case name == "join" && len(args) == 3:
		return m.provisioner.join(ctx, d, arg(1), arg(2))
	case name == "node-gone" && len(args) == 2:
		return map[string]any{"node": arg(1)}, m.provisioner.nodeGone(ctx, d, arg(1))
	case name == "kubelet" && (is("on", 3) || is("off", 3)):
		return map[string]any{"node": arg(2), "kubelet": arg(0)}, m.provisioner.kubelet(ctx, d, arg(2), arg(0) == "on")
	case name == "etcd" && (is("on", 2) || is("off", 2)):
		d.etcd = arg(0) == "on"
		return map[string]any{"cluster": d.cluster, "etcd": arg(0)}, nil
	case name == "downstream" && is("stop", 2):
		d.stopServer()
		d.reachable = false
		return map[string]any{"cluster": d.cluster, "downstream": "stopped"}, m.setTunnel(ctx, d, false)
	case name == "downstream" && is("start", 2):
		if err := d.startServer(ctx); err != nil {
			return nil, err
		}
		d.reachable = true
		return map[string]any{"cluster": d.cluster, "downstream": "started"}, m.setTunnel(ctx, d, true)
	case name == "rotate" && len(args) == 1:
		return m.rotate(ctx, d)
	}
	return nil, fmt.Errorf("%s does not take %q", name, strings.Join(args, " "))
}

func (m *machineWorld) find(cluster string) (*downstream, error) {
	for _, d := range m.downstreams {
		if d.cluster == cluster {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no downstream cluster %q", cluster)
}

// setTunnel says whether the cluster's agent is connected; a leading replica
// makes the condition Connected of it.
func (m *machineWorld) setTunnel(ctx context.Context, d *downstream, stands bool) error {
	clusters := m.world.clients.dynamic.Resource(managementClusters)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cluster, err := clusters.Get(ctx, d.id, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotate(cluster, tunnelAnnotation, fmt.Sprint(stands))
		_, err = clusters.Update(ctx, cluster, metav1.UpdateOptions{})
		return err
	})
}

// rotate asks for new certificates, as the button in Rancher does: it raises the
// generation in the provisioning Cluster, which is copied to the RKEControlPlane.
func (m *machineWorld) rotate(ctx context.Context, d *downstream) (any, error) {
	generation := int64(0)
	for _, object := range []struct {
		resource schema.GroupVersionResource
		path     []string
	}{
		{provisioningClusters, []string{"spec", "rkeConfig", "rotateCertificates", "generation"}},
		{rkeControlPlanes, []string{"spec", "rotateCertificates", "generation"}},
	} {
		client := m.world.clients.dynamic.Resource(object.resource).Namespace(workspace)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			o, err := client.Get(ctx, d.cluster, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if generation == 0 {
				now, _, _ := unstructured.NestedInt64(o.Object, object.path...)
				generation = now + 1
			}
			set(o, generation, object.path...)
			_, err = client.Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return map[string]any{"cluster": d.cluster, "generation": generation}, nil
}

// machineLabels are those of a machine with these roles and of its parts.
func machineLabels(d *downstream, roles []string) (map[string]any, error) {
	labels := map[string]any{
		clusterNameLabel: d.cluster, "rke.cattle.io/cluster-name": d.cluster, "cattle.io/os": "linux",
	}
	for _, role := range roles {
		switch role {
		case "etcd":
			labels[etcdRole] = "true"
		case "controlplane":
			labels[controlPlaneRole] = "true"
			labels["cluster.x-k8s.io/control-plane"] = "true"
		case "worker":
			labels[workerRole] = "true"
		default:
			return nil, fmt.Errorf("a role is etcd, controlplane or worker, not %q", role)
		}
	}
	return labels, nil
}

// createPool makes a machine pool: a MachineDeployment, whose machines Cluster
// API's controller makes, and makes anew (rancher
// pkg/controllers/provisioningv2/provisioningcluster/template.go).
func (m *machineWorld) createPool(ctx context.Context, d *downstream, pool string, roles []string, count string) (any, error) {
	replicas, err := strconv.ParseInt(count, 10, 32)
	if err != nil {
		return nil, err
	}
	name := d.cluster + "-" + pool
	labels, err := machineLabels(d, roles)
	if err != nil {
		return nil, err
	}
	labels["rke.cattle.io/rke-machine-pool-name"] = pool
	meta := map[string]any{"name": name, "namespace": workspace, "labels": labels}
	selected := map[string]any{clusterNameLabel: d.cluster, "cluster.x-k8s.io/deployment-name": name}
	all := map[string]any{"cluster.x-k8s.io/deployment-name": name}
	for key, value := range labels {
		all[key] = value
	}
	template := func(group, kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": kind, "metadata": meta,
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}},
		}}
	}
	for _, part := range []struct {
		resource schema.GroupVersionResource
		object   *unstructured.Unstructured
	}{
		{rkeBootstraps.GroupVersion().WithResource("rkebootstraptemplates"), template("rke.cattle.io", "RKEBootstrapTemplate", map[string]any{"clusterName": d.cluster})},
		{vsphereMachines.GroupVersion().WithResource("vmwarevspheremachinetemplates"), template("rke-machine.cattle.io", "VmwarevsphereMachineTemplate", map[string]any{})},
		{capiMachines.GroupVersion().WithResource("machinedeployments"), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": capiMachines.GroupVersion().String(), "kind": "MachineDeployment", "metadata": meta,
			"spec": map[string]any{
				"clusterName": d.cluster, "replicas": replicas, "selector": map[string]any{"matchLabels": selected},
				"template": map[string]any{
					"metadata": map[string]any{"labels": all, "annotations": map[string]any{excludeDraining: "true"}},
					"spec": map[string]any{
						"clusterName":       d.cluster,
						"bootstrap":         map[string]any{"configRef": map[string]any{"apiGroup": "rke.cattle.io", "kind": "RKEBootstrapTemplate", "name": name}},
						"infrastructureRef": map[string]any{"apiGroup": "rke-machine.cattle.io", "kind": "VmwarevsphereMachineTemplate", "name": name},
					},
				},
			},
		}}},
	} {
		if _, err := m.world.clients.dynamic.Resource(part.resource).Namespace(workspace).Create(ctx, part.object, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return map[string]any{"machineDeployment": name, "replicas": replicas}, nil
}

// createMachine makes the three objects of a machine that has yet to join: those
// of a host on which the registration command ran, or of a driver's server.
func (m *machineWorld) createMachine(ctx context.Context, d *downstream, machine string, roles []string, kind string) (any, error) {
	infraKind, infraResource, group := "CustomMachine", customMachines, "rke.cattle.io"
	switch kind {
	case "", "custom":
	case "vsphere":
		infraKind, infraResource, group = "VmwarevsphereMachine", vsphereMachines, "rke-machine.cattle.io"
	default:
		return nil, fmt.Errorf("a machine is custom or vsphere, not %q", kind)
	}
	labels, err := machineLabels(d, roles)
	if err != nil {
		return nil, err
	}
	machineAnnotations := map[string]any{}
	if infraKind == "CustomMachine" {
		labels["rke.cattle.io/machine-id"] = checksum([]byte(machine))[:63]
	} else {
		labels["rke.cattle.io/rke-machine-pool-name"] = "pool1"
		labels["cluster.x-k8s.io/deployment-name"] = d.cluster + "-pool1"
		machineAnnotations[excludeDraining] = "true"
	}
	meta := func(extra map[string]any) map[string]any {
		all := map[string]any{}
		for key, value := range labels {
			all[key] = value
		}
		for key, value := range extra {
			all[key] = value
		}
		return map[string]any{"name": machine, "namespace": workspace, "labels": all}
	}

	capi, err := m.world.clients.dynamic.Resource(capiClusters).Namespace(workspace).Get(ctx, d.cluster, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	bootstrap := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "metadata": meta(nil),
		"spec": map[string]any{"clusterName": d.cluster},
	}}
	bootstrap.SetAnnotations(map[string]string{"rke.cattle.io/labels": `{"cattle.io/os":"linux"}`, "rke.cattle.io/taints": "[]"})
	infra := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": infraKind, "metadata": meta(map[string]any{capiMachineName: machine}), "spec": map[string]any{},
	}}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": meta(nil),
		"spec": map[string]any{
			"clusterName":       d.cluster,
			"bootstrap":         map[string]any{"configRef": map[string]any{"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": machine}},
			"infrastructureRef": map[string]any{"apiGroup": group, "kind": infraKind, "name": machine},
		},
	}}
	for key, value := range machineAnnotations {
		annotate(object, key, value.(string))
	}
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: capi.GetAPIVersion(), Kind: capi.GetKind(), Name: capi.GetName(), UID: capi.GetUID(),
	}})
	for _, part := range []struct {
		resource schema.GroupVersionResource
		object   *unstructured.Unstructured
	}{{rkeBootstraps, bootstrap}, {infraResource, infra}, {capiMachines, object}} {
		created, err := m.world.clients.dynamic.Resource(part.resource).Namespace(workspace).Create(ctx, part.object, metav1.CreateOptions{})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s %s", part.resource.Resource, machine), err)
		}
		object = created
	}
	return map[string]any{"machine": machine, "uid": object.GetUID()}, nil
}
