package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// installation is what `helm install rancher` and a first start leave behind.
type installation struct {
	release     string
	namespace   string
	version     string // v2.13.2
	replicas    int
	clusters    int
	connected   bool // downstream clusters begin connected
	hostNetwork bool
	hostPort    bool
	env         []corev1.EnvVar
}

// fullName is the chart's template rancher.fullname (chart/templates/_helpers.tpl).
func (i *installation) fullName() string {
	if strings.Contains(i.release, "rancher") {
		return i.release
	}
	return i.release + "-rancher"
}

func (i *installation) chartVersion() string { return strings.TrimPrefix(i.version, "v") }

var (
	settingsResource = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "settings"}

	// The namespaces that Rancher makes on its own, as far as tests look at them.
	systemNamespaces = []string{
		"cattle-fleet-system", "cattle-fleet-local-system", "cattle-global-data", "cattle-impersonation-system",
		"fleet-default", "fleet-local",
	}
)

type clients struct {
	kubernetes    kubernetes.Interface
	dynamic       dynamic.Interface
	apiextensions apiextensions.Interface
}

func (p *plane) clients() (*clients, error) {
	config, err := p.restConfig("control-plane-world")
	if err != nil {
		return nil, err
	}
	var c clients
	if c.kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.apiextensions, err = apiextensions.NewForConfig(config)
	return &c, err
}

// rancherCRDs are schemaless, as most of Rancher's own are. The management
// Cluster has a status subresource only since 2.15 (rancher
// pkg/crds/dashboard/crds.go); without it an ordinary update can change status.
func (i *installation) rancherCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	release, err := version.ParseGeneric(i.version)
	if err != nil {
		return nil, err
	}
	clusterStatus := release.AtLeast(version.MajorMinor(2, 15))
	return []*apiextensionsv1.CustomResourceDefinition{
		schemaless("management.cattle.io", "v3", "Cluster", "clusters", apiextensionsv1.ClusterScoped, clusterStatus),
		schemaless("management.cattle.io", "v3", "Setting", "settings", apiextensionsv1.ClusterScoped, false),
		schemaless("management.cattle.io", "v3", "Node", "nodes", apiextensionsv1.NamespaceScoped, false),
		schemaless("provisioning.cattle.io", "v1", "Cluster", "clusters", apiextensionsv1.NamespaceScoped, true),
	}, nil
}

func schemaless(group, served, kind, plural string, scope apiextensionsv1.ResourceScope, status bool) *apiextensionsv1.CustomResourceDefinition {
	v := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: served, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: ptr.To(true),
		}},
	}
	if status {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		},
	}
}

// createCRDs creates definitions and waits until the API server serves them.
func createCRDs(ctx context.Context, p *plane, client apiextensions.Interface, crds []*apiextensionsv1.CustomResourceDefinition) error {
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	return inParallel(len(crds), func(n int) error {
		if _, err := definitions.Create(ctx, crds[n], metav1.CreateOptions{}); err != nil {
			return err
		}
		return p.waitUntil(ctx, 30*time.Second, "CRD "+crds[n].Name, func(ctx context.Context) error {
			definition, err := definitions.Get(ctx, crds[n].Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range definition.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("not established")
		})
	})
}

// createChart makes the objects of Rancher's chart.
func (i *installation) createChart(ctx context.Context, client kubernetes.Interface) error {
	name := i.fullName()
	labels := map[string]string{
		"app": name, "chart": "rancher-" + i.chartVersion(), "heritage": "Helm", "release": i.release,
		"app.kubernetes.io/managed-by": "Helm",
	}
	annotations := map[string]string{"meta.helm.sh/release-name": i.release, "meta.helm.sh/release-namespace": i.namespace}
	meta := metav1.ObjectMeta{Name: name, Namespace: i.namespace, Labels: labels, Annotations: annotations}
	global := metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}

	if err := createNamespace(ctx, client, i.namespace); err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts(i.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: global,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: i.namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "rancher-critical", Labels: labels, Annotations: annotations}, Value: 1000000000}
	if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, priority, metav1.CreateOptions{}); err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name},
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(80)},
			{Name: "https-internal", Port: 443, TargetPort: intstr.FromInt32(444)},
		},
	}}
	if _, err := client.CoreV1().Services(i.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := client.AppsV1().Deployments(i.namespace).Create(ctx, i.deployment(meta), metav1.CreateOptions{})
	return err
}

