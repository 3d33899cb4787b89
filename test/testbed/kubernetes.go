package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/image"
)

// KubernetesDir returns the directory in which test/setup.sh installs the components of
// Kubernetes: one program, and a link to it for each component.
func KubernetesDir() string {
	return filepath.Join(toolsDir(), "kubernetes")
}

// Kubelet returns the path at which `test/setup.sh compare` installs the kubelet.
func Kubelet() string { return filepath.Join(Cache(), "kubelet-"+Version("KUBERNETES_VERSION")) }

// PodmanDir returns the directory into which `test/setup.sh compare` unpacks Debian's podman.
func PodmanDir() string { return filepath.Join(Cache(), "podman-debian") }

// kubeControllerManager returns the path of Kubernetes' controllers.
func kubeControllerManager() string { return filepath.Join(KubernetesDir(), "kube-controller-manager") }

// kubeScheduler returns the path of Kubernetes' scheduler.
func kubeScheduler() string { return filepath.Join(KubernetesDir(), "kube-scheduler") }

// kubeAPIServer returns the path of Kubernetes' API server.
func kubeAPIServer() string { return filepath.Join(KubernetesDir(), "kube-apiserver") }

// PushKubernetesImages pushes the images that kubeadm uses for each of these versions. All run
// the same program, which reports the version of its image. The images of kube-proxy and
// CoreDNS can be pulled, but do not run.
func (r *Registry) PushKubernetesImages(versions ...string) error {
	layer, err := kubernetesLayer()
	if err != nil {
		return err
	}
	for _, version := range versions {
		img := imageOf(layer, image.Config{Env: []string{
			"PATH=/usr/local/bin", "KUBERNETES_VERSION=" + version, // see test/tools/kubernetes
		}})
		out, err := exec.Command(filepath.Join(KubernetesDir(), "kubeadm"), "config", "images", "list",
			"--kubernetes-version", version).Output()
		if err != nil {
			return fmt.Errorf("kubeadm config images list: %w", err)
		}
		for ref := range strings.FieldsSeq(string(out)) {
			if strings.Contains(ref, "/pause:") {
				continue // the registry has it
			}
			if err := r.Push(ref, img); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubernetesLayer returns a layer with the program and its links.
func kubernetesLayer() (image.Layer, error) {
	const program = "kubernetes"
	files, err := os.ReadDir(KubernetesDir())
	if err != nil {
		return image.Layer{}, fmt.Errorf("%w\nrun: make setup", err)
	}
	var list []image.File
	for _, f := range files {
		e := image.File{Name: "usr/local/bin/" + f.Name(), Link: program}
		if f.Name() == program {
			e.Link = ""
			if e.Data, err = os.ReadFile(filepath.Join(KubernetesDir(), program)); err != nil {
				return image.Layer{}, err
			}
		}
		list = append(list, e)
	}
	return uncompressedLayer(list)
}

// uncompressedLayer returns a layer with programs for a local registry: compressing programs of
// this size takes many seconds.
func uncompressedLayer(list []image.File) (image.Layer, error) {
	archive, err := image.Tar(list)
	if err != nil {
		return image.Layer{}, err
	}
	return image.PlainLayer(archive), nil
}
