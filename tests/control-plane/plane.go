package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// assetsEnv names a directory with kube-apiserver, etcd and perhaps
// kube-controller-manager binaries to use instead of those built in, as
// controller-runtime's envtest does.
const assetsEnv = "KUBEBUILDER_ASSETS"

// viewerToken authenticates the user viewer, who may do nothing but what a test
// binds to it.
const viewerToken = "viewer-token"

// planeOptions say where a control plane lives.
type planeOptions struct {
	dir  string // empty: a new temporary directory
	name string // of the kubeconfig's context
	keep bool   // leave dir behind

	// rancher is the ServiceAccount, namespace and name, as which Rancher's
	// replicas come.
	rancher types.NamespacedName
}

// planeInfo is what a caller must know of a running control plane; the first
// part of the JSON line that up and world print.
type planeInfo struct {
	Kubeconfig  string `json:"kubeconfig"`
	Server      string `json:"server"`
	Dir         string `json:"dir"`
	AuditLog    string `json:"auditLog"`
	CAFile      string `json:"caFile"`
	AdminToken  string `json:"adminToken"`
	ViewerToken string `json:"viewerToken"`
	PID         int    `json:"pid"`
}

// plane is a running etcd, kube-apiserver and kube-controller-manager.
type plane struct {
	planeInfo
	options      planeOptions
	rancherToken string // of Rancher's ServiceAccount
	createdDir   bool
	failed       chan error // gets the first part that ends unasked

	apiServer      *child
	apiServerFlags []string

	controllerManager *child

	mu       sync.Mutex
	children []*child
	stopping bool
}

// startPlane returns when the API server is ready and kube-system exists.
func startPlane(ctx context.Context, options planeOptions) (*plane, error) {
	// A port found free may be taken before its server binds it.
	for attempt := 1; ; attempt++ {
		p, err := tryStartPlane(ctx, options)
		if err == nil || attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			return p, err
		}
		fmt.Fprintln(os.Stderr, "control-plane: a port was taken, trying others")
	}
}

func tryStartPlane(ctx context.Context, options planeOptions) (_ *plane, err error) {
	p := &plane{options: options, failed: make(chan error, 1)}
	if err := p.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	p.AuditLog = filepath.Join(p.Dir, "audit.log")
	p.CAFile = filepath.Join(p.Dir, "ca.crt")
	p.ViewerToken = viewerToken
	p.AdminToken = randomToken()
	p.rancherToken = randomToken()
	p.PID = os.Getpid()

	etcdPort, err := freePort()
	if err != nil {
		return nil, err
	}
	apiPort, err := freePort()
	if err != nil {
		return nil, err
	}
	p.Server = fmt.Sprintf("https://127.0.0.1:%d", apiPort)
	if err := p.writeFiles(); err != nil {
		return nil, err
	}

	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", etcdPort)
	if _, err := p.run("etcd",
		"--data-dir="+filepath.Join(p.Dir, "etcd"),
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:0", // one member: nobody calls
		"--unsafe-no-fsync", "--log-level=warn",
	); err != nil {
		return nil, err
	}
	p.apiServerFlags = p.flagsForAPIServer(etcdURL, apiPort)
	if err := p.startAPIServer(ctx); err != nil {
		return nil, err
	}
	if err := p.startControllerManager(); err != nil {
		return nil, err
	}
	return p, p.waitForNamespace(ctx, metav1.NamespaceSystem)
}

func (p *plane) startControllerManager() (err error) {
	p.controllerManager, err = p.run("kube-controller-manager",
		"--kubeconfig="+p.Kubeconfig,
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--secure-port=0", // serves nothing, so it needs neither port nor certificate
		"--root-ca-file="+p.CAFile,
		"--kube-api-qps=300", "--kube-api-burst=400",
		// Created when missing, by default outside of the directory.
		"--flex-volume-plugin-dir="+filepath.Join(p.Dir, "flexvolume"),
	)
	return err
}

