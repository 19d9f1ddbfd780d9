package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/name"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

const (
	etcdRole         = "rke.cattle.io/etcd-role"
	controlPlaneRole = "rke.cattle.io/control-plane-role"
	workerRole       = "rke.cattle.io/worker-role"

	bootstrapFinalizer = "wrangler.cattle.io/rke-bootstrap-etcd-removal"
	customFinalizer    = "wrangler.cattle.io/unmanaged-machine"
	vsphereFinalizer   = "wrangler.cattle.io/machine-provision-remove"

	etcdHook        = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup"
	etcdForceRemove = "rke.cattle.io/etcd-force-remove"
	excludeDraining = "machine.cluster.x-k8s.io/exclude-node-draining"
	excludeVolumes  = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"

	joinURL  = "rke.cattle.io/join-url"
	joinedTo = "rke.cattle.io/joined-to"

	capiMachineName = "rke.cattle.io/capi-machine-name" // label of a driver's machine
)

// playMachines does the leader's work on single machines: everything but plans.
func (r *provisioner) playMachines(ctx context.Context, c *clusterView) {
	for _, bootstrap := range c.bootstraps {
		r.playBootstrap(ctx, c, bootstrap)
	}
	for _, infra := range c.infras {
		r.playInfrastructure(ctx, c, infra)
	}
	for _, m := range c.machines {
		r.playHook(ctx, c, m)
		if c.reachable {
			r.lookUpNode(ctx, c, m)
		}
	}
	if c.reachable {
		r.playManagementNodes(ctx, c)
	}
}

// playBootstrap is rancher pkg/controllers/capr/bootstrap.
func (r *provisioner) playBootstrap(ctx context.Context, c *clusterView, bootstrap *unstructured.Unstructured) {
	m := c.machineOf(bootstrap)
	if deleting(bootstrap) {
		if m == nil || r.safelyRemoved(ctx, c, m) {
			r.change(ctx, rkeBootstraps, bootstrap, func(o *unstructured.Unstructured) { removeFinalizer(o, bootstrapFinalizer) })
		}
		return
	}
	if m == nil {
		return // not adopted by Cluster API yet
	}
	planName := name.SafeConcatName(bootstrap.GetName(), "machine", "plan")
	bootstrapName := name.SafeConcatName(bootstrap.GetName(), "machine", "bootstrap")
	if m.secret == nil {
		r.createPlanObjects(ctx, bootstrap, planName)
	}
	switch nested(m.Unstructured, "status", "phase") {
	case "Deleting", "Deleted", "Failed":
		_ = r.clients.kubernetes.CoreV1().Secrets(workspace).Delete(ctx, bootstrapName, metav1.DeleteOptions{})
		_ = r.clients.kubernetes.CoreV1().ServiceAccounts(workspace).Delete(ctx, bootstrapName, metav1.DeleteOptions{})
	default:
		if nested(bootstrap, "status", "dataSecretName") == "" {
			r.createBootstrapObjects(ctx, bootstrap, bootstrapName)
		}
	}
	r.change(ctx, rkeBootstraps, bootstrap, func(o *unstructured.Unstructured) {
		addFinalizer(o, bootstrapFinalizer)
		set(o, bootstrapName, "status", "dataSecretName")
		set(o, true, "status", "ready")
		set(o, true, "status", "initialization", "dataSecretCreated")
	})
}

// machineOf finds the Machine that owns an object.
func (c *clusterView) machineOf(object *unstructured.Unstructured) *machineView {
	for _, owner := range object.GetOwnerReferences() {
		for _, m := range c.machines {
			if owner.Kind == "Machine" && owner.UID == m.GetUID() {
				return m
			}
		}
	}
	return nil
}

