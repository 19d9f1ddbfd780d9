package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// replica is the process behind one Rancher pod.
type replica struct {
	pod         *corev1.Pod // as last seen
	child       *child      // nil until started
	started     time.Time
	log         string
	previousLog string
	terminating bool
}

// replicaInfo is a replica in JSON.
type replicaInfo struct {
	Pod         string `json:"pod"`
	UID         string `json:"uid"`
	Node        string `json:"node"`
	Identity    string `json:"identity"`
	State       string `json:"state"` // none, running or exited
	PID         int    `json:"pid,omitempty"`
	ExitCode    *int   `json:"exitCode,omitempty"` // 128 + signal, as a container runtime reports it
	Log         string `json:"log"`
	PreviousLog string `json:"previousLog"`
}

func (r *replica) running() bool { return r.child != nil && !r.child.ended() }

func (r *replica) exitCode() int {
	status, ok := r.child.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.child.cmd.ProcessState.ExitCode()
}

// identity is the hostname that the pod's process sees: the pod's name, or the
// node's with hostNetwork.
func (r *replica) identity() string {
	if r.pod.Spec.HostNetwork {
		return r.pod.Spec.NodeName
	}
	return r.pod.Name
}

func (r *replica) info() replicaInfo {
	info := replicaInfo{
		Pod: r.pod.Name, UID: string(r.pod.UID), Node: r.pod.Spec.NodeName, Identity: r.identity(),
		State: "none", Log: r.log, PreviousLog: r.previousLog,
	}
	switch {
	case r.running():
		info.State, info.PID = "running", r.child.pid()
	case r.child != nil:
		info.State, info.ExitCode = "exited", ptr.To(r.exitCode())
	}
	return info
}

// pods keeps pods and processes together: it places pods on nodes as the
// scheduler would, runs a replica for each Rancher pod, and ends it with its
// pod as the kubelet would. All its state belongs to the goroutine in loop.
type pods struct {
	plane    *plane
	clients  *clients
	kubelets *kubelets
	options  *worldOptions

	rancherKubeconfig string
	auto              bool // start a replica for each new Rancher pod
	replicas          map[types.UID]*replica
	placed            map[types.UID]string
	podLister         corelisters.PodLister
	nodeLister        corelisters.NodeLister

	work chan func()
	ctx  context.Context
}

// watch starts to look at pods and nodes.
func (p *pods) watch(ctx context.Context) {
	p.ctx = ctx
	p.work = make(chan func())
	p.replicas, p.placed = map[types.UID]*replica{}, map[types.UID]string{}
	factory := informers.NewSharedInformerFactory(p.clients.kubernetes, 0)
	podInformer, nodeInformer := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	p.podLister, p.nodeLister = podInformer.Lister(), nodeInformer.Lister()
	_, _ = podInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.do(func() { p.seen(object.(*corev1.Pod)) }) },
		UpdateFunc: func(_, object any) { p.do(func() { p.seen(object.(*corev1.Pod)) }) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				p.do(func() { p.gone(pod) })
			}
		},
	})
	// A pod may have found no Ready node.
	_, _ = nodeInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.do(p.lookAgain) },
		UpdateFunc: func(_, _ any) { p.do(p.lookAgain) },
	})
	go p.loop()
	factory.Start(ctx.Done())
}

func (p *pods) loop() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case f := <-p.work:
			f()
		}
	}
}

// do runs f in the loop and returns when it has run, or never will.
func (p *pods) do(f func()) {
	done := make(chan struct{})
	select {
	case p.work <- func() { defer close(done); f() }:
		select {
		case <-done:
		case <-p.ctx.Done():
		}
	case <-p.ctx.Done():
	}
}

func (p *pods) lookAgain() {
	all, _ := p.podLister.List(labels.Everything()) // a lister of a cache does not fail
	for _, pod := range all {
		p.seen(pod)
	}
}