// restartControllerManager makes the garbage collector look at kinds that have
// been defined since: by itself it does so every 30 s, and until then owned
// objects of those kinds stay.
func (p *plane) restartControllerManager() error {
	p.spare(p.controllerManager)
	p.controllerManager.kill()
	return p.startControllerManager()
}

func (p *plane) makeDir() error {
	dir := p.options.dir
	if dir == "" {
		made, err := os.MkdirTemp("", "control-plane-")
		if err != nil {
			return err
		}
		p.Dir, p.createdDir = made, true
	} else {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		// Never take over, and later remove, somebody's directory.
		if entries, err := os.ReadDir(abs); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s is not empty", abs)
		}
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return err
		}
		p.Dir, p.createdDir = abs, true
	}
	return os.Mkdir(filepath.Join(p.Dir, "logs"), 0o755)
}

// auditPolicy records every request once, when it has been answered, except
// those that the API server makes to itself.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  users: ["system:apiserver"]
- level: Metadata
`

func (p *plane) writeFiles() error {
	file := func(name string) string { return filepath.Join(p.Dir, name) }
	if err := writeCertificates(p.CAFile, file("apiserver.crt"), file("apiserver.key")); err != nil {
		return err
	}
	if err := writeSigningKey(file("service-account.key")); err != nil {
		return err
	}
	rancher := p.options.rancher
	// token,user,uid,"group,…" (Kubernetes: "Static token file"). Rancher's
	// replicas come as their ServiceAccount, so that its ClusterRoleBinding
	// counts for them as it does in a real cluster.
	tokens := p.AdminToken + `,admin,admin,"system:masters"` + "\n" +
		p.ViewerToken + ",viewer,viewer\n" +
		fmt.Sprintf("%s,system:serviceaccount:%s:%s,rancher,%q\n", p.rancherToken, rancher.Namespace, rancher.Name,
			"system:serviceaccounts,system:serviceaccounts:"+rancher.Namespace)
	if err := os.WriteFile(file("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(file("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	p.Kubeconfig = file("kubeconfig")
	return p.writeKubeconfig(p.Kubeconfig, "admin", p.AdminToken)
}

// writeKubeconfig writes a kubeconfig for one user, whole in itself.
func (p *plane) writeKubeconfig(path, user, token string) error {
	ca, err := os.ReadFile(p.CAFile)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[p.options.name] = &clientcmdapi.Cluster{Server: p.Server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[p.options.name] = &clientcmdapi.Context{Cluster: p.options.name, AuthInfo: user}
	config.CurrentContext = p.options.name
	return clientcmd.WriteToFile(*config, path)
}

// startAPIServer returns when the API server is ready.
func (p *plane) startAPIServer(ctx context.Context) error {
	if p.apiServer != nil && !p.apiServer.ended() {
		return nil
	}
	server, err := p.run("kube-apiserver", p.apiServerFlags...)
	if err != nil {
		return err
	}
	p.apiServer = server
	return p.waitForAPIServer(ctx)
}

// stopAPIServer leaves the other parts without it. Connections are refused from
// then on.
func (p *plane) stopAPIServer() {
	p.spare(p.apiServer)
	p.apiServer.kill()
}

func (p *plane) flagsForAPIServer(etcdURL string, port int) []string {
	file := func(name string) string { return filepath.Join(p.Dir, name) }
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		// Without these two a machine with no default route cannot start it: the
		// API server looks for an address to publish as the kubernetes Service.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
		"--cert-dir=" + file("apiserver"),
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.43.0.0/16", // k3s' and rke2's default
		"--token-auth-file=" + file("tokens.csv"),
		"--authorization-mode=RBAC",
		// Pods would wait for token volumes that nobody mounts here.
		"--disable-admission-plugins=ServiceAccount",
		"--audit-policy-file=" + file("audit-policy.yaml"),
		"--audit-log-path=" + p.AuditLog,
		"--allow-privileged=true",
		// A node's InternalDNS is where kwok plays its kubelet, if that is not
		// its InternalIP. Its Hostname, upstream's first choice, resolves nowhere.
		"--kubelet-preferred-address-types=InternalDNS,InternalIP",
	}
}

// run starts a part, from KUBEBUILDER_ASSETS where it holds one.
func (p *plane) run(part string, flags ...string) (*child, error) {
	binary, args := "", flags
	if assets := os.Getenv(assetsEnv); assets != "" {
		candidate := filepath.Join(assets, part)
		switch _, err := os.Stat(candidate); {
		case err == nil:
			binary = candidate
		case part == "kube-controller-manager" && errors.Is(err, os.ErrNotExist):
			fmt.Fprintf(os.Stderr, "control-plane: no %s in %s=%s, using the one built in\n", part, assetsEnv, assets)
		default:
			return nil, fmt.Errorf("%s: %w", assetsEnv, err)
		}
	}
	if binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		binary, args = self, append([]string{part}, flags...)
	}
	c, err := p.startChild(part, exec.Command(binary, args...))
	if err == nil {
		p.require(c)
	}
	return c, err
}

// startChild starts a process that ends with the plane.
func (p *plane) startChild(name string, cmd *exec.Cmd) (*child, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil, errors.New("stopping")
	}
	c, err := startChild(name, filepath.Join(p.Dir, "logs", name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	p.children = append(p.children, c)
	return c, nil
}

// require makes a child's unasked end the plane's failure.
func (p *plane) require(c *child) {
	go func() {
		<-c.done
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stopping || c.expendable {
			return
		}
		select {
		case p.failed <- c.failure():
		default:
		}
	}()
}

// spare takes back require.
func (p *plane) spare(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.expendable = true
}

// stop kills everything at once, since no state is to survive, and removes the
// directory unless it is to be kept.
func (p *plane) stop() {
	p.mu.Lock()
	p.stopping = true
	children := p.children
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, c := range children {
		ending.Add(1)
		go func() {
			defer ending.Done()
			c.kill()
		}()
	}
	ending.Wait()
	if p.createdDir && !p.options.keep {
		if err := os.RemoveAll(p.Dir); err != nil {
			fmt.Fprintln(os.Stderr, "control-plane:", err)
		}
	}
}

// restConfig returns a client configuration for the plane's administrator that
// is not throttled on the client's side.
func (p *plane) restConfig(userAgent string) (*rest.Config, error) {
	return restConfigFrom(p.Kubeconfig, userAgent)
}

func restConfigFrom(kubeconfig, userAgent string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	config.QPS = -1 // the default, 5 a second, would rule every start-up time
	return config, nil
}

func (p *plane) waitForAPIServer(ctx context.Context) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	return p.waitUntil(ctx, time.Minute, "the API server to be ready", func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitForNamespace waits for a namespace that the API server makes for itself.
func (p *plane) waitForNamespace(ctx context.Context, name string) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	return p.waitUntil(ctx, time.Minute, "namespace "+name, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

func (p *plane) client() (*kubernetes.Clientset, error) {
	config, err := p.restConfig("control-plane")
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// waitUntil asks every 50 ms until the answer is nil, a part of the plane ends,
// ctx is done or the time is up.
func (p *plane) waitUntil(ctx context.Context, patience time.Duration, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if apierrors.IsForbidden(err) && ctx.Err() == nil {
			// Right after start the RBAC authorizer's caches may still be empty.
			err = fmt.Errorf("still %w", err)
		}
		select {
		case failure := <-p.failed:
			return failure
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %w)", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// freePort finds a loopback port below the range from which the kernels of
// Linux (32768…) and macOS (49152…) take the ports of outgoing connections, so
// that no connection takes it before its server does.
func freePort() (int, error) {
	var last error
	for range 100 {
		offset, err := rand.Int(rand.Reader, big.NewInt(12000))
		if err != nil {
			return 0, err
		}
		port := 20000 + int(offset.Int64())
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no free loopback port: %w", last)
}

func randomToken() string {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails (crypto/rand since Go 1.24)
	return hex.EncodeToString(token)
}