// deployment is chart/templates/deployment.yaml with the chart's default values.
func (i *installation) deployment(meta metav1.ObjectMeta) *appsv1.Deployment {
	name := i.fullName()
	probe := func(period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(80)}},
			TimeoutSeconds: 5, PeriodSeconds: period, FailureThreshold: failures,
		}
	}
	ports := []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {ContainerPort: 6666}}
	if i.hostPort {
		ports = append(ports, corev1.ContainerPort{Name: "https", ContainerPort: 443, HostPort: 443})
		ports[0].HostPort = 80
	}
	if i.hostNetwork {
		for n := range ports {
			ports[n].HostPort = ports[n].ContainerPort
		}
	}
	env := []corev1.EnvVar{
		{Name: "CATTLE_NAMESPACE", Value: i.namespace},
		{Name: "CATTLE_PEER_SERVICE", Value: name},
		{Name: "IMPERATIVE_API_DIRECT", Value: "true"},
		{Name: "IMPERATIVE_API_APP_SELECTOR", Value: name},
	}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(i.replicas)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			},
		},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"app": name, "release": i.release},
				Annotations: map[string]string{replicaAnnotation: "true"},
			},
			Spec: corev1.PodSpec{
				ServiceAccountName: name,
				PriorityClassName:  "rancher-critical",
				HostNetwork:        i.hostNetwork,
				Containers: []corev1.Container{{
					Name: "rancher", Image: "rancher/rancher:" + i.version, ImagePullPolicy: corev1.PullIfNotPresent,
					Args:         []string{"--no-cacerts", "--http-listen-port=80", "--https-listen-port=443", "--add-local=true"},
					Ports:        ports,
					Env:          append(env, i.env...),
					StartupProbe: probe(10, 12), LivenessProbe: probe(30, 5), ReadinessProbe: probe(30, 5),
				}},
			},
		},
	}}
}

// createState makes what a Rancher that has run for a while keeps in the API.
func (i *installation) createState(ctx context.Context, c *clients) error {
	if err := inParallel(len(systemNamespaces), func(n int) error {
		return createNamespace(ctx, c.kubernetes, systemNamespaces[n])
	}); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"server-version": i.version,
		"server-url":     "https://rancher.example.com",
		"install-uuid":   "6f1c6b1e-4e0b-4a5e-9f0c-3a5b7d9e1f20",
		"agent-tls-mode": "strict",
		"cacerts":        "",
	} {
		// A Setting has no spec (rancher pkg/apis/management.cattle.io/v3).
		setting := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "management.cattle.io/v3", "kind": "Setting", "metadata": map[string]any{"name": name},
			"value": value, "default": "", "customized": false, "source": "",
		}}
		if _, err := c.dynamic.Resource(settingsResource).Create(ctx, setting, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return inParallel(i.clusters+1, func(n int) error {
		cluster := i.downstreamCluster(n)
		if n == 0 {
			cluster = localCluster()
		}
		_, err := createWithStatus(ctx, c, managementClusters, cluster)
		return err
	})
}

func localCluster() *unstructured.Unstructured {
	cluster := managementCluster("local", map[string]any{"displayName": "local", "internal": true, "fleetWorkspaceName": "fleet-local"},
		map[string]any{"driver": "rke2", "provider": "rke2", "nodeCount": int64(3)})
	for _, kind := range []string{"Provisioned", "Connected", "Ready"} {
		setCondition(cluster, condition{kind: kind, status: "True"}, time.Now())
	}
	return cluster
}

func clusterID(n int) string { return fmt.Sprintf("c-m-%05d", n) }