// seen takes notice of a pod's present state.
func (p *pods) seen(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		if pod.DeletionTimestamp == nil {
			p.place(pod)
		}
		return
	}
	if pod.Annotations[replicaAnnotation] != "true" {
		return
	}
	r := p.replicas[pod.UID]
	if r == nil {
		r = p.adopt(pod)
	}
	r.pod = pod
	switch {
	case pod.DeletionTimestamp != nil:
		if p.kubelets.running() {
			p.terminate(r, true)
		}
	case pod.Status.Phase == corev1.PodRunning && p.auto && r.child == nil:
		if err := p.start(r); err != nil {
			p.complain(err)
		}
	}
}

// gone takes notice of a pod's removal, which with --force comes before its
// process has ended.
func (p *pods) gone(pod *corev1.Pod) {
	delete(p.placed, pod.UID)
	if r := p.replicas[pod.UID]; r != nil {
		p.terminate(r, false)
		delete(p.replicas, pod.UID)
	}
}

// adopt prepares the log files of a new Rancher pod.
func (p *pods) adopt(pod *corev1.Pod) *replica {
	r := &replica{
		pod:         pod,
		log:         filepath.Join(p.plane.Dir, "pods", pod.Name+".log"),
		previousLog: filepath.Join(p.plane.Dir, "pods", pod.Name+".previous.log"),
	}
	p.replicas[pod.UID] = r
	if file, err := os.OpenFile(r.log, os.O_CREATE, 0o644); err != nil {
		p.complain(err)
	} else {
		file.Close()
	}
	ctx, cancel := p.brief()
	defer cancel()
	if err := serveLogs(ctx, p.clients.dynamic, pod, r.log, r.previousLog); err != nil && !apierrors.IsAlreadyExists(err) {
		p.complain(err)
	}
	return r
}

