package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/manifest/validation"
)

// loadObject loads an object other than a pod: it is decoded, defaulted and
// validated.
func (u *unitLoad) loadObject(kind string, value map[string]any, at location) {
	twice := duplicateKeys(at.tree)
	object := Object{Digest: documentDigest(value, twice)}
	kindNamed(kind).create(&object)
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
	*meta.GetObjectMeta().(*metav1.ObjectMeta) = kept
	meta.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(kindVersions[kind], kind))
	switch object := meta.(type) {
	case *v1.PersistentVolumeClaim:
		object.Status = v1.PersistentVolumeClaimStatus{}
	case *v1.Service:
		object.Status = v1.ServiceStatus{}
	case *v1.PersistentVolume:
		object.Status = v1.PersistentVolumeStatus{}
	}
}

// knownKind reports whether this version reads a kind.
func knownKind(kind string) bool {
	return kind == kindPod || kind == kindPodList || kind == kindList || slices.Contains(kindNames, kind)
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
