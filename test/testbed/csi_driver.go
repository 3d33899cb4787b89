package testbed

import (
	"fmt"
	"path/filepath"
)

// CSIDriverPod is a static pod with the CSI driver of test/csidriver. All fields are required.
type CSIDriverPod struct {
	// Name is that of the pod, and Driver that of the driver.
	Name, Driver string
	// Dir is the directory with the driver's volumes and faults.
	Dir string
	// Socket is what the driver serves, and Registered the socket that it registers; they may differ, so that
	// something in between sees the calls.
	Socket, Registered string
	// Root is the directory in which the node has plugins, plugins_registry and pods, and which drivers know as
	// /var/lib/kubelet.
	Root string
}

// Manifest returns the pod as YAML. It mounts the directories of a kubelet as those of other drivers do.
func (p *CSIDriverPod) Manifest() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: %[2]s
    command: [/driver, --name, %[3]s, --dir, %[4]s, --endpoint, %[5]s, --kubelet-registration-path, %[6]s, --registry, %[7]s/plugins_registry]
    securityContext: {privileged: true}
    volumeMounts:
    - {name: driver, mountPath: /driver, readOnly: true}
    - {name: data, mountPath: %[4]s}
    - {name: registry, mountPath: %[7]s/plugins_registry}
    - {name: socket, mountPath: %[8]s}
    - {name: staging, mountPath: %[7]s/plugins/kubernetes.io/csi, mountPropagation: Bidirectional}
    - {name: pods, mountPath: %[7]s/pods, mountPropagation: Bidirectional}
  volumes:
  - {name: driver, hostPath: {path: %[9]s, type: File}}
  - {name: data, hostPath: {path: %[4]s, type: Directory}}
  - {name: registry, hostPath: {path: %[7]s/plugins_registry, type: DirectoryOrCreate}}
  - {name: socket, hostPath: {path: %[8]s, type: DirectoryOrCreate}}
  - {name: staging, hostPath: {path: %[7]s/plugins/kubernetes.io/csi, type: DirectoryOrCreate}}
  - {name: pods, hostPath: {path: %[7]s/pods, type: Directory}}
`, p.Name, BusyboxImage, p.Driver, p.Dir, p.Socket, p.Registered, p.Root, filepath.Dir(p.Socket), CSIDriver())
}
