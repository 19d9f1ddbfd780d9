package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workspace is the namespace of provisioning Clusters and all that hangs on them.
const workspace = "fleet-default"

// Kubernetes as it is said to run downstream.
const (
	rke2Version = "v1.33.5+rke2r1"
	rke2Image   = "rancher/system-agent-installer-rke2:v1.33.5-rke2r1"
)

var (
	provisioningClusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
	rkeClusters          = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1", Resource: "rkeclusters"}
	rkeControlPlanes     = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1", Resource: "rkecontrolplanes"}
	registrationTokens   = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusterregistrationtokens"}
)

// downstream is a cluster that Rancher provisioned: a control plane of its own,
// with kubelets, and the objects in the management cluster that describe it.
type downstream struct {
	*plane
	cluster  string // name of the provisioning Cluster
	id       string // name of the management Cluster
	clients  *clients
	kubelets *kubelets

	// These belong to the provisioner's lock.
	reachable bool // its API server runs
	etcd      bool // its etcd nodes answer
	sane      bool // it has had a machine of every role
	planned   bool // it has had an etcd machine with a plan
}

// downstreamInfo is a downstream cluster in the JSON line of world.
type downstreamInfo struct {
	Name       string `json:"name"`
	ClusterID  string `json:"clusterId"`
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	CAFile     string `json:"caFile"`
	AdminToken string `json:"adminToken"`
	AuditLog   string `json:"auditLog"`
}

// provisionedClusterID is always the same for the same name, so that tests can
// name it. Rancher takes random characters.
func provisionedClusterID(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return "c-m-" + hex.EncodeToString(sum[:])[:8]
}

// startDownstream returns when the cluster's API server is ready and its
// kubelets run.
func startDownstream(ctx context.Context, dir, cluster string, keep bool) (_ *downstream, err error) {
	p, err := startPlane(ctx, planeOptions{dir: dir, name: cluster, keep: keep})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	d := &downstream{plane: p, cluster: cluster, id: provisionedClusterID(cluster), kubelets: &kubelets{plane: p}, reachable: true, etcd: true}
	if d.clients, err = p.clients(); err != nil {
		return nil, err
	}
	definitions, err := kwokCRDs()
	if err != nil {
		return nil, err
	}
	if err := createCRDs(ctx, p, d.clients.apiextensions, definitions); err != nil {
		return nil, err
	}
	if err := createNamespace(ctx, d.clients.kubernetes, "cattle-system"); err != nil {
		return nil, err
	}
	return d, d.kubelets.start()
}

func (d *downstream) info() downstreamInfo {
	return downstreamInfo{
		Name: d.cluster, ClusterID: d.id, Kubeconfig: d.Kubeconfig, Server: d.Server,
		CAFile: d.CAFile, AdminToken: d.AdminToken, AuditLog: d.AuditLog,
	}
}

