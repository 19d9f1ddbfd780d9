package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// tunnelAnnotation on a management Cluster says whether its agent's tunnel
// stands: "true" or "false". It is this program's stand-in for a remotedialer
// session; a Cluster without it is left alone.
const tunnelAnnotation = "testing.kubectl-rancher/tunnel"

var managementClusters = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusters"}

// keepConnected is the one leader-only duty that is played: the condition
// Connected of every cluster, true exactly while its tunnel stands, written only
// on change (rancher pkg/controllers/management/clusterconnected).
func keepConnected(ctx context.Context, config *rest.Config, interval time.Duration) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		logrus.Errorf("failed to check cluster connectivity: %v", err)
		return
	}
	subresource, err := hasStatusSubresource(config)
	if err != nil {
		logrus.Errorf("failed to check cluster connectivity: %v", err)
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := checkConnected(ctx, client.Resource(managementClusters), subresource); err != nil && ctx.Err() == nil {
			logrus.Errorf("failed to check cluster connectivity: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func checkConnected(ctx context.Context, clusters dynamic.ResourceInterface, subresource bool) error {
	list, err := clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		cluster := &list.Items[i]
		var connected bool
		switch internal, _, _ := unstructured.NestedBool(cluster.Object, "spec", "internal"); {
		case internal:
			connected = true
		case cluster.GetAnnotations()[tunnelAnnotation] == "true":
			connected = true
		case cluster.GetAnnotations()[tunnelAnnotation] == "false":
		default:
			continue
		}
		if !setConnected(cluster, connected, time.Now()) {
			continue
		}
		if subresource {
			_, err = clusters.UpdateStatus(ctx, cluster, metav1.UpdateOptions{})
		} else {
			_, err = clusters.Update(ctx, cluster, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s: %w", cluster.GetName(), err)
		}
	}
	return nil
}

// hasStatusSubresource reports whether management Clusters have one, as they do
// since Rancher 2.15 (rancher pkg/crds/dashboard/crds.go).
func hasStatusSubresource(config *rest.Config) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	served, err := client.ServerResourcesForGroupVersion(managementClusters.GroupVersion().String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool {
		return r.Name == managementClusters.Resource+"/status"
	}), nil
}

// setConnected brings the conditions Connected and Ready in line and reports
// whether that changed anything.
//
// Rancher itself sets Ready only to false here; what sets it back to true is a
// per-cluster controller that has no part in these tests.
func setConnected(cluster *unstructured.Unstructured, connected bool, now time.Time) bool {
	if connected {
		changed := setCondition(cluster, condition{kind: "Connected", status: "True"}, now)
		return setCondition(cluster, condition{kind: "Ready", status: "True"}, now) || changed
	}
	changed := setCondition(cluster, condition{kind: "Connected", status: "False"}, now)
	return setCondition(cluster, disconnected, now) || changed
}

// disconnected is Rancher's Ready condition of a cluster without a tunnel
// (clusterconnected.go).
var disconnected = condition{kind: "Ready", status: "False", reason: "Disconnected", message: "Cluster agent is not connected"}

// condition is one of Rancher's (norman's) conditions, whose times are strings.
type condition struct{ kind, status, reason, message string }

func (c condition) object(now time.Time) map[string]any {
	object := map[string]any{"type": c.kind, "status": c.status, "lastUpdateTime": now.UTC().Format(time.RFC3339)}
	if c.reason != "" {
		object["reason"] = c.reason
	}
	if c.message != "" {
		object["message"] = c.message
	}
	return object
}

func setCondition(cluster *unstructured.Unstructured, want condition, now time.Time) bool {
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for i := range conditions {
		have, ok := conditions[i].(map[string]any)
		if !ok || have["type"] != want.kind {
			continue
		}
		text := func(field string) string { s, _ := have[field].(string); return s }
		if text("status") == want.status && text("reason") == want.reason && text("message") == want.message {
			return false
		}
		conditions[i] = want.object(now)
		return unstructured.SetNestedSlice(cluster.Object, conditions, "status", "conditions") == nil
	}
	conditions = append(conditions, want.object(now))
	return unstructured.SetNestedSlice(cluster.Object, conditions, "status", "conditions") == nil
}
