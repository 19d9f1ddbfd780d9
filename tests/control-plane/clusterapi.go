package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Where Rancher's chart turtles puts Cluster API's core controller, and the
// Lease that it elects itself with.
const (
	capiNamespace  = "cattle-capi-system"
	capiDeployment = "capi-controller-manager"
	capiLease      = "controller-leader-election-capi"
)

var (
	capiMachines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
	capiClusters = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
)

// clusterAPI is the real core controller of Cluster API with its webhooks. Its
// Deployment and Lease are played: a process of ours stands behind them, not a
// container, and it cannot elect itself outside of a pod.
type clusterAPI struct {
	plane   *plane
	clients *clients

	definitions string // directory that build.sh filled from the controller's module
	dir         string // of its certificate
	webhookPort int
	healthPort  int
	ca          []byte
	child       *child // nil while stopped
	identity    string // in the Lease
}

func newClusterAPI(p *plane, c *clients) (*clusterAPI, error) {
	a := &clusterAPI{plane: p, clients: c, dir: filepath.Join(p.Dir, "cluster-api")}
	var err error
	if a.definitions, err = beside("cluster-api"); err != nil {
		return nil, err
	}
	if a.webhookPort, err = freePort(); err != nil {
		return nil, err
	}
	if a.healthPort, err = freePort(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		return nil, err
	}
	caFile := filepath.Join(a.dir, "ca.crt")
	if err := writeCertificates(caFile, filepath.Join(a.dir, "tls.crt"), filepath.Join(a.dir, "tls.key")); err != nil {
		return nil, err
	}
	a.ca, err = os.ReadFile(caFile)
	return a, err
}

func (a *clusterAPI) url(path string) *string {
	return ptr.To(fmt.Sprintf("https://127.0.0.1:%d%s", a.webhookPort, path))
}

// crds are Cluster API's definitions, both versions served and converted by the
// controller, as its kustomization makes them but with a URL for the Service.
func (a *clusterAPI) crds() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(a.definitions, "crds", "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no definitions of Cluster API in %s", a.definitions)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: a.url("/convert"), CABundle: a.ca},
			},
		}
		crds = append(crds, definition)
	}
	return crds, nil
}

