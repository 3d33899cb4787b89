package oracle

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	nodevalidation "k8s.io/kubernetes/pkg/apis/node/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/manifest"
)

// objectCases are valid and invalid documents of the kinds other than Pod.
var objectCases = []string{
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "1", "a.b-C_d": x}, binaryData: {z: AAEC}, immutable: true}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: A_b}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: A}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {"a b": c}, annotations: {"c d": e}}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {"a/b": x}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {"..": x, "..a": y}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: x}, binaryData: {a: AAEC}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, binaryData: {"a b": AAEC}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "` + strings.Repeat("x", 1<<20) + `"}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "` + strings.Repeat("x", 1<<20) + `", b: "x"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: "1"}, data: {b: AAEC}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {"a b": "1"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: example.com/own}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/tls, stringData: {tls.crt: "", tls.key: ""}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/tls, stringData: {tls.crt: a}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/basic-auth, stringData: {username: a}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/basic-auth}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/ssh-auth, stringData: {ssh-privatekey: a}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/ssh-auth, stringData: {ssh-privatekey: ""}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: "{}"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: "{"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/dockercfg, stringData: {a: "{}"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/dockercfg, stringData: {.dockercfg: "[]"}}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/service-account-token}`,
	`{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {kubernetes.io/service-account.name: b}}, type: kubernetes.io/service-account-token}`,
	`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
	`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce, ReadWriteOncePod], resources: {requests: {storage: 0}}}}`,
	`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: A b, volumeMode: Tape}}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1000000000, globalDefault: true, description: x}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1000000001}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: -5, preemptionPolicy: Never}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, preemptionPolicy: Sometimes}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: system-a}, value: 1}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: system-node-critical}, value: 2000001000}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: system-cluster-critical}, value: 2000000001}`,
	`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a, namespace: b}, value: 1}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: runc}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a.b}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a, overhead: {podFixed: {cpu: 10m, memory: 1Mi}}}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a, overhead: {podFixed: {cpu: -10m}}}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a, scheduling: {nodeSelector: {a: b}, tolerations: [{operator: Exists}]}}`,
	`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a, scheduling: {nodeSelector: {"a b": c}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce, ReadOnlyMany], capacity: {storage: 1Gi}, hostPath: {path: /a}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOncePod], capacity: {storage: 1Gi}, nfs: {server: a, path: /a}, mountOptions: [ro], claimRef: {namespace: a, name: b}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce, ReadWriteOncePod], capacity: {storage: 1Gi}, hostPath: {path: /a}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [Any], capacity: {storage: 0}, hostPath: {path: /a}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, local: {path: /a}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, local: {path: /a/..}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /a}, nodeAffinity: {}}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /a}, persistentVolumeReclaimPolicy: Burn, volumeMode: Tape, storageClassName: A b}}`,
	`{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}}`,
	`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: kubernetes.io/no-provisioner}`,
	`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: podstead.io/directory, parameters: {path: /a}, reclaimPolicy: Delete, volumeBindingMode: WaitForFirstConsumer}`,
	`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: A b}}`,
	`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: kubernetes.io/no-provisioner, reclaimPolicy: Recycle, volumeBindingMode: Late}`,
}

// upstreamObjectFaults validates a document as the API server does.
func upstreamObjectFaults(t *testing.T, text string) field.ErrorList {
	t.Helper()
	convert := func(from, to runtime.Object) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(text), from); err != nil {
			t.Fatal(err)
		}
		legacyscheme.Scheme.Default(from)
		if err := legacyscheme.Scheme.Convert(from, to, nil); err != nil {
			t.Fatal(err)
		}
		if o, ok := to.(metav1.Object); ok && o.GetNamespace() == "" {
			o.SetNamespace(metav1.NamespaceDefault)
		}
	}
	switch {
	case strings.Contains(text, "kind: ConfigMap"):
		to := &core.ConfigMap{}
		convert(&v1.ConfigMap{}, to)
		return validation.ValidateConfigMap(to)
	case strings.Contains(text, "kind: Secret"):
		to := &core.Secret{}
		convert(&v1.Secret{}, to)
		return validation.ValidateSecret(to)
	case strings.Contains(text, "kind: PersistentVolumeClaim"):
		to := &core.PersistentVolumeClaim{}
		convert(&v1.PersistentVolumeClaim{}, to)
		return validation.ValidatePersistentVolumeClaim(to, validation.ValidationOptionsForPersistentVolumeClaim(to, nil))
	case strings.Contains(text, "kind: PersistentVolume,"):
		to := &core.PersistentVolume{}
		convert(&v1.PersistentVolume{}, to)
		to.Namespace = ""
		return validation.ValidatePersistentVolume(to, validation.ValidationOptionsForPersistentVolume(to, nil))
	case strings.Contains(text, "kind: StorageClass"):
		to := &storage.StorageClass{}
		convert(&storagev1.StorageClass{}, to)
		to.Namespace = ""
		return storagevalidation.ValidateStorageClass(to)
	case strings.Contains(text, "kind: PriorityClass"):
		to, namespaced := &scheduling.PriorityClass{}, strings.Contains(text, "namespace:")
		convert(&schedulingv1.PriorityClass{}, to)
		if !namespaced {
			to.Namespace = ""
		}
		return schedulingvalidation.ValidatePriorityClass(to)
	default:
		to := &node.RuntimeClass{}
		convert(&nodev1.RuntimeClass{}, to)
		to.Namespace = ""
		return nodevalidation.ValidateRuntimeClass(to)
	}
}

// TestObjectsAsUpstream compares which objects are rejected, and at which fields.
func TestObjectsAsUpstream(t *testing.T) {
	for _, text := range objectCases {
		_, faults := manifest.NewLoader("node",
			manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: "u", Data: []byte(text)})
		var ours, theirs []string
		for _, fault := range faults {
			ours = append(ours, topField(fault.Path))
		}
		for _, err := range upstreamObjectFaults(t, text) {
			theirs = append(theirs, exactField(text, topField(err.Field)))
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		ours, theirs = slices.Compact(ours), slices.Compact(theirs)
		if !slices.Equal(ours, theirs) {
			t.Errorf("%.200s\nours:     %q %v\nupstream: %q %v", text, ours, faults, theirs, upstreamObjectFaults(t, text))
		}
	}
}

// exactField returns the field of a manifest that upstream means by a path.
func exactField(text, path string) string {
	switch {
	case path == "[]", path == "":
		return "data"
	case path == "spec.resources":
		return "spec.resources.requests"
	case path == "overhead.limits":
		return "overhead.podFixed"
	case strings.Contains(text, "value: 2000000001"):
		return "value"
	}
	return path
}

// topField returns a path without keys and indexes, which upstream sometimes
// omits.
func topField(path string) string {
	path, _, _ = strings.Cut(path, "[")
	return path
}
