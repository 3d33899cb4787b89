package kubeapi

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// declaredHint is the writeHint of objects that manifests declare.
const declaredHint = "they are declared in manifests; edit these instead"

// objectResources returns the rows of the objects that manifests declare in addition to
// pods.
func objectResources(src Sources, versions *Versions) (rows []*resource) {
	if src.ConfigMaps.List != nil {
		rows = append(rows, &resource{
			name: "configmaps", singular: "configmap", kind: "ConfigMap", empty: &v1.ConfigMap{}, short: []string{"cm"}, namespaced: true,
			columns: configMapColumns, row: configMapRow, fields: nameFields, declared: true, writeHint: declaredHint,
			cache: newCache(src.ConfigMaps, versions),
		})
	}
	if src.Claims.List != nil {
		rows = append(rows, &resource{
			name: "persistentvolumeclaims", singular: "persistentvolumeclaim", kind: "PersistentVolumeClaim", empty: &v1.PersistentVolumeClaim{},
			short: []string{"pvc"}, namespaced: true,
			columns: claimColumns, row: claimRow, fields: nameFields, declared: true, writeHint: declaredHint,
			cache: newCache(src.Claims, versions),
		})
	}
	if src.Secrets.List != nil {
		row := resource{
			name: "secrets", singular: "secret", kind: "Secret", empty: &v1.Secret{}, namespaced: true,
			columns: secretColumns, row: secretRow, fields: secretFields, declared: true, writeHint: declaredHint,
		}
		namesOnly, full := row, row
		namesOnly.cache, full.cache = newCache(withoutSecretData(src.Secrets), versions), newCache(src.Secrets, versions)
		namesOnly.row = hiddenSecretRow
		namesOnly.adminView = &full
		rows = append(rows, &namesOnly)
	}
	return rows
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
	claimColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "Status in the manifest, if any."),
		column("Volume", "Always none: the volume is a directory of this host."),
		column("Capacity", "Requested capacity."),
		column("Access Modes", "Access modes of the claim."),
		column("StorageClass", "Storage class of the claim."),
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

func claimRow(o Object) []any {
	c := o.(*v1.PersistentVolumeClaim)
	var modes []string
	for _, m := range c.Spec.AccessModes {
		switch m {
		case v1.ReadWriteOnce:
			modes = append(modes, "RWO")
		case v1.ReadOnlyMany:
			modes = append(modes, "ROX")
		case v1.ReadWriteMany:
			modes = append(modes, "RWX")
		case v1.ReadWriteOncePod:
			modes = append(modes, "RWOP")
		}
	}
	requested, class := c.Spec.Resources.Requests[v1.ResourceStorage], ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return []any{c.Name, orNone(string(c.Status.Phase)), none, requested.String(), strings.Join(modes, ","), orNone(class), since(c.CreationTimestamp)}
}