func (i *installation) downstreamCluster(n int) *unstructured.Unstructured {
	cluster := managementCluster(clusterID(n), map[string]any{
		"displayName": fmt.Sprintf("downstream-%05d", n), "fleetWorkspaceName": "fleet-default",
		"importedConfig": map[string]any{}, "desiredAgentImage": "", "agentImageOverride": "",
	}, map[string]any{
		"driver": "imported", "provider": "rke2", "nodeCount": int64(3), "agentImage": "rancher/rancher-agent:" + i.version,
		"version": map[string]any{"gitVersion": "v1.33.5+rke2r1", "platform": "linux/amd64"},
	})
	cluster.SetAnnotations(map[string]string{tunnelAnnotation: "true"})
	// Last written when the leader was still alive.
	then := time.Now().Add(-deadSince)
	setCondition(cluster, condition{kind: "Provisioned", status: "True"}, then)
	setCondition(cluster, condition{kind: "AgentDeployed", status: "True"}, then)
	setConnected(cluster, i.connected, then)
	return cluster
}

func managementCluster(name string, spec, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "Cluster", "metadata": map[string]any{"name": name}, "spec": spec, "status": status,
	}}
}

func createNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// deadSince is how long ago a dead holder renewed its lease for the last time.
const deadSince = 41 * time.Minute

// leaseTransitions is how often the leader has changed before a world begins.
const leaseTransitions = 17

// createLease makes the Lease that a holder left behind: abruptly, or, with an
// empty name, in good order. A released lease has a duration of 1 s and
// acquireTime = renewTime (client-go tools/leaderelection release()).
func createLease(ctx context.Context, client kubernetes.Interface, holder string, seconds int32, renewed time.Time) error {
	acquired := metav1.NewMicroTime(renewed.Add(-3 * 24 * time.Hour))
	if holder == "" {
		seconds, acquired = 1, metav1.NewMicroTime(renewed)
	}
	_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: electionName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(holder),
			LeaseDurationSeconds: ptr.To(seconds),
			AcquireTime:          ptr.To(acquired),
			RenewTime:            ptr.To(metav1.NewMicroTime(renewed)),
			LeaseTransitions:     ptr.To(int32(leaseTransitions)),
		},
	}, metav1.CreateOptions{})
	return err
}

// leaseInfo is the Lease in the JSON line of world.
type leaseInfo struct {
	Namespace            string `json:"namespace"`
	Name                 string `json:"name"`
	UID                  string `json:"uid"`
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int32  `json:"leaseDurationSeconds"`
	LeaseTransitions     int32  `json:"leaseTransitions"`
	AcquireTime          string `json:"acquireTime"`
	RenewTime            string `json:"renewTime"`
}

// readLease returns nil when there is no Lease.
func readLease(ctx context.Context, client kubernetes.Interface) *leaseInfo {
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, electionName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	stamp := func(t *metav1.MicroTime) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return &leaseInfo{
		Namespace: lease.Namespace, Name: lease.Name, UID: string(lease.UID),
		HolderIdentity:       ptr.Deref(lease.Spec.HolderIdentity, ""),
		LeaseDurationSeconds: ptr.Deref(lease.Spec.LeaseDurationSeconds, 0),
		LeaseTransitions:     ptr.Deref(lease.Spec.LeaseTransitions, 0),
		AcquireTime:          stamp(lease.Spec.AcquireTime), RenewTime: stamp(lease.Spec.RenewTime),
	}
}

// inParallel runs f(0) … f(n-1) on a few goroutines and returns the first error.
func inParallel(n int, f func(int) error) error {
	numbers, results := make(chan int), make(chan error, n)
	for range min(n, 16) {
		go func() {
			for number := range numbers {
				results <- f(number)
			}
		}()
	}
	for number := range n {
		numbers <- number
	}
	close(numbers)
	var first error
	for range n {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// envOf returns the variables of a pod's container as its process gets them.
func envOf(pod *corev1.Pod, container string) []string {
	var env []string
	for _, c := range pod.Spec.Containers {
		if c.Name != container {
			continue
		}
		for _, variable := range c.Env {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	return env
}

// parseEnv reads NAME=VALUE.
func parseEnv(text string) (corev1.EnvVar, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return corev1.EnvVar{}, fmt.Errorf("%s is not NAME=VALUE", strconv.Quote(text))
	}
	return corev1.EnvVar{Name: name, Value: value}, nil
}

// cleanEnv is this process's environment without what would steer an election.
func cleanEnv() []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CATTLE_") {
			env = append(env, variable)
		}
	}
	return env
}
