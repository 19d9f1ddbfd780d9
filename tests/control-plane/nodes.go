package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// etcdNodeFinalizer is rke2's on Nodes that are etcd members.
const etcdNodeFinalizer = "wrangler.cattle.io/managed-etcd-controller"

// agent is the rancher-system-agent of one machine.
type agent struct {
	cluster string
	machine string
	node    string
	on      bool
}

func checksum(plan []byte) string {
	sum := sha256.Sum256(plan)
	return hex.EncodeToString(sum[:])
}

// playAgents lets every agent apply the plan it was given (system-agent
// pkg/k8splan/watcher.go).
func (r *provisioner) playAgents(ctx context.Context, c *clusterView) {
	for _, m := range c.machines {
		a := r.agents[m.GetUID()]
		if a == nil || !a.on || m.secret == nil || len(m.secret.Data["plan"]) == 0 {
			continue
		}
		sum := checksum(m.secret.Data["plan"])
		probes := probeStatuses(m.secret.Data["plan"])
		if string(m.secret.Data["applied-checksum"]) == sum && bytes.Equal(m.secret.Data["probe-statuses"], probes) {
			continue
		}
		r.changeSecret(ctx, m.secret, func(s *corev1.Secret) {
			if string(s.Data["applied-checksum"]) != sum {
				s.Data["applied-checksum"] = []byte(sum)
				s.Data["applied-output"] = compressed(map[string]string{"install": "[INFO]  played installation of rke2\n"})
				s.Data["applied-periodic-output"] = compressed(map[string]string{})
				s.Data["last-apply-time"] = []byte(time.Now().UTC().Format(time.UnixDate))
				s.Data["success-count"], s.Data["failure-count"] = []byte("1"), []byte("0")
				delete(s.Data, "failed-checksum")
				delete(s.Data, "failed-output")
			}
			s.Data["probe-statuses"] = probes
		})
	}
}

// probeStatuses is what an agent writes when every probe of a plan is healthy.
func probeStatuses(plan []byte) []byte {
	var parsed nodePlan
	_ = json.Unmarshal(plan, &parsed) // a plan that is none has no probes
	type status struct {
		Healthy      bool `json:"healthy"`
		SuccessCount int  `json:"successCount"`
	}
	statuses := map[string]status{}
	for probe := range parsed.Probes {
		statuses[probe] = status{Healthy: true, SuccessCount: 1}
	}
	text, _ := json.Marshal(statuses) // maps of plain values always marshal
	return text
}

func compressed(value any) []byte {
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	_ = json.NewEncoder(writer).Encode(value) // a buffer takes everything
	_ = writer.Close()
	return buffer.Bytes()
}

// playEtcd is the member controller of rke2's servers: asked by annotation, or by
// the Node's deletion, it drops the member (k3s pkg/etcd/member_controller.go).
func (r *provisioner) playEtcd(ctx context.Context, c *clusterView) {
	nodes := c.clients.kubernetes.CoreV1().Nodes()
	for n := range c.nodes {
		node := c.nodes[n].DeepCopy()
		annotations := node.Annotations
		switch {
		case deleting(node) && slices.Contains(node.Finalizers, etcdNodeFinalizer):
			node.Finalizers = slices.DeleteFunc(node.Finalizers, func(f string) bool { return f == etcdNodeFinalizer })
		case annotations["etcd.rke2.cattle.io/remove"] == "true" && annotations["etcd.rke2.cattle.io/removed-node-name"] == "":
			annotations["etcd.rke2.cattle.io/removed-node-name"] = annotations["etcd.rke2.cattle.io/node-name"]
		default:
			continue
		}
		_, err := nodes.Update(ctx, node, metav1.UpdateOptions{})
		r.complain("etcd of node "+node.Name, err)
	}
}