// createWebhooks registers the defaulting and validating webhooks.
func (a *clusterAPI) createWebhooks(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(a.definitions, "webhooks.yaml"))
	if err != nil {
		return err
	}
	reach := func(config *admissionv1.WebhookClientConfig) {
		*config = admissionv1.WebhookClientConfig{URL: a.url(ptr.Deref(config.Service.Path, "")), CABundle: a.ca}
	}
	registrations := a.clients.kubernetes.AdmissionregistrationV1()
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return err
		}
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			var hooks admissionv1.MutatingWebhookConfiguration
			if err := yaml.Unmarshal(document, &hooks); err != nil {
				return err
			}
			hooks.Name = "capi-mutating-webhook-configuration"
			for n := range hooks.Webhooks {
				reach(&hooks.Webhooks[n].ClientConfig)
			}
			if _, err := registrations.MutatingWebhookConfigurations().Create(ctx, &hooks, metav1.CreateOptions{}); err != nil {
				return err
			}
		case "ValidatingWebhookConfiguration":
			var hooks admissionv1.ValidatingWebhookConfiguration
			if err := yaml.Unmarshal(document, &hooks); err != nil {
				return err
			}
			hooks.Name = "capi-validating-webhook-configuration"
			for n := range hooks.Webhooks {
				reach(&hooks.Webhooks[n].ClientConfig)
			}
			if _, err := registrations.ValidatingWebhookConfigurations().Create(ctx, &hooks, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// start runs the controller, on the same ports each time since definitions and
// webhooks name them.
func (a *clusterAPI) start() error {
	if a.running() {
		return nil
	}
	binary, err := beside("cluster-api-core")
	if err != nil {
		return err
	}
	a.child, err = a.plane.startChild("cluster-api-core", exec.Command(binary,
		"--kubeconfig="+a.plane.Kubeconfig,
		"--leader-elect=false",
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
		fmt.Sprintf("--health-addr=127.0.0.1:%d", a.healthPort),
		fmt.Sprintf("--webhook-port=%d", a.webhookPort), "--webhook-cert-dir="+a.dir,
		// By default a Machine that waits for its node is looked at every 5 s only.
		"--feature-gates=ReconcilerRateLimiting=false",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", // nothing here was stored in an older version
	))
	if err == nil {
		a.plane.require(a.child)
	}
	return err
}

func (a *clusterAPI) stop() {
	if a.child == nil {
		return
	}
	a.plane.spare(a.child)
	a.child.kill()
	a.child = nil
}

func (a *clusterAPI) running() bool { return a.child != nil && !a.child.ended() }

func (a *clusterAPI) pid() int {
	if !a.running() {
		return 0
	}
	return a.child.pid()
}

// wait returns when the controller works and its webhooks answer.
func (a *clusterAPI) wait(ctx context.Context) error {
	client := http.Client{Timeout: time.Second}
	return a.plane.waitUntil(ctx, time.Minute, "Cluster API's controller", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", a.healthPort), nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// createDeployment makes the Deployment as which the controller appears.
func (a *clusterAPI) createDeployment(ctx context.Context) error {
	if err := createNamespace(ctx, a.clients.kubernetes, capiNamespace); err != nil {
		return err
	}
	labels := map[string]string{"cluster.x-k8s.io/provider": "cluster-api", "control-plane": "controller-manager"}
	_, err := a.clients.kubernetes.AppsV1().Deployments(capiNamespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: capiDeployment, Namespace: capiNamespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "manager", Image: "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2",
					Command: []string{"/manager"}, Args: []string{"--leader-elect", "--diagnostics-address=:8443"},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// pods are the Deployment's.
func (a *clusterAPI) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := a.clients.kubernetes.CoreV1().Pods(capiNamespace).List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/provider=cluster-api"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// showRunning makes the Deployment's pods tell whether the controller runs.
func (a *clusterAPI) showRunning(ctx context.Context, running bool) error {
	pods, err := a.pods(ctx)
	if err != nil {
		return err
	}
	for n := range pods {
		showPod(&pods[n], running)
		if _, err := a.clients.kubernetes.CoreV1().Pods(capiNamespace).UpdateStatus(ctx, &pods[n], metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// showPod sets a pod's status to that of one whose containers run, or crash at
// start. kwok leaves the status of a pod that has an address alone.
func showPod(pod *corev1.Pod, running bool) {
	ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	if !running {
		ready = corev1.ConditionFalse
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container"}}
	}
	for n := range pod.Status.Conditions {
		c := &pod.Status.Conditions[n]
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = ready, metav1.Now()
		}
	}
	for n := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[n]
		status.Ready, status.Started, status.State = running, &running, state
		if !running {
			status.RestartCount++
		}
	}
}

// keepLease renews the controller's Lease while it runs, as controller-runtime
// does: 15 s long, every 2 s.
func (a *clusterAPI) keepLease(ctx context.Context, running func() bool) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if running() {
			// A missed renewal is made up for by the next.
			_ = a.renewLease(ctx, a.clients.kubernetes)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *clusterAPI) renewLease(ctx context.Context, client kubernetes.Interface) error {
	pods, err := a.pods(ctx)
	if err != nil || len(pods) == 0 {
		return err
	}
	if a.identity == "" {
		a.identity = pods[0].Name + "_" + string(uuid.NewUUID())
	}
	leases := client.CoordinationV1().Leases(capiNamespace)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, capiLease, metav1.GetOptions{})
	if err != nil {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: capiLease, Namespace: capiNamespace},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &a.identity, LeaseDurationSeconds: ptr.To(int32(15)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(int32(0)),
			},
		}, metav1.CreateOptions{})
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &a.identity, &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