func (r *provisioner) ownedBy(bootstrap *unstructured.Unstructured, objectName string, extra map[string]string) metav1.ObjectMeta {
	all := maps.Clone(bootstrap.GetLabels())
	all["rke.cattle.io/machine-name"] = bootstrap.GetName()
	all["rke.cattle.io/cluster-name"] = bootstrap.GetLabels()[clusterNameLabel]
	maps.Copy(all, extra)
	return metav1.ObjectMeta{
		Name: objectName, Namespace: workspace, Labels: all,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(bootstrap, bootstrap.GroupVersionKind())},
	}
}

func (r *provisioner) createPlanObjects(ctx context.Context, bootstrap *unstructured.Unstructured, planName string) {
	core, rbac := r.clients.kubernetes.CoreV1(), r.clients.kubernetes.RbacV1()
	account := map[string]string{
		"rke.cattle.io/rkebootstrap-name": bootstrap.GetName(), "rke.cattle.io/service-account-role": "plan", "rke.cattle.io/plan-secret-name": planName,
	}
	meta := r.ownedBy(bootstrap, planName, nil)
	_, err := core.ServiceAccounts(workspace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: r.ownedBy(bootstrap, planName, account)}, metav1.CreateOptions{})
	r.complain("service account "+planName, err)
	_, err = core.Secrets(workspace).Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: planSecretType}, metav1.CreateOptions{})
	r.complain("plan secret "+planName, err)
	_, err = rbac.Roles(workspace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"watch", "get", "update", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{planName},
	}}}, metav1.CreateOptions{})
	r.complain("role "+planName, err)
	_, err = rbac.RoleBindings(workspace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: planName, Namespace: workspace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: planName},
	}, metav1.CreateOptions{})
	r.complain("role binding "+planName, err)
}

func (r *provisioner) createBootstrapObjects(ctx context.Context, bootstrap *unstructured.Unstructured, bootstrapName string) {
	core := r.clients.kubernetes.CoreV1()
	meta := r.ownedBy(bootstrap, bootstrapName, map[string]string{
		"rke.cattle.io/rkebootstrap-name": bootstrap.GetName(), "rke.cattle.io/service-account-role": "bootstrap",
	})
	_, err := core.ServiceAccounts(workspace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	r.complain("service account "+bootstrapName, err)
	_, err = core.Secrets(workspace).Create(ctx, &corev1.Secret{
		ObjectMeta: meta, Type: bootstrapSecretType, Data: map[string][]byte{"value": []byte("#!/usr/bin/env sh\n")},
	}, metav1.CreateOptions{})
	r.complain("bootstrap secret "+bootstrapName, err)
}

// playInfrastructure is rancher pkg/controllers/capr/unmanaged for CustomMachines
// and pkg/controllers/capr/machineprovision for those of node drivers.
func (r *provisioner) playInfrastructure(ctx context.Context, c *clusterView, infra *unstructured.Unstructured) {
	custom := infra.GetKind() == "CustomMachine"
	resource, finalizer := resourceOf(infra), customFinalizer
	if !custom {
		finalizer = vsphereFinalizer
	}
	if deleting(infra) {
		if !custom {
			if err := r.deleteServer(ctx, c, infra); err != nil {
				r.say("error syncing '%s/%s': handler machine-provision-remove: %v, requeuing", infra.GetNamespace(), infra.GetName(), err)
				return
			}
		}
		r.change(ctx, resource, infra, func(o *unstructured.Unstructured) { removeFinalizer(o, finalizer) })
		return
	}
	m := c.machineOf(infra)
	if !custom && (m == nil || nested(m.bootstrap, "status", "dataSecretName") == "") {
		// A server is made with its bootstrap data.
		r.change(ctx, resource, infra, func(o *unstructured.Unstructured) { addFinalizer(o, finalizer) })
		return
	}
	if !custom && nested(infra, "status", "jobName") == "" {
		_, err := r.clients.kubernetes.CoreV1().Secrets(workspace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name.SafeConcatName(infra.GetName(), "machine", "state"), Namespace: workspace},
			Type:       "rke.cattle.io/machine-state", Data: map[string][]byte{"extractedConfig": []byte("played")},
		}, metav1.CreateOptions{})
		r.complain("machine state of "+infra.GetName(), err)
	}
	r.change(ctx, resource, infra, func(o *unstructured.Unstructured) {
		addFinalizer(o, finalizer)
		set(o, true, "status", "ready")
		set(o, true, "status", "initialization", "provisioned")
		if !custom {
			labels := o.GetLabels()
			labels[capiMachineName] = m.GetName()
			o.SetLabels(labels)
			set(o, name.SafeConcatName(o.GetName(), "machine", "provision"), "status", "jobName")
			set(o, "cattle-global-data:cc-edge", "status", "cloudCredentialSecretName")
			setCondition(o, condition{kind: "CreateJob", status: "True"}, time.Now())
		}
		setCondition(o, condition{kind: "Ready", status: "True"}, time.Now())
	})
}