// machineCRDs are Rancher's kinds of machines and what belongs to them, without
// schemas. The labels are Cluster API's contract: which version of a provider's
// kind goes with which of its own.
func machineCRDs() []*apiextensionsv1.CustomResourceDefinition {
	contract := map[string]string{
		"auth.cattle.io/cluster-indexed": "true", "cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v1",
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []struct {
		group, kind, plural string
		status              bool
	}{
		{"rke.cattle.io", "RKECluster", "rkeclusters", true},
		{"rke.cattle.io", "RKEControlPlane", "rkecontrolplanes", true},
		{"rke.cattle.io", "RKEBootstrap", "rkebootstraps", true},
		{"rke.cattle.io", "RKEBootstrapTemplate", "rkebootstraptemplates", false},
		{"rke.cattle.io", "CustomMachine", "custommachines", true},
		{"rke.cattle.io", "ETCDSnapshot", "etcdsnapshots", true},
		{"rke-machine.cattle.io", "VmwarevsphereMachine", "vmwarevspheremachines", true},
		{"rke-machine.cattle.io", "VmwarevsphereMachineTemplate", "vmwarevspheremachinetemplates", false},
	} {
		crd := schemaless(kind.group, "v1", kind.kind, kind.plural, apiextensionsv1.NamespaceScoped, kind.status)
		crd.Labels = contract
		crds = append(crds, crd)
	}
	return append(crds, schemaless("management.cattle.io", "v3", "ClusterRegistrationToken", "clusterregistrationtokens", apiextensionsv1.NamespaceScoped, false))
}

// createObjects makes what the management cluster holds of this cluster, as if
// Rancher had provisioned it long ago and its nodes were yet to be named.
func (d *downstream) createObjects(ctx context.Context, c *clients, version string) error {
	now := time.Now()
	labels := map[string]any{"cluster.x-k8s.io/cluster-name": d.cluster, "rke.cattle.io/cluster-name": d.cluster}
	ready := func(kinds ...string) []any {
		var conditions []any
		for _, kind := range kinds {
			conditions = append(conditions, condition{kind: kind, status: "True"}.object(now))
		}
		return conditions
	}

	if err := createNamespace(ctx, c.kubernetes, d.id); err != nil {
		return err
	}
	management := managementCluster(d.id, map[string]any{
		"displayName": d.cluster, "fleetWorkspaceName": workspace, "desiredAgentImage": "", "agentImageOverride": "",
	}, map[string]any{
		"driver": "imported", "provider": "rke2", "agentImage": "rancher/rancher-agent:" + version,
		"version":    map[string]any{"gitVersion": rke2Version, "platform": "linux/amd64"},
		"conditions": ready("Provisioned", "Updated", "AgentDeployed", "Connected", "Ready"),
	})
	management.SetAnnotations(map[string]string{
		"provisioning.cattle.io/administrated":                   "true",
		"provisioning.cattle.io/management-cluster-name":         d.id,
		"provisioning.cattle.io/management-cluster-display-name": d.cluster,
		"provisioning.cattle.io/fleet-workspace-name":            workspace,
		tunnelAnnotation: "true",
	})
	if _, err := createWithStatus(ctx, c, managementClusters, management); err != nil {
		return err
	}
	provisioning, err := createWithStatus(ctx, c, provisioningClusters, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"name": d.cluster, "namespace": workspace},
		"spec":     map[string]any{"kubernetesVersion": rke2Version, "rkeConfig": map[string]any{}},
		"status": map[string]any{
			"clusterName": d.id, "clientSecretName": d.cluster + "-kubeconfig", "fleetWorkspaceName": workspace,
			"ready": true, "agentDeployed": true, "observedGeneration": int64(1),
			"conditions": ready("Created", "Connected", "Provisioned", "Updated", "Ready"),
		},
	}})
	if err != nil {
		return err
	}
	rkeCluster, err := createWithStatus(ctx, c, rkeClusters, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke.cattle.io/v1", "kind": "RKECluster",
		"metadata": map[string]any{"name": d.cluster, "namespace": workspace, "labels": labels},
		"spec":     map[string]any{"controlPlaneEndpoint": map[string]any{"host": "localhost", "port": int64(6443)}},
		"status":   map[string]any{"ready": true, "initialization": map[string]any{"provisioned": true}, "conditions": ready("Ready")},
	}})
	if err != nil {
		return err
	}
	controlPlane, err := createWithStatus(ctx, c, rkeControlPlanes, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
		"metadata": map[string]any{
			"name": d.cluster, "namespace": workspace, "labels": labels,
			"finalizers": []any{"wrangler.cattle.io/rke-control-plane-remove"},
		},
		"spec": map[string]any{
			"clusterName": d.cluster, "managementClusterName": d.id, "kubernetesVersion": rke2Version,
			"upgradeStrategy": map[string]any{"controlPlaneConcurrency": "1", "workerConcurrency": "1"},
		},
		"status": map[string]any{
			"observedGeneration": int64(1), "initialized": true, "ready": true, "agentConnected": true,
			"initialization": map[string]any{"controlPlaneInitialized": true},
			"conditions":     ready("Provisioned", "Updated", "Stable", "Bootstrapped", "Reconciled", "Ready"),
		},
	}})
	if err != nil {
		return err
	}
	reference := func(o *unstructured.Unstructured) map[string]any {
		return map[string]any{"apiGroup": o.GroupVersionKind().Group, "kind": o.GetKind(), "name": o.GetName()}
	}
	capi := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"name": d.cluster, "namespace": workspace, "labels": labels},
		"spec": map[string]any{
			"controlPlaneEndpoint": map[string]any{"host": "localhost", "port": int64(6443)},
			"controlPlaneRef":      reference(controlPlane),
			"infrastructureRef":    reference(rkeCluster),
		},
	}}
	capi.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(provisioning, provisioning.GroupVersionKind())})
	if _, err := c.dynamic.Resource(capiClusters).Namespace(workspace).Create(ctx, capi, metav1.CreateOptions{}); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(d.Kubeconfig)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.cluster + "-kubeconfig", Namespace: workspace,
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": d.cluster},
		},
		Data: map[string][]byte{"value": kubeconfig, "token": []byte(d.AdminToken)},
	}
	if _, err := c.kubernetes.CoreV1().Secrets(workspace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = createWithStatus(ctx, c, registrationTokens, d.registrationToken())
	return err
}

// registrationToken is the ClusterRegistrationToken with the commands that
// Rancher shows for it (rancher pkg/controllers/dashboard/clusterregistrationtoken).
func (d *downstream) registrationToken() *unstructured.Unstructured {
	const server = "https://rancher.example.com"
	sum := sha256.Sum256([]byte("registration of " + d.cluster))
	token := hex.EncodeToString(sum[:])[:54]
	manifest := fmt.Sprintf("%s/v3/import/%s_%s.yaml", server, token, d.id)
	node := func(insecure string) string {
		return fmt.Sprintf("curl %s-fL %s/system-agent-install.sh | sudo  sh -s - --server %s --label 'cattle.io/os=linux' --token %s",
			insecure, server, server, token)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
		"metadata": map[string]any{"name": "default-token", "namespace": d.id},
		"spec":     map[string]any{"clusterName": d.id},
		"status": map[string]any{
			"token": token, "manifestUrl": manifest,
			"command":             "kubectl apply -f " + manifest,
			"insecureCommand":     "curl --insecure -sfL " + manifest + " | kubectl apply -f -",
			"nodeCommand":         node(""),
			"insecureNodeCommand": node("--insecure "),
		},
	}}
}

// createWithStatus creates an object with its status, which a create alone
// drops where there is a status subresource.
func createWithStatus(ctx context.Context, c *clients, resource schema.GroupVersionResource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client := c.dynamic.Resource(resource).Namespace(object.GetNamespace())
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	status, wanted := object.Object["status"]
	if _, kept := created.Object["status"]; kept || !wanted {
		return created, nil
	}
	created.Object["status"] = status
	return client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
}

// stopServer makes the cluster unreachable: its API server ends, everything
// else, etcd with all state among it, stays.
func (d *downstream) stopServer() { d.plane.stopAPIServer() }

// startServer brings the API server back on its port.
func (d *downstream) startServer(ctx context.Context) error { return d.plane.startAPIServer(ctx) }

// downstreamDir is where a downstream control plane keeps its files.
func downstreamDir(p *plane, cluster string) string {
	return filepath.Join(p.Dir, "downstream", cluster)
}