// join lets a host come up as a machine: its Node appears, or, if the host was a
// node before, is relabelled, and its agent begins to work. A host has one
// agent, so that of an older machine of the same host falls silent.
func (r *provisioner) join(ctx context.Context, d *downstream, machine, nodeName string) (map[string]any, error) {
	m, err := r.clients.dynamic.Resource(capiMachines).Namespace(workspace).Get(ctx, machine, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if m.GetLabels()[clusterNameLabel] != d.cluster {
		return nil, fmt.Errorf("machine %s is not of cluster %s", machine, d.cluster)
	}
	if !d.reachable {
		return nil, fmt.Errorf("cluster %s is stopped", d.cluster)
	}
	wanted := d.newNode(nodeName, m.GetUID(), m.GetLabels())
	nodes := d.clients.kubernetes.CoreV1().Nodes()
	_, err = nodes.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := nodes.Get(ctx, nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Labels, node.Finalizers = wanted.Labels, wanted.Finalizers
			for _, etcd := range []string{"node-name", "node-address", "remove", "removed-node-name"} {
				key := "etcd.rke2.cattle.io/" + etcd
				delete(node.Annotations, key)
				if value, has := wanted.Annotations[key]; has {
					metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
				}
			}
			delete(node.Annotations, silentAnnotation)
			_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	for _, a := range r.agents {
		if a.cluster == d.cluster && a.node == nodeName {
			a.on = false
		}
	}
	r.agents[m.GetUID()] = &agent{cluster: d.cluster, machine: machine, node: nodeName, on: true}
	return map[string]any{"machine": machine, "uid": m.GetUID(), "node": nodeName, "providerID": wanted.Spec.ProviderID}, nil
}

// newNode is a Node as rke2 registers it.
func (d *downstream) newNode(nodeName string, machine types.UID, roles map[string]string) *corev1.Node {
	sum := sha256.Sum256([]byte(nodeName))
	// Every node has an address of its own, since machines are told apart by it.
	// Nobody listens there: kwok's address is the InternalDNS (see plane.go).
	address := fmt.Sprintf("10.%d.%d.%d", 64+sum[0]%64, sum[1], 1+sum[2]%254)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName,
			Labels: map[string]string{
				"kubernetes.io/hostname": nodeName, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"cattle.io/os": "linux", machineLabel: string(machine),
			},
			Annotations: map[string]string{},
		},
		Spec: corev1.NodeSpec{ProviderID: "rke2://" + nodeName},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: rke2Version, ContainerRuntimeVersion: "containerd://2.1.4-k3s1",
				KernelVersion: "6.4.0-150700.53-default", OSImage: "SUSE Linux Enterprise Server 15 SP7",
				OperatingSystem: "linux", Architecture: "amd64",
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeHostName, Address: nodeName},
				{Type: corev1.NodeInternalDNS, Address: "127.0.0.1"},
			},
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
		},
	}
	for role, label := range map[string]string{etcdRole: "etcd", controlPlaneRole: "control-plane", workerRole: "worker"} {
		if roles[role] == "true" {
			node.Labels["node-role.kubernetes.io/"+label] = "true"
		}
	}
	if roles[etcdRole] == "true" {
		node.Finalizers = []string{etcdNodeFinalizer}
		node.Annotations["etcd.rke2.cattle.io/node-name"] = nodeName + "-" + hex.EncodeToString(sum[:])[:8]
		node.Annotations["etcd.rke2.cattle.io/node-address"] = address
	}
	return node
}

// nodeGone takes a host away together with its Node.
func (r *provisioner) nodeGone(ctx context.Context, d *downstream, nodeName string) error {
	nodes := d.clients.kubernetes.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Finalizers = nil
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = nodes.Delete(ctx, nodeName, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for _, a := range r.agents {
		if a.cluster == d.cluster && a.node == nodeName {
			a.on = false
		}
	}
	return nil
}

// kubelet silences a node's kubelet, or lets it speak again.
func (r *provisioner) kubelet(ctx context.Context, d *downstream, nodeName string, on bool) error {
	nodes := d.clients.kubernetes.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if on {
			delete(node.Annotations, silentAnnotation)
			_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
			return err
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, silentAnnotation, "true")
		if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// What the controller-manager writes after 50 s without heartbeats.
		for n := range node.Status.Conditions {
			c := &node.Status.Conditions[n]
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.Now()
		}
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// agentNamed finds the agent of a machine.
func (r *provisioner) agentNamed(machine string) (*agent, error) {
	var names []string
	for _, a := range r.agents {
		if a.machine == machine {
			return a, nil
		}
		names = append(names, a.machine)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no agent of machine %q, only of: %s", machine, strings.Join(names, ", "))
}
