package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/image"
)

// ControlPlane prepares this machine for a control plane: certificates and kubeconfigs are in
// kubeadm's places, and nothing runs yet. Its directories are mounted over the host's within
// the test bed, so there can be only one at a time.
type ControlPlane struct {
	// Manifests is the directory of its static pods, initially empty.
	Manifests string
	// Admin and Kubelet are the kubeconfigs of the administrator and of the node.
	Admin, Kubelet string

	undo []func() error
}

// The directories and the port that kubeadm uses.
const (
	kubernetesDir = "/etc/kubernetes"
	etcdDir       = "/var/lib/etcd"
	securePort    = 6443
)

// NewControlPlane prepares the machine as the node with that name. Remove undoes it.
func NewControlPlane(node string) (*ControlPlane, error) {
	c := &ControlPlane{
		Manifests: filepath.Join(kubernetesDir, "manifests"),
		Admin:     filepath.Join(kubernetesDir, "admin.conf"), Kubelet: filepath.Join(kubernetesDir, "kubelet.conf"),
	}
	err := errors.Join(c.mountOver(kubernetesDir), c.mountOver(etcdDir))
	if err == nil {
		err = c.writeFiles(node)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Remove removes all of it. Its pods must have terminated.
func (c *ControlPlane) Remove() error {
	var errs []error
	for _, undo := range c.undo {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// mountOver mounts an empty directory over a directory of the host. It keeps a directory that
// it creates, because another test bed may have mounted something over it.
func (c *ControlPlane) mountOver(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("testbed", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("cannot mount %s: %w", dir, err)
	}
	c.undo = append(c.undo, func() error {
		if err := unix.Unmount(dir, 0); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", dir, err)
		}
		return nil
	})
	return nil
}

func (c *ControlPlane) writeFiles(node string) error {
	pki := filepath.Join(kubernetesDir, "pki")
	if err := errors.Join(os.MkdirAll(c.Manifests, 0o755), os.MkdirAll(filepath.Join(pki, "etcd"), 0o755)); err != nil {
		return err
	}
	ca, err := newAuthority(pki)
	if err != nil {
		return err
	}
	etcd, err := newAuthority(filepath.Join(pki, "etcd"))
	if err != nil {
		return err
	}
	here, names := []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost", node}
	return errors.Join(
		ca.issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, here, append(names, "kubernetes.default.svc")),
		ca.issue("apiserver-kubelet-client",
			pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}, nil, nil),
		etcd.issue("server", pkix.Name{CommonName: node}, here, names),
		etcd.issue("peer", pkix.Name{CommonName: node}, here, names),
		etcd.issue("../apiserver-etcd-client", pkix.Name{CommonName: "kube-apiserver-etcd-client"}, nil, nil),
		accountKeys(ca.file("sa.key"), ca.file("sa.pub")),
		ca.kubeconfig(c.Admin, securePort, "kubernetes-super-admin", "system:masters"),
		ca.kubeconfig(c.Kubelet, securePort, "system:node:"+node, "system:nodes"),
	)
}

// accountKeys writes a key that signs service account tokens, and its public half.
func accountKeys(private, public string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(private, "EC PRIVATE KEY", der); err != nil {
		return err
	}
	if der, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return err
	}
	return writePEM(public, "PUBLIC KEY", der)
}

// EtcdImage is an image of Debian's etcd with the libraries that it needs.
func EtcdImage() (image.Image, error) {
	const etcd = "/usr/bin/etcd"
	out, err := exec.Command("ldd", etcd).CombinedOutput()
	if err != nil {
		return image.Image{}, fmt.Errorf("%s: %w: %s\nrun: make setup", etcd, err, out)
	}
	files := map[string]string{"usr/local/bin/etcd": etcd}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) {
			files[word[1:]] = word
		}
	}
	return programImage(files)
}

// KubeAPIServerImage returns an image of Kubernetes' API server. Building it takes some 100
// MB: build it once and push it under each name that a test needs.
func KubeAPIServerImage() (image.Image, error) {
	return programImage(map[string]string{"usr/local/bin/kube-apiserver": kubeAPIServer()})
}

// CSIDriverImage returns an image that runs the CSI driver of test/csidriver.
func CSIDriverImage() (image.Image, error) {
	img, err := programImage(map[string]string{"driver": CSIDriver()})
	img.Config.Entrypoint = []string{"/driver"}
	return img, err
}

// programImage returns an image with files of the host at the same paths. Its single layer is
// not compressed: it is read from loopback, and compressing a program of 100 MB takes seconds.
func programImage(files map[string]string) (image.Image, error) {
	var list []image.File
	for name, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return image.Image{}, fmt.Errorf("%w\nrun: make setup", err)
		}
		list = append(list, image.File{Name: name, Data: data})
	}
	archive, err := image.Tar(list)
	if err != nil {
		return image.Image{}, err
	}
	return imageOf(image.PlainLayer(archive), image.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}), nil
}
