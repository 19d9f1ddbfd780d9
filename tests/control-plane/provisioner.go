package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

const (
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
	machineLabel     = "rke.cattle.io/machine" // on a Node: its Machine's UID
	pausedAnnotation = "cluster.x-k8s.io/paused"

	planSecretType      = "rke.cattle.io/machine-plan"
	bootstrapSecretType = "rke.cattle.io/bootstrap"
)

var (
	rkeBootstraps   = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1", Resource: "rkebootstraps"}
	customMachines  = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1", Resource: "custommachines"}
	vsphereMachines = schema.GroupVersionResource{Group: "rke-machine.cattle.io", Version: "v1", Resource: "vmwarevspheremachines"}
	managementNodes = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "nodes"}
)

// provisioner plays what lies between Cluster API and a node: the machine work
// of Rancher's leader (machines.go, planner.go), and what runs on the nodes, the
// system agent and etcd (nodes.go). It looks at everything a few times a second
// and changes what is not as it should be.
type provisioner struct {
	clients *clients

	mu          sync.Mutex // held while it acts, so that a command never comes in between
	on          bool       // whether the leader's work is done; the nodes do theirs anyway
	downstreams []*downstream
	agents      map[types.UID]*agent // by Machine

	caches  map[schema.GroupVersionResource]cache.GenericLister
	secrets cache.GenericLister
	log     *os.File
	said    map[string]time.Time
}

// clusterView is what the caches hold of one cluster.
type clusterView struct {
	*downstream
	capi, controlPlane *unstructured.Unstructured // nil where there is none
	machines           []*machineView
	bootstraps         []*unstructured.Unstructured
	infras             []*unstructured.Unstructured
	plans              []*corev1.Secret // plan Secrets
	nodes              []corev1.Node    // none while the cluster is unreachable
}

// machineView is a Machine with what belongs to it, nil where there is none.
type machineView struct {
	*unstructured.Unstructured
	bootstrap, infra *unstructured.Unstructured
	secret           *corev1.Secret
}

func startProvisioner(ctx context.Context, p *plane, c *clients, downstreams []*downstream) (*provisioner, error) {
	r := &provisioner{
		clients: c, on: true, downstreams: downstreams, agents: map[types.UID]*agent{},
		said: map[string]time.Time{}, caches: map[schema.GroupVersionResource]cache.GenericLister{},
	}
	var err error
	if r.log, err = os.Create(filepath.Join(p.Dir, "logs", "provisioner.log")); err != nil {
		return nil, err
	}
	// Caches spare the API server, and the audit log, a dozen lists a second.
	namespaced := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, workspace, nil)
	for _, resource := range []schema.GroupVersionResource{
		capiClusters, capiMachines, rkeControlPlanes, rkeBootstraps, customMachines, vsphereMachines, provisioningClusters,
	} {
		r.caches[resource] = namespaced.ForResource(resource).Lister()
	}
	global := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	for _, resource := range []schema.GroupVersionResource{managementClusters, managementNodes} {
		r.caches[resource] = global.ForResource(resource).Lister()
	}
	typed := informers.NewSharedInformerFactoryWithOptions(c.kubernetes, 0, informers.WithNamespace(workspace))
	secrets, err := typed.ForResource(corev1.SchemeGroupVersion.WithResource("secrets"))
	if err != nil {
		return nil, err
	}
	r.secrets = secrets.Lister()
	namespaced.Start(ctx.Done())
	global.Start(ctx.Done())
	typed.Start(ctx.Done())
	namespaced.WaitForCacheSync(ctx.Done())
	global.WaitForCacheSync(ctx.Done())
	typed.WaitForCacheSync(ctx.Done())
	go r.run(ctx)
	return r, nil
}

