package kubeapi

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// declaredHint is the writeHint of objects that manifests declare.
const declaredHint = "they are declared in manifests; edit these instead"

// objectResources returns the rows of the objects that manifests declare in addition to
// pods, and of their volumes.
func objectResources(src Sources, versions *Versions) []*resource {
	rows := []*resource{
		{
			name: "configmaps", singular: "configmap", kind: "ConfigMap", empty: &v1.ConfigMap{}, short: []string{"cm"},
			namespaced: true,
			columns:    configMapColumns, row: configMapRow, fields: nameFields, writeHint: declaredHint,
			cache: newCache(src.ConfigMaps, versions),
		},
		{
			name: "persistentvolumeclaims", singular: "persistentvolumeclaim", kind: "PersistentVolumeClaim",
			empty: &v1.PersistentVolumeClaim{},
			short: []string{"pvc"}, namespaced: true,
			columns: claimColumns, row: claimRow, fields: nameFields, writeHint: declaredHint,
			cache: newCache(src.Claims, versions),
		},
		{
			name: "services", singular: "service", kind: "Service", empty: &v1.Service{}, short: []string{"svc"},
			namespaced: true, categories: []string{"all"},
			columns: serviceColumns, row: serviceRow, fields: serviceFields, writeHint: declaredHint,
			cache: newCache(src.Services, versions),
		},
		{
			group: "scheduling.k8s.io", version: "v1",
			name: "priorityclasses", singular: "priorityclass", kind: "PriorityClass", empty: &schedulingv1.PriorityClass{},
			short:   []string{"pc"},
			columns: priorityClassColumns, row: priorityClassRow, fields: nameFields, writeHint: declaredHint,
			cache: newCache(src.PriorityClasses, versions),
		},
		{
			group: "node.k8s.io", version: "v1",
			name: "runtimeclasses", singular: "runtimeclass", kind: "RuntimeClass", empty: &nodev1.RuntimeClass{},
			columns: runtimeClassColumns, row: runtimeClassRow, fields: nameFields, writeHint: declaredHint,
			cache: newCache(src.RuntimeClasses, versions),
		},
		{
			group: "storage.k8s.io", version: "v1",
			name: "storageclasses", singular: "storageclass", kind: "StorageClass", empty: &storagev1.StorageClass{},
			short:   []string{"sc"},
			columns: storageClassColumns, row: storageClassRow, fields: nameFields, writeHint: declaredHint,
			cache: newCache(src.StorageClasses, versions),
		},
		{
			name: "persistentvolumes", singular: "persistentvolume", kind: "PersistentVolume", empty: &v1.PersistentVolume{},
			short:   []string{"pv"},
			columns: volumeColumns, row: volumeRow, fields: nameFields,
			writeHint: "those of manifests are written there; podstead volumes lists and removes those of claims",
			cache:     newCache(src.Volumes, versions),
		},
		secretResource(src.Secrets, versions),
	}
	for _, r := range rows {
		r.declared = r.cache.source.List != nil
		r.unsupported = !r.declared
	}
	return rows
}

// secretResource returns the row of Secrets, whose data only callers see who may write them.
func secretResource(src Source, versions *Versions) *resource {
	row := resource{
		name: "secrets", singular: "secret", kind: "Secret", empty: &v1.Secret{}, namespaced: true,
		columns: secretColumns, row: secretRow, fields: secretFields, declared: src.List != nil, writeHint: declaredHint,
	}
	namesOnly, full := row, row
	namesOnly.cache, full.cache = newCache(src, versions), newCache(src, versions)
	if src.List != nil {
		namesOnly.cache = newCache(withoutSecretData(src), versions)
	}
	namesOnly.row = hiddenSecretRow
	namesOnly.adminView = &full
	return &namesOnly
}

// withoutSecretData serves only the metadata and type of Secrets. It drops annotations
// too: kubectl stores the whole manifest in one.
func withoutSecretData(secrets Source) Source {
	return Source{Subscribe: secrets.Subscribe, List: func() []Object {
		all := secrets.List()
		for i, o := range all {
			s := o.(*v1.Secret)
			own := &v1.Secret{Type: s.Type}
			own.Name, own.Namespace, own.UID = s.Name, s.Namespace, s.UID
			own.Labels, own.CreationTimestamp = s.Labels, s.CreationTimestamp
			all[i] = own
		}
		return all
	}}
}

// ObjectSource serves objects that manifests declare. The objects are shared, so that this
// modifies shallow copies.
func ObjectSource[T any, O interface {
	*T
	Object
}](list func() []O, subscribe Subscribe) Source {
	return Source{Subscribe: subscribe, List: func() []Object {
		shared := list()
		out := make([]Object, 0, len(shared))
		for _, o := range shared {
			own := O(new(T))
			*own = *o
			if own.GetUID() == "" {
				// Clients recognize a recreated object by its UID.
				own.SetUID(types.UID(strings.ToLower(kindOf(own)) + "-" + own.GetNamespace() + "-" + own.GetName()))
			}
			out = append(out, own)
		}
		return out
	}}
}

func kindOf(o Object) string {
	switch o.(type) {
	case *v1.ConfigMap:
		return "ConfigMap"
	case *v1.Secret:
		return "Secret"
	case *v1.PersistentVolumeClaim:
		return "PersistentVolumeClaim"
	case *v1.Service:
		return "Service"
	case *schedulingv1.PriorityClass:
		return "PriorityClass"
	case *v1.PersistentVolume:
		return "PersistentVolume"
	case *storagev1.StorageClass:
		return "StorageClass"
	case *nodev1.RuntimeClass:
		return "RuntimeClass"
	}
	return "Object"
}

var (
	configMapColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Data", "Number of keys."),
		column("Age", "Always unknown: a manifest has no creation time."),
	}
	secretColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Type", "Type of the Secret."),
		column("Data", "Number of keys."),
		column("Age", "Always unknown: a manifest has no creation time."),
	}
)

func configMapRow(o Object) []any {
	c := o.(*v1.ConfigMap)
	return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), since(c.CreationTimestamp)}
}

func secretRow(o Object) []any {
	s := o.(*v1.Secret)
	return []any{s.Name, string(s.Type), int64(len(s.Data)), since(s.CreationTimestamp)}
}

func hiddenSecretRow(o Object) []any {
	row := secretRow(o)
	row[2] = "<hidden>"
	return row
}

func secretFields(o Object) fields.Set {
	set := nameFields(o)
	set["type"] = string(o.(*v1.Secret).Type)
	return set
}
