package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest/validation"
)

// objectKinds are the kinds of objects other than pods, in the order in which
// messages list them.
var objectKinds = []string{KindConfigMap, KindSecret, KindClaim, KindService, KindPriorityClass, KindRuntimeClass,
	KindVolume, KindStorageClass}

// kindVersions are the supported API versions of each kind.
var kindVersions = map[string]string{
	kindPod:           "v1",
	kindPodList:       "v1",
	kindList:          "v1",
	KindConfigMap:     "v1",
	KindSecret:        "v1",
	KindClaim:         "v1",
	KindService:       "v1",
	KindPriorityClass: "scheduling.k8s.io/v1",
	KindRuntimeClass:  "node.k8s.io/v1",
	KindVolume:        "v1",
	KindStorageClass:  "storage.k8s.io/v1",
}

// isClusterScoped reports whether objects of a kind have no namespace.
func isClusterScoped(kind string) bool {
	return kind == KindPriorityClass || kind == KindRuntimeClass || kind == KindVolume || kind == KindStorageClass
}

// newObject returns an empty object of a kind.
func newObject(kind string) Object {
	switch kind {
	case KindConfigMap:
		return Object{ConfigMap: &v1.ConfigMap{}}
	case KindSecret:
		return Object{Secret: &v1.Secret{}}
	case KindClaim:
		return Object{Claim: &v1.PersistentVolumeClaim{}}
	case KindService:
		return Object{Service: &v1.Service{}}
	case KindPriorityClass:
		return Object{PriorityClass: &schedulingv1.PriorityClass{}}
	case KindVolume:
		return Object{Volume: &v1.PersistentVolume{}}
	case KindStorageClass:
		return Object{StorageClass: &storagev1.StorageClass{}}
	default:
		return Object{RuntimeClass: &nodev1.RuntimeClass{}}
	}
}

// loadObject loads an object other than a pod: it is decoded, defaulted and
// validated.
func (u *unitLoad) loadObject(kind string, value map[string]any, at location) {
	twice := duplicateKeys(at.tree)
	object := newObject(kind)
	object.Digest = documentDigest(value, twice)
	_, meta := object.content()

	checker := at.schemaChecker()
	checker.Secret = kind == KindSecret
	faults := duplicateFaults(twice, at)
	faults = append(faults, checker.Check(value, reflect.TypeOf(meta))...)
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, meta)
	}
	if err != nil && len(faults) == 0 {
		// The error text may contain a secret value.
		faults = append(faults, validation.FieldFault{Problem: "cannot be decoded"})
	}
	name := ""
	if meta.GetName() != "" {
		ref := object.Ref()
		if !isClusterScoped(kind) && ref.Namespace == "" {
			ref.Namespace = metav1.NamespaceDefault
		}
		name = ref.String()
	}
	fatal := u.faultsAt(at, name, faults)
	validation.SetObjectDefaults(meta)
	for _, fault := range validation.WithoutConsequences(validation.CheckObject(kind, meta), fatal) {
		u.faultAt(at, name, fault)
	}
	for _, fault := range validation.ObjectWarnings(meta) {
		u.faultAt(at, name, fault)
	}
	clearObject(&object)
	u.acceptObject(object, at)
}

// acceptObject adds an object unless the unit has another one of that name.
func (u *unitLoad) acceptObject(object Object, at location) {
	ref := object.Ref()
	if ref.Name == "" {
		return
	}
	if first, twice := u.names[ref.String()]; twice {
		u.faultAt(at, ref.String(), validation.FieldFault{Path: "metadata.name",
			Problem: "another object in the same file has this kind and name",
			Remedy:  fmt.Sprintf("rename one of them; the first is on line %d", first)})
		return
	}
	u.names[ref.String()] = at.line("metadata.name")
	u.objects = append(u.objects, object)
}

// clearObject removes the metadata that a node cannot use. The annotation of
// kubectl apply would be a second copy of a Secret.
func clearObject(object *Object) {
	kind, meta := object.content()
	kept := metav1.ObjectMeta{Name: meta.GetName(), Namespace: meta.GetNamespace(), Labels: meta.GetLabels(),
		Annotations: meta.GetAnnotations()}
	delete(kept.Annotations, v1.LastAppliedConfigAnnotation)
	if kept.Namespace == "" && !isClusterScoped(kind) {
		kept.Namespace = metav1.NamespaceDefault
	}
	types := metav1.TypeMeta{APIVersion: kindVersions[kind], Kind: kind}
	switch {
	case object.ConfigMap != nil:
		object.ConfigMap.ObjectMeta, object.ConfigMap.TypeMeta = kept, types
	case object.Secret != nil:
		object.Secret.ObjectMeta, object.Secret.TypeMeta = kept, types
	case object.Claim != nil:
		object.Claim.ObjectMeta, object.Claim.TypeMeta = kept, types
		object.Claim.Status = v1.PersistentVolumeClaimStatus{}
	case object.Service != nil:
		object.Service.ObjectMeta, object.Service.TypeMeta = kept, types
		object.Service.Status = v1.ServiceStatus{}
	case object.PriorityClass != nil:
		object.PriorityClass.ObjectMeta, object.PriorityClass.TypeMeta = kept, types
	case object.RuntimeClass != nil:
		object.RuntimeClass.ObjectMeta, object.RuntimeClass.TypeMeta = kept, types
	case object.Volume != nil:
		object.Volume.ObjectMeta, object.Volume.TypeMeta = kept, types
		object.Volume.Status = v1.PersistentVolumeStatus{}
	case object.StorageClass != nil:
		object.StorageClass.ObjectMeta, object.StorageClass.TypeMeta = kept, types
	}
}

// knownKind reports whether this version reads a kind.
func knownKind(kind string) bool {
	return kind == kindPod || kind == kindPodList || kind == kindList || slices.Contains(objectKinds, kind)
}

// mayBeSecret reports whether a chunk that cannot be decoded may contain a
// Secret.
func mayBeSecret(c chunk) bool { return bytes.Contains(c.text, []byte(KindSecret)) }

// quotes are the characters that parsers put around parts of the text in their
// messages.
var quotes = strings.NewReplacer("`", "'", `"`, "'")

// redactQuoted removes from the message of a parser what it quotes of a
// document that may be a Secret.
func redactQuoted(message string) string {
	parts := strings.Split(quotes.Replace(message), "'")
	var out strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			out.WriteString(part)
		} else {
			out.WriteString("…")
		}
	}
	return out.String()
}