// start runs a replica's process; a second time it is a restarted container.
func (p *pods) start(r *replica) error {
	restarted := r.child != nil
	if restarted {
		if err := os.Rename(r.log, r.previousLog); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"rancher-replica", "--kubeconfig=" + p.rancherKubeconfig, "--identity=" + r.identity(),
		"--log-file=" + r.log, "--log-format=" + p.options.logFormat, "--rancher-version=" + versionOf(r.pod, p.options.install.version),
		"--connect-clusters", "--connect-interval=" + p.options.connectInterval.String(),
	}
	if p.options.leaderFuncFails != "" {
		args = append(args, "--leader-func-fails="+p.options.leaderFuncFails)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(append(cleanEnv(), "TZ=UTC"), envOf(r.pod, "rancher")...) // images have no time zone
	before, startedBefore := r.child, r.started
	child, err := p.plane.startChild("replica-"+r.pod.Name, cmd)
	if err != nil {
		return err
	}
	r.child, r.started = child, time.Now()
	if restarted {
		return p.recordRestart(r, before, startedBefore)
	}
	return nil
}

// versionOf is the version of the pod's image, so that a changed image counts.
func versionOf(pod *corev1.Pod, otherwise string) string {
	for _, c := range pod.Spec.Containers {
		if i := strings.LastIndex(c.Image, ":v"); c.Name == "rancher" && i >= 0 {
			return c.Image[i+1:]
		}
	}
	return otherwise
}

// recordRestart writes into the pod's status what a kubelet would.
func (p *pods) recordRestart(r *replica, before *child, started time.Time) error {
	ctx, cancel := p.brief()
	defer cancel()
	pod, err := p.clients.kubernetes.CoreV1().Pods(r.pod.Namespace).Get(ctx, r.pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	old := replica{child: before}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.Name != "rancher" {
			continue
		}
		terminated := corev1.ContainerStateTerminated{
			ExitCode: int32(old.exitCode()), Reason: "Completed",
			StartedAt: metav1.NewTime(started), FinishedAt: metav1.Now(),
		}
		if terminated.ExitCode != 0 {
			terminated.Reason = "Error"
		}
		status.RestartCount++
		status.LastTerminationState = corev1.ContainerState{Terminated: &terminated}
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	}
	_, err = p.clients.kubernetes.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// terminate ends a replica as a kubelet ends a container: SIGTERM, and SIGKILL
// when the grace period is over. Then the pod, if it is still there, goes.
func (p *pods) terminate(r *replica, removePod bool) {
	if r.terminating {
		return
	}
	r.terminating = true
	grace := p.options.grace
	if seconds := r.pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = min(grace, time.Duration(*seconds)*time.Second)
	}
	child := r.child
	if r.running() {
		_ = child.cmd.Process.Signal(syscall.SIGTERM) // it may have ended this moment
	}
	go func() {
		if child != nil && !child.waitFor(grace) {
			child.kill()
		}
		if removePod {
			p.do(func() { p.remove(r) })
		}
	}()
}

// remove deletes the API object of a pod whose process has ended.
func (p *pods) remove(r *replica) {
	r.terminating = false
	if !p.kubelets.running() {
		return // lookAgain, when they run again
	}
	ctx, cancel := p.brief()
	defer cancel()
	err := p.clients.kubernetes.CoreV1().Pods(r.pod.Namespace).Delete(ctx, r.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &r.pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		p.complain(err)
	}
}

// place binds a pod to the Ready node with the fewest pods. (There is no
// kube-scheduler here; it would cost 100 MB for this.)
func (p *pods) place(pod *corev1.Pod) {
	if _, done := p.placed[pod.UID]; done {
		return
	}
	nodes, _ := p.nodeLister.List(labels.Everything())
	load := map[string]int{}
	for _, node := range p.placed {
		load[node]++
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		return node.Spec.Unschedulable || !nodeReady(node)
	})
	if len(nodes) == 0 {
		return
	}
	node := slices.MinFunc(nodes, func(a, b *corev1.Node) int {
		if load[a.Name] != load[b.Name] {
			return load[a.Name] - load[b.Name]
		}
		return strings.Compare(a.Name, b.Name)
	}).Name
	ctx, cancel := p.brief()
	defer cancel()
	err := p.clients.kubernetes.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			p.complain(err)
		}
		return
	}
	p.placed[pod.UID] = node
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// find returns the replica of a pod, by name.
func (p *pods) find(name string) (*replica, error) {
	for _, r := range p.replicas {
		if r.pod.Name == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no Rancher pod %q", name)
}

// list returns all replicas, by name of their pods.
func (p *pods) list() []replicaInfo {
	infos := []replicaInfo{}
	for _, r := range p.replicas {
		infos = append(infos, r.info())
	}
	slices.SortFunc(infos, func(a, b replicaInfo) int { return strings.Compare(a.Pod, b.Pod) })
	return infos
}

// startNamed starts the replica of a pod whose process does not run.
func (p *pods) startNamed(name string) (info replicaInfo, err error) {
	err = errors.New("stopping")
	p.do(func() {
		var r *replica
		if r, err = p.find(name); err != nil {
			return
		}
		if r.running() {
			err = fmt.Errorf("%s runs already, pid %d", name, r.child.pid())
			return
		}
		err = p.start(r)
		info = r.info()
	})
	return info, err
}

// signalNamed sends a signal to a replica and waits for its end.
func (p *pods) signalNamed(name string, signal syscall.Signal) (info replicaInfo, err error) {
	var r *replica
	var child *child
	err = errors.New("stopping")
	p.do(func() {
		if r, err = p.find(name); err != nil {
			return
		}
		if !r.running() {
			err = fmt.Errorf("%s does not run", name)
			return
		}
		child = r.child
		err = child.cmd.Process.Signal(signal)
	})
	if err != nil {
		return info, err
	}
	if !child.waitFor(10 * time.Second) {
		return info, fmt.Errorf("%s still runs 10 s after %s", name, signal)
	}
	p.do(func() { info = r.info() })
	return info, nil
}

// brief bounds a call to the API server made in the loop.
func (p *pods) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, 5*time.Second)
}

func (p *pods) complain(err error) {
	if p.ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
	}
}
