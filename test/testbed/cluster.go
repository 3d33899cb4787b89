package testbed

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Cluster is a real etcd and kube-apiserver on loopback, with RBAC, the Node authorizer and
// NodeRestriction enabled. It has no scheduler, and no controllers but those of StartController.
type Cluster struct {
	// Flags are additional flags of the API server, read at each start.
	Flags []string

	dir         string
	ca          *authority
	etcd, api   *process
	controllers []*process
	etcdPort    int
	peerPort    int
	securePort  int
}

// StartCluster starts a cluster in its own directory and waits until it is ready. The cluster
// ends with the test bed or with Stop.
func StartCluster(ctx context.Context, name string) (*Cluster, error) {
	c, err := NewCluster(name)
	if err != nil {
		return nil, err
	}
	return c, c.StartAPI(ctx)
}

// NewCluster returns a cluster whose etcd runs and whose API server is not started yet.
func NewCluster(name string) (*Cluster, error) {
	if _, err := os.Stat(kubeAPIServer()); err != nil {
		return nil, fmt.Errorf("%w\nrun: make setup", err)
	}
	c := &Cluster{dir: filepath.Join(Dir(), "cluster-"+name)}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	for _, port := range []*int{&c.etcdPort, &c.peerPort, &c.securePort} {
		*port = int(ports.Add(1))
	}
	var err error
	if c.ca, err = newAuthority(c.dir); err != nil {
		return nil, err
	}
	for _, err := range []error{
		c.ca.issue("apiserver", pkix.Name{CommonName: "apiserver"}, []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}),
		c.ca.issue("accounts", pkix.Name{CommonName: "accounts"}, nil, nil),
		c.ca.issue("to-kubelet", pkix.Name{CommonName: "kube-apiserver-kubelet-client",
			Organization: []string{"system:masters"}}, nil, nil),
	} {
		if err != nil {
			return nil, err
		}
	}
	return c, c.StartEtcd()
}

// ports is the last port given to a cluster. The ports are below the ephemeral range, so that
// the kernel does not assign one of them while an API server is down. No other program uses
// the network namespace.
var ports atomic.Int32

func init() { ports.Store(21000) }