// deleteServer plays the delete job of a node driver, which needs the Machine to
// know what to run with: without it the handler fails for ever
// (machineprovision/args.go). The exceptions come first there, too.
func (r *provisioner) deleteServer(ctx context.Context, c *clusterView, infra *unstructured.Unstructured) error {
	byMachineSet := slices.ContainsFunc(infra.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "MachineSet" })
	if byMachineSet || conditionStatus(infra, "CreateJob") == "" {
		return nil
	}
	machineName := infra.GetLabels()[capiMachineName]
	if !slices.ContainsFunc(c.machines, func(m *machineView) bool { return m.GetName() == machineName }) {
		return errors.New(`machines.cluster.x-k8s.io "` + machineName + `" not found`)
	}
	_ = r.clients.kubernetes.CoreV1().Secrets(workspace).Delete(ctx, name.SafeConcatName(infra.GetName(), "machine", "state"), metav1.DeleteOptions{})
	return nil
}

func conditionStatus(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

func isEtcd(o metav1.Object) bool         { return o.GetLabels()[etcdRole] == "true" }
func isControlPlane(o metav1.Object) bool { return o.GetLabels()[controlPlaneRole] == "true" }
func isWorker(o metav1.Object) bool       { return o.GetLabels()[workerRole] == "true" }

// playHook keeps the hook on etcd Machines that makes their deletion wait for
// the removal of the etcd member.
func (r *provisioner) playHook(ctx context.Context, c *clusterView, m *machineView) {
	_, has := m.GetAnnotations()[etcdHook]
	switch {
	case deleting(m):
		if has && r.safelyRemoved(ctx, c, m) {
			r.change(ctx, capiMachines, m.Unstructured, func(o *unstructured.Unstructured) {
				annotations := o.GetAnnotations()
				delete(annotations, etcdHook)
				o.SetAnnotations(annotations)
			})
		}
	case !has && isEtcd(m) && m.bootstrap != nil && !deleting(m.bootstrap):
		r.change(ctx, capiMachines, m.Unstructured, func(o *unstructured.Unstructured) { annotate(o, etcdHook, "rke-bootstrap-controller") })
	}
}

// safelyRemoved reports whether a machine's etcd member is gone, or need not be
// waited for, and takes the next step towards that (rancher
// pkg/controllers/capr/{bootstrap,etcdmgmt}).
func (r *provisioner) safelyRemoved(ctx context.Context, c *clusterView, m *machineView) bool {
	nodeName := nested(m.Unstructured, "status", "nodeRef", "name")
	switch {
	case m.bootstrap != nil && m.bootstrap.GetAnnotations()[etcdForceRemove] == "true",
		!isEtcd(m),
		nested(m.Unstructured, "spec", "clusterName") == "",
		c.capi == nil || deleting(c.capi),
		nested(c.capi, "spec", "controlPlaneRef", "name") == "",
		c.controlPlane == nil || deleting(c.controlPlane),
		nodeName == "":
		return true
	}
	if _, err := r.secrets.ByNamespace(workspace).Get(c.cluster + "-kubeconfig"); err != nil {
		return true
	}
	url := ""
	if m.secret != nil {
		url = m.secret.Annotations[joinURL]
	}
	for _, other := range c.plans {
		// A missing annotation counts as an empty one, on both sides.
		if other.Annotations[joinedTo] == url {
			r.say("[rkebootstrap] %s/%s: %s was still joined to deleting etcd machine %s", workspace, m.GetName(), other.Labels["rke.cattle.io/machine-name"], m.GetName())
			return false
		}
	}
	if !c.reachable {
		return false
	}
	node := c.node(nodeName)
	if node == nil || node.Annotations["etcd.rke2.cattle.io/removed-node-name"] != "" {
		return true
	}
	if node.Annotations["etcd.rke2.cattle.io/remove"] != "true" {
		marked := node.DeepCopy()
		if marked.Annotations == nil {
			marked.Annotations = map[string]string{}
		}
		marked.Annotations["etcd.rke2.cattle.io/remove"] = "true"
		_, err := c.clients.kubernetes.CoreV1().Nodes().Update(ctx, marked, metav1.UpdateOptions{})
		r.complain("node "+nodeName, err)
	}
	return false
}

// lookUpNode is rancher pkg/controllers/capr/machinenodelookup: the Node names
// its Machine by UID, and tells it providerID and addresses.
func (r *provisioner) lookUpNode(ctx context.Context, c *clusterView, m *machineView) {
	if m.infra == nil || nested(m.Unstructured, "spec", "providerID") != "" {
		return
	}
	for n := range c.nodes {
		node := &c.nodes[n]
		if node.Labels[machineLabel] != string(m.GetUID()) || node.Spec.ProviderID == "" || !nodeReady(node) {
			continue
		}
		var addresses []any
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeHostName {
				addresses = append(addresses, map[string]any{"type": string(address.Type), "address": address.Address})
			}
		}
		r.change(ctx, resourceOf(m.infra), m.infra, func(o *unstructured.Unstructured) {
			set(o, node.Spec.ProviderID, "spec", "providerID")
			set(o, addresses, "status", "addresses")
		})
		return
	}
}

