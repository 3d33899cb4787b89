package manifest

import (
	"slices"
	"strings"
	"testing"
)

// Volumes and classes are read like other objects, and what a node cannot do is refused by its field.
func TestStorageObjects(t *testing.T) {
	volume := func(spec string) string {
		return "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: [ReadWriteOnce], " +
			"capacity: {storage: 1Gi}, " + spec + "}"
	}
	class := func(fields string) string {
		return "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: c}\n" + fields
	}
	const directory = "provisioner: podstead.io/directory\n"
	const affinity = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}"
	for text, want := range map[string][]string{
		volume("hostPath: {path: /v}"):                nil,
		volume("local: {path: /v}, " + affinity):      nil,
		volume("nfs: {server: nas, path: /v}"):        nil,
		volume("local: {path: /v}"):                   {"spec.nodeAffinity: is missing"},
		volume("local: {path: v/..}, " + affinity):    {"spec.local.path", "must be an absolute path", "'..'"},
		volume("hostPath: {path: v}"):                 {"spec.hostPath.path", "must be an absolute path"},
		volume("nfs: {server: nas, path: v}"):         {"spec.nfs.path", "must be an absolute path"},
		volume("csi: {driver: d, volumeHandle: h}"):   nil,
		volume("csi: {driver: a_b, volumeHandle: h}"): {"spec.csi.driver"},
		volume("csi: {driver: d}"):                    {"spec.csi.volumeHandle: is missing"},
		volume("csi: {driver: d, volumeHandle: h, nodeStageSecretRef: {name: a}, nodePublishSecretRef: {namespace: a}}"): {
			"spec.csi.nodeStageSecretRef.namespace", "spec.csi.nodePublishSecretRef.name"},
		volume("cephfs: {monitors: [a]}"): {
			"spec.cephfs", "has become the CSI driver cephfs.csi.ceph.com"},
		volume("storageClassName: a"): {
			"spec: is missing", "must have one of csi, hostPath, local, nfs"},
		volume(
			"hostPath: {path: /v}, nfs: {server: a, path: /}"): {"spec.nfs", "a volume has one type"},
		volume("local: {path: /dev/v}, volumeMode: Block, " +
			affinity): nil,
		volume(
			"csi: {driver: d, volumeHandle: h}, volumeMode: Block"): nil,
		volume(
			"hostPath: {path: /v}, volumeMode: Block"): {"spec.volumeMode", "only a local or csi volume can be a block device"},
		volume(
			"nfs: {server: a, path: /v}, volumeMode: Block"): {"spec.volumeMode",
			"only a local or csi volume can be a block device"},
		volume(
			"hostPath: {path: /v}, claimRef: {name: a}"): {"spec.claimRef.namespace"},
		volume(
			"hostPath: {path: /v}, storageClassName: a b"): {"spec.storageClassName"},
		volume(
			"hostPath: {path: /v}, persistentVolumeReclaimPolicy: Burn"): {"spec.persistentVolumeReclaimPolicy"},
		"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v, namespace: a}\nspec: {hostPath: {path: /v}}": {
			"metadata.namespace", "has no namespace", "spec.accessModes", "spec.capacity[storage]"},
		"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: [Any], capacity: {storage: 0, " +
			"cpu: 1}, hostPath: {path: /v}}": {"spec.accessModes", "spec.capacity[cpu]", "must be more than 0"},
		class(directory + "parameters: {path: /mnt/a}"):                   nil,
		class(directory + "parameters: {path: /mnt/a, mountPoint: /mnt}"): nil,
		class(directory + "parameters: {path: /mnt/a, mountPoint: /}"):    nil,
		class("provisioner: kubernetes.io/no-provisioner"):                nil,
		class(directory): {"parameters[path]: is missing"},
		class(directory + "parameters: {path: mnt/a}"): {"parameters[path]",
			"must be an absolute path"},
		class(directory + "parameters: {path: /mnt/a/}"): {"parameters[path]",
			"must be an absolute path"},
		class(directory + "parameters: {path: /mnt/a, mountPoint: /mnt/b}"): {"parameters[mountPoint]",
			"must be the path or a directory above it"},
		class(directory + "parameters: {path: /mnt/a, type: ssd}"): {"parameters[type]",
			"is unknown to the provisioner"},
		class("provisioner: kubernetes.io/no-provisioner\nparameters: {path: /mnt/a}"): {"parameters[path]",
			"has no parameters"},
		class("provisioner: rancher.io/local-path"): {"provisioner", "rancher.io/local-path",
			"use podstead.io/directory"},
		class("provisioner: podstead.io/zfs"): {"provisioner", "podstead.io/zfs",
			"use podstead.io/directory"},
		class("reclaimPolicy: Delete"):                                       {"provisioner: is missing"},
		class(directory + "parameters: {path: /a}\nreclaimPolicy: Recycle"):  {"reclaimPolicy"},
		class(directory + "parameters: {path: /a}\nvolumeBindingMode: Late"): {"volumeBindingMode"},
	} {
		content, faults := NewLoader("node", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "u", Data: []byte(text)})
		if want == nil && (len(faults) > 0 || len(content.Objects) != 1) {
			t.Errorf("%s\n%v", text, faults)
		}
		all := faults.Error()
		for _, part := range want {
			if !faults.Fatal() || !strings.Contains(all, part) {
				t.Errorf("%s\n%v\nwant %q", text, all, part)
			}
		}
	}
	content, faults := NewLoader("node",
		ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "u",
		Data: []byte(volume("hostPath: {path: /v}") + "\n---\n" + class(directory+"parameters: {path: /a}"))})
	var refs []string
	for i := range content.Objects {
		refs = append(refs, content.Objects[i].Ref().String())
	}
	if !slices.Equal(refs, []string{"PersistentVolume v", "StorageClass c"}) || len(faults) > 0 {
		t.Errorf("%v %v", refs, faults)
	}
}