func (r *provisioner) run(ctx context.Context) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, d := range r.downstreams {
			r.look(ctx, d)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look does one round of work for one cluster.
func (r *provisioner) look(ctx context.Context, d *downstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := r.view(ctx, d)
	if err != nil {
		r.complain("cluster "+d.cluster, err)
		return
	}
	r.playAgents(ctx, c)
	if d.reachable && d.etcd {
		r.playEtcd(ctx, c)
	}
	if r.on {
		r.playMachines(ctx, c)
		r.playPlanner(ctx, c)
	}
}

func (r *provisioner) view(ctx context.Context, d *downstream) (*clusterView, error) {
	c := &clusterView{downstream: d, capi: r.cached(capiClusters, d.cluster), controlPlane: r.cached(rkeControlPlanes, d.cluster)}
	c.bootstraps = r.ofCluster(rkeBootstraps, d.cluster)
	c.infras = append(r.ofCluster(customMachines, d.cluster), r.ofCluster(vsphereMachines, d.cluster)...)
	secrets, err := r.secrets.List(labels.SelectorFromSet(labels.Set{clusterNameLabel: d.cluster}))
	if err != nil {
		return nil, err
	}
	for _, object := range secrets {
		if secret := object.(*corev1.Secret); secret.Type == planSecretType {
			c.plans = append(c.plans, secret)
		}
	}
	for _, object := range r.ofCluster(capiMachines, d.cluster) {
		m := &machineView{Unstructured: object}
		m.bootstrap = byName(c.bootstraps, nested(object, "spec", "bootstrap", "configRef", "name"), "")
		m.infra = byName(c.infras, nested(object, "spec", "infrastructureRef", "name"), nested(object, "spec", "infrastructureRef", "kind"))
		for _, secret := range c.plans {
			if secret.Labels["rke.cattle.io/machine-name"] == object.GetName() {
				m.secret = secret
			}
		}
		c.machines = append(c.machines, m)
	}
	if d.reachable {
		nodes, err := d.clients.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		c.nodes = nodes.Items
	}
	return c, nil
}

func (r *provisioner) cached(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	object, err := r.caches[resource].ByNamespace(workspace).Get(name)
	if err != nil {
		return nil // a cache fails only with NotFound
	}
	return object.(*unstructured.Unstructured)
}

// ofCluster returns a cluster's objects, the oldest first.
func (r *provisioner) ofCluster(resource schema.GroupVersionResource, cluster string) []*unstructured.Unstructured {
	list, _ := r.caches[resource].List(labels.SelectorFromSet(labels.Set{clusterNameLabel: cluster}))
	var objects []*unstructured.Unstructured
	for _, object := range list {
		objects = append(objects, object.(*unstructured.Unstructured))
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		if order := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); order != 0 {
			return order
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return objects
}

// inNamespace returns what a namespace other than the workspace holds.
func (r *provisioner) inNamespace(resource schema.GroupVersionResource, namespace string) []*unstructured.Unstructured {
	list, _ := r.caches[resource].ByNamespace(namespace).List(labels.Everything())
	var objects []*unstructured.Unstructured
	for _, object := range list {
		objects = append(objects, object.(*unstructured.Unstructured))
	}
	return objects
}

func (c *clusterView) node(name string) *corev1.Node {
	for n := range c.nodes {
		if c.nodes[n].Name == name {
			return &c.nodes[n]
		}
	}
	return nil
}

func byName(objects []*unstructured.Unstructured, name, kind string) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetName() == name && (kind == "" || object.GetKind() == kind) {
			return object
		}
	}
	return nil
}

func resourceOf(infra *unstructured.Unstructured) schema.GroupVersionResource {
	if infra.GetKind() == "CustomMachine" {
		return customMachines
	}
	return vsphereMachines
}

// change applies f to a copy of an object and writes what f changed, the object
// and its status apart. Another's change in between is no error, nor is that the
// object has gone: the next look sees what is there then.
func (r *provisioner) change(ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, f func(*unstructured.Unstructured)) {
	changed := object.DeepCopy()
	f(changed)
	client := r.clients.dynamic.Resource(resource).Namespace(object.GetNamespace())
	status := changed.Object["status"]
	if !equality.Semantic.DeepEqual(withoutStatus(object), withoutStatus(changed)) {
		updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			r.complain(resource.Resource+" "+object.GetName(), err)
			return
		}
		changed = updated.DeepCopy()
		changed.Object["status"] = status
	}
	if !equality.Semantic.DeepEqual(object.Object["status"], status) {
		if _, err := client.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			r.complain(resource.Resource+" "+object.GetName(), err)
		}
	}
}

func withoutStatus(object *unstructured.Unstructured) map[string]any {
	rest := map[string]any{}
	for key, value := range object.Object {
		if key != "status" {
			rest[key] = value
		}
	}
	return rest
}

// changeSecret is change for a Secret.
func (r *provisioner) changeSecret(ctx context.Context, secret *corev1.Secret, f func(*corev1.Secret)) {
	changed := secret.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	f(changed)
	if equality.Semantic.DeepEqual(secret, changed) {
		return
	}
	_, err := r.clients.kubernetes.CoreV1().Secrets(secret.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	r.complain("secret "+secret.Name, err)
}

// say writes to the log, as the leader would to its own; the same again only
// after a while, since Rancher's retries get slower and these do not.
func (r *provisioner) say(format string, args ...any) {
	text, now := fmt.Sprintf(format, args...), time.Now()
	if now.Sub(r.said[text]) > 10*time.Second {
		r.said[text] = now
		fmt.Fprintf(r.log, "%s %s\n", now.UTC().Format(time.RFC3339), text)
	}
}

func (r *provisioner) complain(what string, err error) {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return
	}
	r.say("%s: %v", what, err)
}

// nested reads a text, empty where there is none.
func nested(object *unstructured.Unstructured, path ...string) string {
	if object == nil {
		return ""
	}
	text, _, _ := unstructured.NestedString(object.Object, path...)
	return text
}

// set writes a value; the path leads through maps only.
func set(object *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		panic(err) // a schema of Cluster API or Rancher that this program does not know
	}
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

func addFinalizer(object *unstructured.Unstructured, finalizer string) {
	if finalizers := object.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
		object.SetFinalizers(append(finalizers, finalizer))
	}
}

func removeFinalizer(object *unstructured.Unstructured, finalizer string) {
	object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == finalizer }))
}

func deleting(object metav1.Object) bool { return object.GetDeletionTimestamp() != nil }

// contentOf is what an object holds; nothing where there is none.
func contentOf(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	return object.Object
}