// playManagementNodes keeps one nodes.management.cattle.io for each Node, as the
// user controllers do (rancher pkg/controllers/managementuser/nodesyncer).
func (r *provisioner) playManagementNodes(ctx context.Context, c *clusterView) {
	client := r.clients.dynamic.Resource(managementNodes).Namespace(c.id)
	known := map[string]bool{}
	for _, item := range r.inNamespace(managementNodes, c.id) {
		nodeName := item.GetLabels()["management.cattle.io/nodename"]
		known[nodeName] = true
		if c.node(nodeName) == nil && !deleting(item) {
			r.complain("node "+item.GetName(), client.Delete(ctx, item.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(item.GetUID())}}))
		}
	}
	for _, node := range c.nodes {
		if known[node.Name] {
			continue
		}
		_, has := node.Labels["node-role.kubernetes.io/etcd"]
		_, leads := node.Labels["node-role.kubernetes.io/control-plane"]
		_, works := node.Labels["node-role.kubernetes.io/worker"]
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "management.cattle.io/v3", "kind": "Node",
			"metadata": map[string]any{
				// Random in Rancher; the Node's own UID keeps a late cache from making it twice.
				"name": "machine-" + strings.ReplaceAll(string(node.UID), "-", "")[:5], "namespace": c.id,
				"labels": map[string]any{"management.cattle.io/nodename": node.Name},
			},
			"spec": map[string]any{
				"requestedHostname": node.Name, "etcd": has, "controlPlane": leads, "worker": works, "imported": true,
				"internalNodeSpec": map[string]any{"providerID": node.Spec.ProviderID},
			},
			"status": map[string]any{"nodeName": node.Name},
		}}, metav1.CreateOptions{})
		r.complain("management node of "+node.Name, err)
	}
}
