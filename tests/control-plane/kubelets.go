package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kwok/kustomize/crd"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeatstages "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/yaml"
)

// replicaAnnotation marks the pods that a rancher-replica process stands
// behind. Their deletion is not kwok's affair, which would let them vanish at
// once: as with a kubelet they stay, terminating, until the process has ended.
const replicaAnnotation = "testing.kubectl-rancher/replica"

// notOurReplica keeps kwok's stage pod-delete from those pods.
const notOurReplica = `
    - key: '.metadata.annotations["` + replicaAnnotation + `"]'
      operator: 'DoesNotExist'
`

// silentAnnotation marks a node whose kubelet is silent: kwok leaves it alone.
const silentAnnotation = "testing.kubectl-rancher/kubelet-silent"

const notSilent = `
    - key: '.metadata.annotations["` + silentAnnotation + `"]'
      operator: 'DoesNotExist'
`

// only adds a condition to a stage of kwok's.
func only(stage, expression string) string {
	return strings.Replace(stage, "    matchExpressions:", "    matchExpressions:"+strings.TrimRight(expression, "\n"), 1)
}

// kubelets is kwok: it makes nodes Ready, runs their pods as far as the API
// server can tell, and serves pods/log and pods/exec.
type kubelets struct {
	plane *plane
	port  int
	child *child // nil while stopped
}

var logsResource = schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "logs"}

// kwokCRDs are the kinds that kwok looks up in the API server.
func kwokCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, text := range [][]byte{crd.Logs, crd.ClusterLogs, crd.Exec, crd.ClusterExec} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, definition); err != nil {
			return nil, err
		}
		crds = append(crds, definition)
	}
	return crds, nil
}

// start runs kwok, on the same port each time since the nodes name it.
func (k *kubelets) start() error {
	if k.child != nil && !k.child.ended() {
		return nil
	}
	if k.port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		k.port = port
	}
	config := filepath.Join(k.plane.Dir, "kwok.yaml")
	stages := strings.Join([]string{
		only(nodestages.DefaultNodeInit, notSilent), only(heartbeatstages.DefaultNodeHeartbeat, notSilent),
		podstages.DefaultPodReady, podstages.DefaultPodComplete, only(podstages.DefaultPodDelete, notOurReplica),
	}, "\n---\n")
	if err := os.WriteFile(config, []byte(stages), 0o644); err != nil {
		return err
	}
	kwok, err := beside("kwok")
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", k.port)
	child, err := k.plane.startChild("kwok", exec.Command(kwok,
		"--kubeconfig="+k.plane.Kubeconfig, "--config="+config,
		"--manage-all-nodes", "--node-ip=127.0.0.1", fmt.Sprintf("--node-port=%d", k.port), "--server-address="+address,
		"--enable-crds=Logs,ClusterLogs,Exec,ClusterExec"))
	if err != nil {
		return err
	}
	k.plane.require(child)
	k.child = child
	return nil
}

// stop leaves the nodes without kubelets: pods and nodes keep the status they
// have, until the controller-manager notices that heartbeats are missing.
func (k *kubelets) stop() {
	if k.child == nil {
		return
	}
	k.plane.spare(k.child)
	k.child.kill()
	k.child = nil
}

func (k *kubelets) running() bool { return k.child != nil && !k.child.ended() }

func (k *kubelets) pid() int {
	if !k.running() {
		return 0
	}
	return k.child.pid()
}

// beside finds a program that was built together with this one.
func beside(program string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s must lie beside %s (build.sh puts it there): %w", program, self, err)
	}
	return path, nil
}

// createNode makes a node for kwok to bring to life.
func createNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true",
		},
	}, Status: corev1.NodeStatus{
		// kwok keeps what is there and calls the rest after itself.
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: "v1.33.5+rke2r1", ContainerRuntimeVersion: "containerd://2.1.4-k3s1",
			KernelVersion: "6.4.0-150700.53-default", OSImage: "SUSE Linux Enterprise Server 15 SP7",
			OperatingSystem: "linux", Architecture: "amd64",
		},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
		},
	}}, metav1.CreateOptions{})
	return err
}

// serveLogs makes kwok answer pods/log of one pod from two files.
func serveLogs(ctx context.Context, client dynamic.Interface, pod *corev1.Pod, current, previous string) error {
	containers := []any{}
	for _, container := range pod.Spec.Containers {
		containers = append(containers, container.Name)
	}
	_, err := client.Resource(logsResource).Namespace(pod.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Logs",
		"metadata": map[string]any{
			"name": pod.Name,
			// Gone with the pod.
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod.Name, "uid": string(pod.UID)}},
		},
		"spec": map[string]any{"logs": []any{map[string]any{
			"containers": containers, "logsFile": current, "previousLogsFile": previous,
		}}},
	}}, metav1.CreateOptions{})
	return err
}