// StartEtcd starts etcd.
func (c *Cluster) StartEtcd() (err error) {
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort), fmt.Sprintf("http://127.0.0.1:%d", c.peerPort)
	c.etcd, err = start(exec.Command("etcd", "--name", "testbed", "--data-dir", filepath.Join(c.dir, "etcd"),
		"--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "testbed="+peer), filepath.Join(c.dir, "etcd.log"))
	return err
}

// WipeEtcd stops etcd and deletes all of its data.
func (c *Cluster) WipeEtcd() error {
	c.etcd.Kill()
	return os.RemoveAll(filepath.Join(c.dir, "etcd"))
}

// apiTimeout bounds the start of an API server.
const apiTimeout = 5 * time.Minute

// StartAPI starts the API server and waits until it is ready and has its namespaces, which it
// creates after it has become ready.
func (c *Cluster) StartAPI(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	key, cert := c.ca.file("accounts.key"), c.ca.file("accounts.crt")
	c.api, err = start(exec.Command(kubeAPIServer(), append([]string{
		"--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort), "--bind-address", "127.0.0.1",
		"--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none", "--secure-port", strconv.Itoa(c.securePort),
		"--tls-cert-file", c.ca.file("apiserver.crt"), "--tls-private-key-file", c.ca.file("apiserver.key"),
		"--client-ca-file", c.ca.file("ca.crt"),
		"--kubelet-client-certificate", c.ca.file("to-kubelet.crt"), "--kubelet-client-key", c.ca.file("to-kubelet.key"),
		"--service-account-issuer", "https://testbed.invalid", "--service-account-key-file", cert,
		"--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "Node,RBAC", "--enable-admission-plugins",
		"NodeRestriction",
		"--allow-privileged", "--enable-priority-and-fairness=false",
	}, c.Flags...)...), filepath.Join(c.dir, "apiserver.log"))
	if err != nil {
		return err
	}
	config, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	for {
		out, err := exec.CommandContext(ctx, Kubectl(), "--kubeconfig", config, "get", "--raw", "/readyz").CombinedOutput()
		if err == nil {
			out, err = exec.CommandContext(ctx, Kubectl(), "--kubeconfig", config, "get", "namespaces", "default", "kube-system",
				"kube-node-lease").CombinedOutput()
		}
		if err == nil {
			return nil
		}
		select {
		case <-c.api.ended:
			return fmt.Errorf("kube-apiserver ended: %v\n%s", c.api.err, tail(c.api.log))
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w\n%s\n%s", ctx.Err(), out, tail(c.api.log))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// StartController starts one of the controllers of kube-controller-manager.
func (c *Cluster) StartController(name string, flags ...string) error {
	config, err := c.Kubeconfig("system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	p, err := start(exec.Command(kubeControllerManager(),
		append([]string{"--kubeconfig", config, "--controllers", name, "--leader-elect=false", "--secure-port", "0"},
			flags...)...),
		filepath.Join(c.dir, name+".log"))
	if err == nil {
		c.controllers = append(c.controllers, p)
	}
	return err
}

// StartScheduler starts the scheduler.
func (c *Cluster) StartScheduler() error {
	config, err := c.Kubeconfig("system:kube-scheduler", "system:masters")
	if err != nil {
		return err
	}
	p, err := start(exec.Command(kubeScheduler(), "--kubeconfig", config, "--leader-elect=false", "--secure-port", "0"),
		filepath.Join(c.dir, "kube-scheduler.log"))
	if err == nil {
		c.controllers = append(c.controllers, p)
	}
	return err
}

// StartCSIController starts csi-attacher or csi-resizer for the driver that serves on a socket of this host, which runs
// already: they end without it.
func (c *Cluster) StartCSIController(name, socket string) error {
	config, err := c.Kubeconfig("system:"+name, "system:masters")
	if err != nil {
		return err
	}
	p, err := start(exec.Command(csiController(name), "--kubeconfig", config, "--csi-address", socket),
		filepath.Join(c.dir, name+".log"))
	if err == nil {
		c.controllers = append(c.controllers, p)
	}
	return err
}

// KillAPI kills the API server.
func (c *Cluster) KillAPI() { c.api.Kill() }

// FreezeAPI stops the API server with SIGSTOP: its connections stay open and no request is
// responded.
func (c *Cluster) FreezeAPI() { c.api.Signal(syscall.SIGSTOP) }

// ThawAPI continues a frozen API server. It then serves the requests that arrived in the
// meantime.
func (c *Cluster) ThawAPI() { c.api.Signal(syscall.SIGCONT) }

// Stop kills the API server and etcd and removes their directory.
func (c *Cluster) Stop() error {
	for _, p := range c.controllers {
		p.Kill()
	}
	if c.api != nil {
		c.api.Kill()
	}
	c.etcd.Kill()
	return os.RemoveAll(c.dir)
}

// Log returns the ends of the logs of the API server and the controllers.
func (c *Cluster) Log() string {
	log := string(tail(filepath.Join(c.dir, "apiserver.log")))
	for _, p := range c.controllers {
		log += "\n" + filepath.Base(p.log) + ":\n" + string(tail(p.log))
	}
	return log
}

// CA returns the path of the CA certificate that signs server and client certificates.
func (c *Cluster) CA() string { return c.ca.file("ca.crt") }

// Sign signs a PEM-encoded certificate request with the given validity.
func (c *Cluster) Sign(request []byte, from, to time.Time) ([]byte, error) {
	return c.ca.sign(request, from, to)
}

// TokenKubeconfig writes a kubeconfig that authenticates with a bearer token, and returns its
// path.
func (c *Cluster) TokenKubeconfig(token string) (string, error) {
	file := c.ca.file("token-" + token + ".kubeconfig")
	return file, os.WriteFile(file, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: testbed
clusters: [{name: testbed, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %s}}]
users: [{name: me, user: {token: %s}}]
contexts: [{name: testbed, context: {cluster: testbed, user: me}}]
`, c.securePort, c.CA(), token)), 0o600)
}

// NodeKubeconfig writes a kubeconfig with the rights of a node, and returns its path.
func (c *Cluster) NodeKubeconfig(node string) (string, error) {
	return c.Kubeconfig("system:node:"+node, "system:nodes")
}

// Kubeconfig writes the kubeconfig of a user with a client certificate and
// returns its path.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	file := c.ca.file(strings.ReplaceAll(user, ":", "-") + ".kubeconfig")
	return file, c.ca.kubeconfig(file, c.securePort, user, groups...)
}
